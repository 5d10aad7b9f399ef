#include "client/padding.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace penstock {
namespace {

uint64_t Values(const ColumnSpec& padded) {
  uint64_t product = 1;
  for (const int64_t length : padded.shape) product *= static_cast<uint64_t>(length);
  return product;
}

// Walks the dimensions of one row in order, and appends what is there or the filling where there is nothing.
class RowWriter {
 public:
  RowWriter(const ColumnSpec& column, const ColumnSpec& padded, std::span<const std::span<std::byte>> buffers)
      : column_(column), padded_(padded), string_(column.dtype == DType::kString), item_(SizeOf(column.dtype)), values_(buffers.back().data()) {
    if (!string_) return;
    offsets_ = reinterpret_cast<int64_t*>(buffers.front().data());
    *offsets_++ = 0;
  }

  void Row(const ColumnView& view, uint64_t row) { Dimension(view, 0, 0, row); }

 private:
  // `entry`: the index of what is being split by dimension `d`, or nothing.
  void Dimension(const ColumnView& view, size_t d, size_t level, std::optional<uint64_t> entry) {
    if (d == column_.shape.size()) return Leaf(view, level, entry);
    const auto length = static_cast<uint64_t>(padded_.shape[d]);
    const bool ragged = column_.shape[d] == kRagged;
    uint64_t first = 0;
    uint64_t count = 0;
    if (entry && ragged) {
      const int64_t* offsets = view.offsets[level];
      first = static_cast<uint64_t>(offsets[*entry]);
      count = static_cast<uint64_t>(offsets[*entry + 1]) - first;
    } else if (entry) {
      first = *entry * length;
      count = length;
    }
    const size_t below = level + (ragged ? 1 : 0);
    if (!string_ && d + 1 == column_.shape.size()) return Run(view, first, count, length);
    for (uint64_t i = 0; i < length; ++i) Dimension(view, d + 1, below, i < count ? std::optional(first + i) : std::nullopt);
  }

  void Run(const ColumnView& view, uint64_t first, uint64_t count, uint64_t length) {
    if (count > 0) std::memcpy(values_, view.values + first * item_, count * item_);
    if (length > count) std::memset(values_ + count * item_, 0, (length - count) * item_);
    values_ += length * item_;
  }

  void Leaf(const ColumnView& view, size_t level, std::optional<uint64_t> entry) {
    if (!string_) return Run(view, entry.value_or(0), entry ? 1 : 0, 1);
    uint64_t bytes = 0;
    if (entry) {
      const auto begin = static_cast<uint64_t>(view.offsets[level][*entry]);
      bytes = static_cast<uint64_t>(view.offsets[level][*entry + 1]) - begin;
      if (bytes > 0) std::memcpy(values_, view.values + begin, bytes);
    }
    values_ += bytes;
    *offsets_ = offsets_[-1] + static_cast<int64_t>(bytes);
    ++offsets_;
  }

  const ColumnSpec& column_;
  const ColumnSpec& padded_;
  const bool string_;
  const size_t item_;
  std::byte* values_;
  int64_t* offsets_ = nullptr;
};

}  // namespace

ColumnSpec PaddedSpec(const ColumnSpec& column, std::span<const ViewRows> rows) {
  ColumnSpec padded = column;
  for (int64_t& length : padded.shape) length = length == kRagged ? 0 : length;
  for (const ViewRows& part : rows) {
    uint64_t first = part.first;
    uint64_t count = part.rows;
    size_t level = 0;
    for (size_t d = 0; d < column.shape.size(); ++d) {
      if (column.shape[d] != kRagged) {
        first *= static_cast<uint64_t>(column.shape[d]);
        count *= static_cast<uint64_t>(column.shape[d]);
        continue;
      }
      const int64_t* offsets = part.view.offsets[level++];
      for (uint64_t i = first; i < first + count; ++i) padded.shape[d] = std::max(padded.shape[d], offsets[i + 1] - offsets[i]);
      const auto begin = static_cast<uint64_t>(offsets[first]);
      count = static_cast<uint64_t>(offsets[first + count]) - begin;
      first = begin;
    }
  }
  return padded;
}

std::vector<uint64_t> PaddedLengths(const ColumnSpec& padded, std::span<const ViewRows> rows) {
  uint64_t count = 0;
  uint64_t string_bytes = 0;
  for (const ViewRows& part : rows) {
    count += part.rows;
    std::vector<uint64_t> lengths;
    part.view.BufferLengths(part.first, part.rows, lengths);
    string_bytes += lengths.back();
  }
  const uint64_t values = count * Values(padded);
  if (padded.dtype != DType::kString) return {values * SizeOf(padded.dtype)};
  return {(values + 1) * sizeof(int64_t), string_bytes};
}

void WritePadded(const ColumnSpec& column, const ColumnSpec& padded, std::span<const ViewRows> rows, std::span<const std::span<std::byte>> buffers) {
  RowWriter writer(column, padded, buffers);
  for (const ViewRows& part : rows) {
    for (uint64_t row = part.first; row < part.first + part.rows; ++row) writer.Row(part.view, row);
  }
}

}  // namespace penstock
