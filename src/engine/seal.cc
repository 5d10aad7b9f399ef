#include "engine/seal.h"

#include <string>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/guarded.h"

namespace penstock::engine {

namespace {

uint64_t DigestOf(const BlockPlan& block, std::span<const uint32_t> content) {
  const uint32_t shape = Crc32c(std::as_bytes(std::span(block.places)), static_cast<uint32_t>(block.header.first_seq));
  return uint64_t{shape} << 32 | Crc32c(std::as_bytes(content));
}

}  // namespace

void SealBlock(BlockPlan& block, std::span<std::byte> memory) {
  std::vector<uint32_t> crcs;
  if (kGuarded) {
    for (const BufferPlace& place : block.places) crcs.push_back(Crc32c(memory.subspan(place.offset, place.length)));
  }
  SealBlock(block, crcs, memory);
}

void SealBlock(BlockPlan& block, std::span<const uint32_t> content, std::span<std::byte> memory) {
  if (kGuarded) block.header.digest = DigestOf(block, content);
  WriteBlockHead(block, memory);
}

void SealHead(BlockPlan& block, std::span<const uint32_t> content, std::span<std::byte> memory) {
  if (kGuarded) block.header.digest = DigestOf(block, content);
  WriteHeadAlone(block, memory);
}

Status InLane(const LaneRequest& request, Status status) {
  return std::move(status).Prefixed(ToString(request.key)).With("lane", int64_t{Raw(request.key.lane)});
}

StepResult NoRoom(const LaneRequest& request, const Status& status, Seq seq, uint64_t rows, uint64_t bytes) {
  if (status.code() == Code::kBusy) return Blocked{Waits::kBudget, bytes};
  if (status.code() != Code::kTooLarge) return InLane(request, status);
  const std::string what = rows == 1 ? "row " + std::to_string(seq) : "rows " + std::to_string(seq) + " to " + std::to_string(seq + rows - 1);
  return InLane(request,
                Status(Code::kTooLarge, what + " take " + std::to_string(bytes) +
                                            " bytes, more than the memory budget allows; give --memory (or memory=) more: " + status.message())
                    .With("seq", static_cast<int64_t>(seq))
                    .With("bytes", static_cast<int64_t>(bytes)));
}

}  // namespace penstock::engine
