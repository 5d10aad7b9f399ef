#include "engine/seal.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "base/guarded.h"

namespace penstock::engine {

namespace {

uint64_t DigestOf(const BlockPlan& block, uint32_t content) {
  const uint32_t shape = Crc32c(std::as_bytes(std::span(block.places)), static_cast<uint32_t>(block.header.first_seq));
  return uint64_t{shape} << 32 | content;
}

}  // namespace

void SealBlock(BlockPlan& block, std::span<std::byte> memory) {
  uint32_t content = 0;
  if (kGuarded) {
    for (const BufferPlace& place : block.places) content = Crc32c(memory.subspan(place.offset, place.length), content);
    block.header.digest = DigestOf(block, content);
  }
  WriteBlockHead(block, memory);
}

void CopyAndSealBlock(BlockPlan& block, std::span<const std::span<const std::byte>> buffers, std::span<std::byte> memory) {
  uint32_t content = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::byte* const to = memory.data() + block.places[i].offset;
    if (kGuarded) {
      content = CopyWithCrc32c(buffers[i], to, content);
    } else {
      std::copy(buffers[i].begin(), buffers[i].end(), to);
    }
  }
  if (kGuarded) block.header.digest = DigestOf(block, content);
  WriteBlockHead(block, memory);
}

void SealHead(BlockPlan& block, std::span<const std::span<const std::byte>> buffers, std::span<std::byte> memory) {
  uint32_t content = 0;
  if (kGuarded) {
    for (const auto buffer : buffers) content = Crc32c(buffer, content);
    block.header.digest = DigestOf(block, content);
  }
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
