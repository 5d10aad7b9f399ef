#include "base/columns.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace penstock {
namespace {

// memcpy with null and no bytes is not allowed, and empty buffers are null. What is there already stays.
void Copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Offsets (from[1] … from[n]) rebased from the first to start at `base`.
void Rebase(int64_t* to, const int64_t* from, uint64_t n, int64_t base) {
  const int64_t shift = base - from[0];
  for (uint64_t i = 1; i <= n; ++i) to[i - 1] = from[i] + shift;
}

// Of rows [first, first + n): the entries of each level, from the outside in, then the bytes of values.
struct Span {
  uint64_t first;
  uint64_t n;
};
template <class OnLevel>
Span Descend(const ColumnView& view, uint64_t first, uint64_t n, OnLevel on_level) {
  Span span{first, n};
  const ColumnShape& shape = *view.shape;
  for (size_t level = 0; level < shape.levels; ++level) {
    span.first *= shape.fan[level];
    span.n *= shape.fan[level];
    on_level(level, span);
    const int64_t* offsets = view.offsets[level];
    const auto begin = static_cast<uint64_t>(offsets[span.first]);
    span = {begin, static_cast<uint64_t>(offsets[span.first + span.n]) - begin};
  }
  return {span.first * shape.fan[shape.levels], span.n * shape.fan[shape.levels]};
}

}  // namespace

ColumnShape::ColumnShape(const ColumnSpec& spec) {
  uint64_t product = 1;
  for (int64_t length : spec.shape) {
    if (length == kRagged) {
      fan[levels++] = product;
      product = 1;
    } else {
      product *= static_cast<uint64_t>(length);
    }
  }
  if (spec.dtype == DType::kString) {
    fan[levels++] = product;
    product = 1;
  }
  fan[levels] = product * SizeOf(spec.dtype);
}

ByteBuffer::ByteBuffer(ByteBuffer&& other) noexcept { *this = std::move(other); }

ByteBuffer& ByteBuffer::operator=(ByteBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(borrowed_, other.borrowed_);
  return *this;
}

ByteBuffer::~ByteBuffer() { Free(); }

void ByteBuffer::Free() {
  if (!borrowed_) std::free(data_);
}

void ByteBuffer::Borrow(std::span<std::byte> memory) {
  Free();
  data_ = memory.data();
  size_ = 0;
  capacity_ = memory.size();
  borrowed_ = true;
}

void ByteBuffer::Own() {
  if (!borrowed_) return;
  ByteBuffer own;
  Copy(own.Extend(size_), data_, size_);
  *this = std::move(own);
}

void ByteBuffer::Reserve(size_t capacity) {
  if (capacity <= capacity_) return;
  if (borrowed_) Own();
  void* grown = std::realloc(data_, capacity);
  if (grown == nullptr) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(grown);
  capacity_ = capacity;
}

void ByteBuffer::Grow(size_t more) { Reserve(std::max<size_t>({size_ + more, capacity_ + capacity_ / 2, 64})); }

ColumnView ColumnView::Of(const ColumnShape& shape, uint64_t rows, std::span<const std::span<const std::byte>> buffers) {
  ColumnView view;
  view.shape = &shape;
  view.rows = rows;
  for (size_t level = 0; level < shape.levels; ++level) view.offsets[level] = reinterpret_cast<const int64_t*>(buffers[level].data());
  view.values = buffers[shape.levels].data();
  return view;
}

void ColumnView::BufferLengths(uint64_t first, uint64_t n, std::vector<uint64_t>& lengths) const {
  const Span values_span = Descend(*this, first, n, [&](size_t, Span span) { lengths.push_back((span.n + 1) * sizeof(int64_t)); });
  lengths.push_back(values_span.n);
}

void ColumnView::CopyTo(uint64_t first, uint64_t n, std::span<const std::span<std::byte>> buffers) const {
  const Span bytes = Descend(*this, first, n, [&](size_t level, Span span) {
    auto* out = reinterpret_cast<int64_t*>(buffers[level].data());
    out[0] = 0;
    Rebase(out + 1, offsets[level] + span.first, span.n, 0);
  });
  Copy(buffers[shape->levels].data(), values + bytes.first, bytes.n);
}

uint64_t ColumnView::Bytes(uint64_t first, uint64_t n) const {
  uint64_t total = 0;
  const Span bytes = Descend(*this, first, n, [&](size_t, Span span) { total += span.n * sizeof(int64_t); });
  return total + bytes.n;
}

Column::Column(const ColumnSpec& spec) : shape_(spec), offsets_(shape_.levels) { Clear(); }

std::span<const std::byte> Column::buffer(size_t i) const { return i < shape_.levels ? offsets_[i].bytes() : values_.bytes(); }

ColumnView Column::view() const {
  ColumnView view;
  view.shape = &shape_;
  view.rows = rows_;
  for (size_t level = 0; level < shape_.levels; ++level) view.offsets[level] = reinterpret_cast<const int64_t*>(offsets_[level].data());
  view.values = values_.data();
  return view;
}

uint64_t Column::bytes() const {
  uint64_t total = values_.size();
  for (const ByteBuffer& buffer : offsets_) total += buffer.size();
  return total;
}

uint64_t Column::capacity() const {
  uint64_t total = values_.capacity();
  for (const ByteBuffer& buffer : offsets_) total += buffer.capacity();
  return total;
}

void Column::AppendString(std::string_view bytes) { Copy(AppendRagged(bytes.size()), bytes.data(), bytes.size()); }

void Column::PushOffset(size_t level, uint64_t count) {
  auto* end = reinterpret_cast<int64_t*>(offsets_[level].Extend(sizeof(int64_t)));
  *end = end[-1] + static_cast<int64_t>(count);
}

void Column::Append(const ColumnView& from, uint64_t first, uint64_t n) {
  const Span bytes = Descend(from, first, n, [&](size_t level, Span span) {
    auto* out = reinterpret_cast<int64_t*>(offsets_[level].Extend(span.n * sizeof(int64_t)));
    Rebase(out, from.offsets[level] + span.first, span.n, out[-1]);
  });
  Copy(values_.Extend(bytes.n), from.values + bytes.first, bytes.n);
  rows_ += n;
}

void Column::Gather(const ColumnView& from, std::span<const uint64_t> rows) {
  if (shape_.levels > 0) {
    for (uint64_t row : rows) Append(from, row, 1);
    return;
  }
  const size_t width = shape_.fan[0];
  std::byte* out = AppendDense(rows.size());
  for (uint64_t row : rows) {
    Copy(out, from.values + row * width, width);
    out += width;
  }
}

void Column::Truncate(uint64_t rows) {
  uint64_t entries = rows;
  for (size_t level = 0; level < shape_.levels; ++level) {
    entries *= shape_.fan[level];
    if (offsets_[level].size() == 0) {  // a new column: offsets start at 0
      *reinterpret_cast<int64_t*>(offsets_[level].Extend(sizeof(int64_t))) = 0;
    }
    offsets_[level].Truncate((entries + 1) * sizeof(int64_t));
    entries = static_cast<uint64_t>(offsets(level)[entries]);
  }
  values_.Truncate(entries * shape_.fan[shape_.levels]);
  rows_ = rows;
}

Columns::Columns(std::shared_ptr<const Spec> spec) : spec_(std::move(spec)) {
  columns_.reserve(spec_->columns.size());
  for (const ColumnSpec& column : spec_->columns) columns_.emplace_back(column);
}

void Columns::Append(const Columns& from, uint64_t first, uint64_t n) {
  for (size_t i = 0; i < columns_.size(); ++i) columns_[i].Append(from[i].view(), first, n);
}

void Columns::Gather(const Columns& from, std::span<const uint64_t> rows) {
  for (size_t i = 0; i < columns_.size(); ++i) columns_[i].Gather(from[i].view(), rows);
}

Columns Columns::Slice(uint64_t first, uint64_t n) const {
  Columns slice(spec_);
  slice.Append(*this, first, n);
  return slice;
}

void Columns::Truncate(uint64_t rows) {
  for (Column& column : columns_) column.Truncate(rows);
}

uint64_t Columns::bytes() const {
  uint64_t total = 0;
  for (const Column& column : columns_) total += column.bytes();
  return total;
}

uint64_t Columns::capacity() const {
  uint64_t total = 0;
  for (const Column& column : columns_) total += column.capacity();
  return total;
}

uint64_t Columns::RowBytes(uint64_t row) const {
  uint64_t total = 0;
  for (const Column& column : columns_) total += column.view().Bytes(row, 1);
  return total;
}

void Columns::WriteTo(std::span<const std::span<std::byte>> buffers) {
  for (size_t i = 0; i < columns_.size(); ++i) columns_[i].WriteTo(buffers[i]);
}

void Columns::Own() {
  for (Column& column : columns_) column.Own();
}

std::vector<uint64_t> Columns::BufferLengths(uint64_t first, uint64_t n) const {
  std::vector<uint64_t> lengths;
  for (const Column& column : columns_) column.view().BufferLengths(first, n, lengths);
  return lengths;
}

void Columns::CopyTo(uint64_t first, uint64_t n, std::span<const std::span<std::byte>> buffers) const {
  for (const Column& column : columns_) {
    column.view().CopyTo(first, n, buffers.first(column.buffer_count()));
    buffers = buffers.subspan(column.buffer_count());
  }
}

}  // namespace penstock
