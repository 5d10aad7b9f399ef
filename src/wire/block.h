// A block: consecutive rows of one lane, column by column, as it lies in memory, in shared memory and on the wire (engine.md 1).
//
//   BlockHeader                      64 bytes
//   BufferPlace[buffer_count]        16 bytes each
//   buffers, each at a multiple of 64 bytes from the block's start, in the order that the spec fixes
//
// All little-endian. With kHasCursors the first buffer is the rows' cursors (RowCursor each): rows were filtered or multiplied. Without it
// row i has the cursor (first_seq + i, 0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "penstock/ids.h"
#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock {

inline constexpr uint32_t kBlockMagic = 0x4B4C4250;  // "PBLK"
inline constexpr size_t kBlockAlign = 64;
inline constexpr uint32_t kHasCursors = 1;
inline constexpr uint64_t kMaxBlockRows = uint64_t{1} << 32;  // rows may be empty: their number needs a cap of its own

struct BlockHeader {
  uint32_t magic = kBlockMagic;
  uint32_t flags = 0;
  uint64_t rows = 0;
  uint64_t first_seq = 0;  // cursor of the first row…
  uint32_t first_child = 0;
  uint32_t buffer_count = 0;
  uint64_t end_seq = 0;  // …and the cursor after the last: where the next block begins
  uint32_t end_child = 0;
  uint32_t reserved0 = 0;
  uint64_t total_bytes = 0;  // of the whole block
  uint64_t digest = 0;       // of rows and content, folded into the lane's rolling digest by the client
};
static_assert(sizeof(BlockHeader) == 64);

struct BufferPlace {
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct RowCursor {
  uint64_t seq = 0;
  uint32_t child = 0;
  uint32_t reserved = 0;
};

// What the cores know of a block: never its bytes.
struct BlockInfo {
  uint64_t rows = 0;
  Cursor first;
  Cursor end;
  uint64_t bytes = 0;
  uint64_t digest = 0;
};

// A checked look at a block. Holds no memory: whoever holds the bytes keeps them alive.
class BlockView {
 public:
  BlockView() = default;

  const BlockHeader& header() const { return *header_; }
  uint64_t rows() const { return header_->rows; }
  BlockInfo info() const;
  Cursor cursor(uint64_t row) const;                      // of a row; rows() gives the end
  size_t buffer_count() const { return places_.size(); }  // cursors not counted
  std::span<const std::byte> buffer(size_t i) const { return bytes_.subspan(places_[i].offset, places_[i].length); }

 private:
  friend Result<BlockView> CheckBlock(const Spec& spec, std::span<const std::byte> bytes);
  std::span<const std::byte> bytes_;
  const BlockHeader* header_ = nullptr;
  std::span<const BufferPlace> places_;  // of the columns
  std::span<const RowCursor> cursors_;
};

// Validates everything about a block before anything of it is used: magic, counts, bounds, alignment, offsets that start at 0 and never fall,
// values that are as long as offsets and shapes say, cursors that rise.
Result<BlockView> CheckBlock(const Spec& spec, std::span<const std::byte> bytes);

// Where the buffers of a block will lie, before its memory is there.
struct BlockPlan {
  BlockHeader header;
  std::vector<BufferPlace> places;  // cursors first where there are any
};
BlockPlan PlanBlock(uint64_t rows, Cursor first, Cursor end, bool has_cursors, std::span<const uint64_t> buffer_lengths);
// Writes header and places at the start of `out` (at least total_bytes, 64-byte aligned) and zeros between the buffers, so that equal rows are
// equal bytes; the buffers are the caller's to fill.
void WriteBlockHead(const BlockPlan& plan, std::span<std::byte> out);

// A block whose buffers stay where they are: its first HeadBytes(), and what follows them, zeros between the buffers included. `buffers` are as
// long as planned.
uint64_t HeadBytes(const BlockPlan& plan);
void WriteHeadAlone(const BlockPlan& plan, std::span<std::byte> out);
std::vector<std::span<const std::byte>> BehindHead(const BlockPlan& plan, std::span<const std::span<const std::byte>> buffers);

}  // namespace penstock
