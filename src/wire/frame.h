// What goes over a socket: frames. A fixed header, a body, a payload; all numbers little-endian.
//
//    0  u32  magic "PSTK"
//    4  u8   version of the frame layout
//    5  u8   type
//    6  u16  flags
//    8  u32  stream: the open lane this is about; 0 for the session itself
//   12  u32  body length
//   16  u64  request id; 0 where nobody waits
//   24  u64  payload length
//   32  u32  crc32c of the payload, with kPayloadCrc
//   36  u32  crc32c of the 36 bytes before
//
// Control and Goodbye carry a FlatBuffers message (codec.h) as their body, Block a block as its payload (with kPacked, packed, and its head as the
// body: packing.h), Lent an extent in shared memory as its body.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/constants.h"
#include "penstock/status.h"

namespace penstock {

inline constexpr uint32_t kFrameMagic = 0x4B545350;
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 40;

enum class FrameType : uint8_t {
  kControl = 1,
  kPing = 2,  // "I am here"
  kBlock = 3,
  kLent = 4,     // a block in shared memory
  kGoodbye = 5,  // the last frame: a Failed that says why
};

inline constexpr uint16_t kIsReply = 1;  // the request id is one of the receiver's
inline constexpr uint16_t kPayloadCrc = 2;
inline constexpr uint16_t kPacked = 4;  // never sent to who has not asked for it (Open.compression)

struct FrameHeader {
  FrameType type = FrameType::kControl;
  uint16_t flags = 0;
  uint32_t stream = 0;
  uint32_t body_bytes = 0;
  uint64_t request = 0;
  uint64_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

// What a receiver takes: known before anything is allocated.
struct FrameCaps {
  uint64_t body = kMaxControlBody;
  uint64_t payload = kMaxBlock;
};
inline constexpr FrameCaps kCapsBeforeHello{kMaxBeforeHello, 0};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;
FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header);

// Mismatch for bytes that are not ours or of another frame version, Data for damage, TooLarge for what is over the caps.
Result<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> bytes, const FrameCaps& caps);

// The body of Lent.
struct LentExtent {
  uint64_t tag = 0;  // segment << 40 | offset / 64
  uint64_t bytes = 0;
};
inline constexpr size_t kLentBytes = 16;
std::array<std::byte, kLentBytes> EncodeLent(const LentExtent& lent);
LentExtent DecodeLent(std::span<const std::byte, kLentBytes> bytes);

}  // namespace penstock
