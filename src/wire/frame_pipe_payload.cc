// How a pipe takes in the payload of a block, packed or not.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "wire/frame_pipe.h"

namespace penstock {

Status FramePipe::BeginPayload() {
  Packing packing;
  if (packed()) {
    PENSTOCK_ASSIGN(packing, DecodePackedHead(body_, header_.payload_bytes, caps_.payload));
  }
  const uint64_t bytes = packed() ? packing.raw_bytes : header_.payload_bytes;
  PENSTOCK_ASSIGN(payload_, owner_->OnPayloadComing(header_, bytes));
  if (payload_.size() > 0 && payload_.size() < bytes) return Status(Code::kInternal, "too little memory was given for a block");
  if (packed() && payload_.size() > 0) {
    if (unpacker_ == nullptr) unpacker_ = std::make_unique<Unpacker>();
    unpacker_->Begin(std::move(packing), payload_.bytes());
  }
  payload_got_ = 0;
  wants_ = Wants::kPayload;
  return {};
}

// Where the next bytes of a payload that is kept go.
std::span<std::byte> FramePipe::PayloadRoom() {
  if (packed()) return unpacker_->room();
  return payload_.bytes().first(header_.payload_bytes).subspan(payload_got_);
}

Status FramePipe::WrotePayload(size_t bytes) {
  payload_got_ += bytes;
  return packed() ? unpacker_->Wrote(bytes) : Status();
}

Status FramePipe::TakePayload() {
  const bool kept = payload_.size() > 0;
  while (begin_ < end_ && payload_got_ < header_.payload_bytes) {
    size_t piece = std::min<uint64_t>(end_ - begin_, header_.payload_bytes - payload_got_);
    if (kept) {
      const std::span<std::byte> room = PayloadRoom();
      piece = std::min(piece, room.size());
      std::memcpy(room.data(), staging_.data() + begin_, piece);
      PENSTOCK_TRY(WrotePayload(piece));
    } else {
      payload_got_ += piece;
    }
    begin_ += piece;
  }
  if (payload_got_ < header_.payload_bytes) return {};
  if (kept && (header_.flags & kPayloadCrc) != 0) {
    const uint32_t crc = packed() ? unpacker_->crc() : Crc32c(payload_.bytes().first(payload_got_));
    if (crc != header_.payload_crc) return Status(Code::kData, "a block was damaged on its way (crc32c)");
  }
  return Deliver();
}

void FramePipe::SkipPayload(uint32_t stream) {
  if (wants_ == Wants::kPayload && header_.stream == stream) payload_.Reset();
}

}  // namespace penstock
