#include "wire/frame.h"

#include <bit>
#include <cstring>
#include <string>

#include "base/crc32c.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian and written as they lie in memory");

// The header as it lies in memory and on the wire.
struct RawHeader {
  uint32_t magic;
  uint8_t version;
  uint8_t type;
  uint16_t flags;
  uint32_t stream;
  uint32_t body_bytes;
  uint64_t request;
  uint64_t payload_bytes;
  uint32_t payload_crc;
  uint32_t header_crc;
};
static_assert(sizeof(RawHeader) == kFrameHeaderBytes);

uint32_t CrcOf(const RawHeader& raw) { return Crc32c(std::as_bytes(std::span(&raw, 1)).first(kFrameHeaderBytes - sizeof(uint32_t))); }

Status CheckCaps(const RawHeader& raw, const FrameCaps& caps) {
  if (raw.body_bytes > caps.body) {
    return Status(Code::kTooLarge, "a frame with a body of " + std::to_string(raw.body_bytes) + " bytes; at most " + std::to_string(caps.body) +
                                       " are taken" + (caps.body == kMaxBeforeHello ? " before hello" : ""));
  }
  if (raw.payload_bytes > caps.payload) {
    return Status(Code::kTooLarge, "a frame with a payload of " + std::to_string(raw.payload_bytes) + " bytes; at most " +
                                       std::to_string(caps.payload) + " are taken" + (caps.payload == 0 ? " before hello" : ""));
  }
  return {};
}

// Each type has a form; a frame of another form is damage or an attack, not a version.
Status CheckForm(const RawHeader& raw) {
  const auto wrong = [&](const char* what) { return Status(Code::kData, "a frame of type " + std::to_string(raw.type) + " with " + what); };
  const auto type = static_cast<FrameType>(raw.type);
  if (type != FrameType::kBlock && raw.payload_bytes != 0) return wrong("a payload");
  if (type != FrameType::kBlock && (raw.flags & kPacked) != 0) return wrong("a packed payload");
  switch (type) {
    case FrameType::kControl:
    case FrameType::kGoodbye: return raw.body_bytes == 0 ? wrong("no body") : Status();
    case FrameType::kPing: return raw.body_bytes != 0 ? wrong("a body") : Status();
    case FrameType::kBlock:
      if ((raw.body_bytes != 0) != ((raw.flags & kPacked) != 0)) return wrong("a body that does not go with its flags");
      return raw.payload_bytes == 0 ? wrong("no payload") : Status();
    case FrameType::kLent: return raw.body_bytes != kLentBytes ? wrong("a body of the wrong size") : Status();
  }
  return Status(Code::kMismatch, "an unknown frame type " + std::to_string(raw.type) + "; the peer may be of a newer version");
}

}  // namespace

FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header) {
  RawHeader raw{kFrameMagic,
                kFrameVersion,
                static_cast<uint8_t>(header.type),
                header.flags,
                header.stream,
                header.body_bytes,
                header.request,
                header.payload_bytes,
                header.payload_crc,
                0};
  raw.header_crc = CrcOf(raw);
  return std::bit_cast<FrameHeaderBytes>(raw);
}

Result<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes, const FrameCaps& caps) {
  RawHeader raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.magic != kFrameMagic) return Status(Code::kMismatch, "what came is not a penstock frame; is the address that of a penstock service?");
  if (raw.version != kFrameVersion) {
    return Status(Code::kMismatch, "frames of version " + std::to_string(raw.version) + "; this side reads version " + std::to_string(kFrameVersion));
  }
  if (raw.header_crc != CrcOf(raw)) return Status(Code::kData, "a frame header was damaged on its way (crc32c)");
  PENSTOCK_TRY(CheckForm(raw));
  if ((raw.flags & ~(kIsReply | kPayloadCrc | kPacked)) != 0) return Status(Code::kMismatch, "unknown frame flags " + std::to_string(raw.flags));
  PENSTOCK_TRY(CheckCaps(raw, caps));
  return FrameHeader{static_cast<FrameType>(raw.type), raw.flags, raw.stream, raw.body_bytes, raw.request, raw.payload_bytes, raw.payload_crc};
}

std::array<std::byte, kLentBytes> EncodeLent(const LentExtent& lent) {
  static_assert(sizeof(LentExtent) == kLentBytes);
  return std::bit_cast<std::array<std::byte, kLentBytes>>(lent);
}

LentExtent DecodeLent(std::span<const std::byte, kLentBytes> bytes) {
  LentExtent lent;
  std::memcpy(&lent, bytes.data(), sizeof lent);
  return lent;
}

}  // namespace penstock
