// Makes a Batch of bytes from the slices that the shelf decided on.
//
// One slice is handed over without a copy: values by pointer into the block, offsets too where they start at 0, else rebased into a small
// buffer of the batch's own. Several slices are joined by memcpy into one heap extent. With Layout::pad ragged dimensions become as long as the
// longest in the batch, filled with zeros (strings: ""); the batch's spec then has these lengths and no ragged dimension.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/columns.h"
#include "base/extent.h"
#include "client/shelf.h"
#include "penstock/client.h"
#include "penstock/layout.h"
#include "wire/block.h"

namespace penstock {

// A block in memory, checked. Freed when the last batch over it dies, on whatever thread that is.
struct HeldBlock {
  Extent extent;
  BlockView view;
};
using BlockPtr = std::shared_ptr<const HeldBlock>;

// Rows of a block as a block of their own, on the heap; and how many bytes that takes.
uint64_t CopiedBytes(const Spec& spec, const HeldBlock& block, uint64_t row, uint64_t rows);
Result<HeldBlock> CopyRows(const Spec& spec, const HeldBlock& block, uint64_t row, uint64_t rows);

// Where a slice lies.
struct SlicedBlock {
  Slice slice;
  BlockPtr block;
};

// Thread-compatible: one loop's thread at a time.
class Batcher {
 public:
  explicit Batcher(const Layout& layout);

  // `own`: the batch must not hold its blocks (the loop keeps too many): copied even where it need not be.
  // Fails with Busy or TooLarge where memory for a joined batch cannot be had.
  Result<Batch> Make(std::span<const SlicedBlock> slices, bool own) const;
  uint64_t dropped() const { return dropped_->load(std::memory_order_relaxed); }  // batches that are gone; any thread

 private:
  struct Memory;
  ColumnView View(const SlicedBlock& slice, size_t column) const;
  Status Lend(const SlicedBlock& slice, Memory& memory, std::vector<ColumnData>& columns) const;
  Status Join(std::span<const SlicedBlock> slices, Memory& memory, std::vector<ColumnData>& columns) const;
  Status Pad(std::span<const SlicedBlock> slices, Memory& memory, std::vector<ColumnData>& columns, Spec& spec) const;

  std::shared_ptr<const Spec> spec_;
  std::vector<ColumnShape> shapes_;
  std::vector<size_t> first_buffer_;  // of each column, in a block
  bool pad_;                          // and there is something to pad
  mutable HotExtents heap_;
  std::shared_ptr<std::atomic<uint64_t>> dropped_ = std::make_shared<std::atomic<uint64_t>>(0);  // batches outlive the batcher
};

}  // namespace penstock
