#include "client/batcher.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "client/padding.h"

namespace penstock {
namespace {

constexpr uint64_t AlignUp(uint64_t bytes) { return (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign; }

// Buffers of these lengths, one after another in one extent.
Result<std::vector<std::span<std::byte>>> Carve(ExtentAllocator& heap, const std::vector<uint64_t>& lengths, Extent& extent) {
  uint64_t total = kBlockAlign;  // never empty: an empty buffer has an address, too
  for (const uint64_t length : lengths) total += AlignUp(length);
  PENSTOCK_ASSIGN(extent, heap.Allocate(total));
  std::vector<std::span<std::byte>> buffers;
  uint64_t at = 0;
  for (const uint64_t length : lengths) {
    buffers.push_back(extent.bytes().subspan(at, length));
    at += AlignUp(length);
  }
  return buffers;
}

bool IsRagged(const ColumnSpec& column) { return std::find(column.shape.begin(), column.shape.end(), kRagged) != column.shape.end(); }

std::vector<Piece> PiecesOf(std::span<const SlicedBlock> slices) {
  std::vector<Piece> pieces;
  for (const auto& [slice, block] : slices) {
    const bool goes_on = !pieces.empty() && pieces.back().lane == slice.grant.lane && pieces.back().end == slice.first;
    if (goes_on) {
      pieces.back().end = slice.end;
      pieces.back().rows += slice.rows;
    } else {
      pieces.push_back({slice.grant.lane, slice.first, slice.end, slice.rows});
    }
  }
  return pieces;
}

std::vector<ColumnView> ViewsOf(const std::vector<ColumnShape>& shapes, const HeldBlock& block) {
  std::vector<ColumnView> views;
  size_t buffer = 0;
  for (const ColumnShape& shape : shapes) {
    std::vector<std::span<const std::byte>> buffers;
    for (size_t i = 0; i <= shape.levels; ++i) buffers.push_back(block.view.buffer(buffer++));
    views.push_back(ColumnView::Of(shape, block.view.rows(), buffers));
  }
  return views;
}

BlockPlan PlanCopy(const std::vector<ColumnView>& views, const HeldBlock& block, uint64_t row, uint64_t rows) {
  std::vector<uint64_t> lengths;
  for (const ColumnView& view : views) view.BufferLengths(row, rows, lengths);
  const bool has_cursors = (block.view.header().flags & kHasCursors) != 0;
  return PlanBlock(rows, block.view.cursor(row), block.view.cursor(row + rows), has_cursors, lengths);
}

}  // namespace

uint64_t CopiedBytes(const Spec& spec, const HeldBlock& block, uint64_t row, uint64_t rows) {
  const std::vector<ColumnShape> shapes(spec.columns.begin(), spec.columns.end());
  return PlanCopy(ViewsOf(shapes, block), block, row, rows).header.total_bytes;
}

Result<HeldBlock> CopyRows(const Spec& spec, const HeldBlock& block, uint64_t row, uint64_t rows) {
  const std::vector<ColumnShape> shapes(spec.columns.begin(), spec.columns.end());
  const std::vector<ColumnView> views = ViewsOf(shapes, block);
  const bool has_cursors = (block.view.header().flags & kHasCursors) != 0;
  const BlockPlan plan = PlanCopy(views, block, row, rows);
  PENSTOCK_ASSIGN(Extent extent, HeapExtents().Allocate(plan.header.total_bytes));
  WriteBlockHead(plan, extent.bytes());
  size_t place = 0;
  if (has_cursors) {
    auto* cursors = reinterpret_cast<RowCursor*>(extent.bytes().data() + plan.places[place++].offset);
    for (uint64_t i = 0; i < rows; ++i) cursors[i] = {block.view.cursor(row + i).seq, block.view.cursor(row + i).child, 0};
  }
  for (const ColumnView& view : views) {
    std::vector<std::span<std::byte>> places;
    for (size_t i = 0; i <= view.shape->levels; ++i, ++place)
      places.push_back(extent.bytes().subspan(plan.places[place].offset, plan.places[place].length));
    view.CopyTo(row, rows, places);
  }
  PENSTOCK_ASSIGN(const BlockView view, CheckBlock(spec, extent.bytes()));
  return HeldBlock{std::move(extent), view};
}

// What a batch stands on.
struct Batcher::Memory {
  explicit Memory(std::shared_ptr<std::atomic<uint64_t>> count) : dropped(std::move(count)) {}
  ~Memory() { dropped->fetch_add(1, std::memory_order_relaxed); }
  Memory(const Memory&) = delete;
  const std::shared_ptr<std::atomic<uint64_t>> dropped;
  std::vector<BlockPtr> blocks;
  std::vector<Extent> extents;
};

Batcher::Batcher(const Layout& layout) : spec_(std::make_shared<const Spec>(layout.row_spec)) {
  size_t buffer = 0;
  for (const ColumnSpec& column : spec_->columns) {
    shapes_.emplace_back(column);
    first_buffer_.push_back(buffer);
    buffer += BufferCount(column);
  }
  pad_ = layout.pad && std::any_of(spec_->columns.begin(), spec_->columns.end(), IsRagged);
}

Result<Batch> Batcher::Make(std::span<const SlicedBlock> slices, bool own) const {
  auto memory = std::make_shared<Memory>(dropped_);
  std::vector<ColumnData> columns;
  std::shared_ptr<const Spec> spec = spec_;
  if (pad_) {
    Spec padded = *spec_;
    PENSTOCK_TRY(Pad(slices, *memory, columns, padded));
    spec = std::make_shared<const Spec>(std::move(padded));
  } else if (slices.size() == 1 && !own) {
    PENSTOCK_TRY(Lend(slices.front(), *memory, columns));
  } else {
    PENSTOCK_TRY(Join(slices, *memory, columns));
  }
  const uint64_t rows =
      std::accumulate(slices.begin(), slices.end(), uint64_t{0}, [](uint64_t sum, const SlicedBlock& s) { return sum + s.slice.rows; });
  return Batch(rows, std::move(spec), std::move(columns), PiecesOf(slices), std::move(memory));
}

ColumnView Batcher::View(const SlicedBlock& slice, size_t column) const {
  std::vector<std::span<const std::byte>> buffers;
  for (size_t i = 0; i <= shapes_[column].levels; ++i) buffers.push_back(slice.block->view.buffer(first_buffer_[column] + i));
  return ColumnView::Of(shapes_[column], slice.block->view.rows(), buffers);
}

Status Batcher::Lend(const SlicedBlock& slice, Memory& memory, std::vector<ColumnData>& columns) const {
  memory.blocks.push_back(slice.block);
  for (size_t c = 0; c < shapes_.size(); ++c) {
    const ColumnShape& shape = shapes_[c];
    const ColumnView view = View(slice, c);
    uint64_t first = slice.slice.row;
    uint64_t count = slice.slice.rows;
    ColumnData data;
    for (size_t level = 0; level < shape.levels; ++level) {
      first *= shape.fan[level];
      count *= shape.fan[level];
      const int64_t* offsets = view.offsets[level] + first;
      const int64_t base = offsets[0];
      const uint64_t length = (count + 1) * sizeof(int64_t);
      if (base != 0) {
        PENSTOCK_ASSIGN(auto buffers, Carve(heap_, {length}, memory.extents.emplace_back()));
        auto* rebased = reinterpret_cast<int64_t*>(buffers[0].data());
        for (uint64_t i = 0; i <= count; ++i) rebased[i] = offsets[i] - base;
        data.buffers.emplace_back(buffers[0]);
      } else {
        data.buffers.emplace_back(reinterpret_cast<const std::byte*>(offsets), length);
      }
      first = static_cast<uint64_t>(base);
      count = static_cast<uint64_t>(offsets[count] - base);
    }
    const uint64_t item = shape.fan[shape.levels];
    data.buffers.emplace_back(slice.block->view.buffer(first_buffer_[c] + shape.levels).subspan(first * item, count * item));
    columns.push_back(std::move(data));
  }
  return {};
}

Status Batcher::Join(std::span<const SlicedBlock> slices, Memory& memory, std::vector<ColumnData>& columns) const {
  for (size_t c = 0; c < shapes_.size(); ++c) {
    const size_t levels = shapes_[c].levels;
    std::vector<std::vector<uint64_t>> parts;  // a slice's lengths
    std::vector<uint64_t> lengths(levels + 1, 0);
    for (const SlicedBlock& slice : slices) {
      View(slice, c).BufferLengths(slice.slice.row, slice.slice.rows, parts.emplace_back());
      for (size_t i = 0; i <= levels; ++i) lengths[i] += parts.back()[i] - (i < levels ? sizeof(int64_t) : 0);
    }
    for (size_t i = 0; i < levels; ++i) lengths[i] += sizeof(int64_t);
    PENSTOCK_ASSIGN(auto buffers, Carve(heap_, lengths, memory.extents.emplace_back()));
    std::vector<uint64_t> at(levels + 1, 0);
    for (size_t s = 0; s < slices.size(); ++s) {
      std::vector<std::span<std::byte>> places;
      std::vector<int64_t> bases(levels, 0);
      for (size_t i = 0; i <= levels; ++i) {
        places.push_back(buffers[i].subspan(at[i], parts[s][i]));
        // The part's first offset falls on the last one of the part before: it is that one's value that the part is moved by.
        if (i < levels && s > 0) std::memcpy(&bases[i], places[i].data(), sizeof(int64_t));
      }
      View(slices[s], c).CopyTo(slices[s].slice.row, slices[s].slice.rows, places);
      for (size_t i = 0; i < levels; ++i) {
        auto* offsets = reinterpret_cast<int64_t*>(places[i].data());
        const size_t entries = parts[s][i] / sizeof(int64_t);
        for (size_t e = 0; bases[i] != 0 && e < entries; ++e) offsets[e] += bases[i];
        at[i] += parts[s][i] - sizeof(int64_t);
      }
      at[levels] += parts[s][levels];
    }
    columns.push_back({{buffers.begin(), buffers.end()}});
  }
  return {};
}

Status Batcher::Pad(std::span<const SlicedBlock> slices, Memory& memory, std::vector<ColumnData>& columns, Spec& spec) const {
  for (size_t c = 0; c < shapes_.size(); ++c) {
    std::vector<ViewRows> rows;
    for (const SlicedBlock& slice : slices) rows.push_back({View(slice, c), slice.slice.row, slice.slice.rows});
    spec.columns[c] = PaddedSpec(spec_->columns[c], rows);
    PENSTOCK_ASSIGN(auto buffers, Carve(heap_, PaddedLengths(spec.columns[c], rows), memory.extents.emplace_back()));
    WritePadded(spec_->columns[c], spec.columns[c], rows, buffers);
    columns.push_back({{buffers.begin(), buffers.end()}});
  }
  return {};
}

}  // namespace penstock
