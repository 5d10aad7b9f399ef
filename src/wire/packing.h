// How blocks are packed for their way over a network, and unpacked where they arrive. Pure; no thread of its own.
//
// A block is packed in place, in pieces of kPackPiece raw bytes (the last may be shorter), each by itself: what a piece becomes is written where
// the pieces before it end, and never reaches beyond its own raw bytes. So a packed block needs no memory but the block's own and a scratch of one
// piece, and so does unpacking. A piece that would not get smaller by a sixteenth stays as it is: a piece as long as its raw bytes is not packed.
//
// A packed block travels with its head as the frame's body, so that nothing that holds for a stream or a session says whether bytes are packed:
//    0  u64  raw bytes of the block
//    8  u32  codec
//   12  u32  length of each piece, one after the other
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/constants.h"
#include "base/extent.h"
#include "penstock/status.h"

namespace penstock {

inline constexpr uint64_t kPackPiece = 128 * kKiB;
inline constexpr uint64_t kPackerBytes = 768 * kKiB;  // what a Packer takes at most
inline constexpr size_t kLeastPackedHead = 16;

std::string_view Name(PackCodec codec);

// What a codec works with; made when it first does.
struct PackTools;
struct UnpackTools;

// Packs blocks, one at a time. Keeps its scratch.
class Packer {
 public:
  Packer();
  ~Packer();
  // Packs `block` in place. Of codec kNone, and nothing has changed, where no piece of it gets smaller.
  Packing Pack(PackCodec codec, std::span<std::byte> block);

 private:
  std::unique_ptr<PackTools> tools_;
};

std::string EncodePackedHead(const Packing& packing);
// Data for a head that is not whole, of an unknown codec, or whose pieces are not those of its raw bytes and of `payload_bytes`; TooLarge for raw
// bytes over `cap`.
Result<Packing> DecodePackedHead(std::span<const std::byte> head, uint64_t payload_bytes, uint64_t cap);

// Unpacks one block after the other, as its bytes come.
class Unpacker {
 public:
  Unpacker();
  ~Unpacker();
  // `into`: at least raw_bytes. It must stay until all bytes are there, or until the next Begin.
  void Begin(Packing packing, std::span<std::byte> into);
  // Where the next bytes belong: not empty until all are there.
  std::span<std::byte> room();
  // So many bytes were written there. Data where what they complete is damaged.
  Status Wrote(size_t bytes);
  uint32_t crc() const { return crc_; }  // crc32c of what came, once all is there

 private:
  Status UnpackPiece(std::span<std::byte> raw);

  Packing packing_;
  std::span<std::byte> into_;
  size_t piece_ = 0;
  size_t got_ = 0;  // of it
  uint32_t crc_ = 0;
  std::vector<std::byte> packed_;
  std::unique_ptr<UnpackTools> tools_;
};

}  // namespace penstock
