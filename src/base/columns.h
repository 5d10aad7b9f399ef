// Rows on their way: growable column buffers that match a spec, and unowned views of such buffers.
//
// The layout is that of a block (wire/block.h): for each ragged level an int64 offsets buffer that starts at 0, then the values. So a range of
// rows becomes a block by one copy a buffer, and a block's columns can be appended from without conversion.
// Nothing here locks; a Columns is used by one thread at a time. Buffers keep their memory on Clear, so filling one again allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "penstock/spec.h"

namespace penstock {

inline constexpr size_t kMaxLevels = 17;  // CheckSpec's rank, and the string's own level

// How the buffers of a column nest. Level 0 lies over rows, level l over the entries of level l-1.
struct ColumnShape {
  explicit ColumnShape(const ColumnSpec& spec);
  size_t levels = 0;
  // fan[l]: offsets of level l for each entry of the level above; fan[levels]: bytes of values for each entry of the last level.
  std::array<uint64_t, kMaxLevels + 1> fan{};
};

// Bytes that grow without being zeroed first.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept;
  ByteBuffer& operator=(ByteBuffer&& other) noexcept;
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ~ByteBuffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return borrowed_ ? 0 : capacity_; }  // of memory of its own
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Room for `bytes` more at the end, to be written by the caller. Moves what was there.
  std::byte* Extend(size_t bytes) {
    if (bytes > capacity_ - size_) Grow(bytes);
    std::byte* end = data_ + size_;
    size_ += bytes;
    return end;
  }
  void Truncate(size_t size) { size_ = size; }
  void Reserve(size_t capacity);

  // An empty one: what comes is written to `memory`, as far as that goes, until Own().
  void Borrow(std::span<std::byte> memory);
  void Own();

 private:
  void Grow(size_t more);
  void Free();
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  bool borrowed_ = false;
};

// The rows of one column, owned by somebody else.
struct ColumnView {
  const ColumnShape* shape = nullptr;
  uint64_t rows = 0;
  std::array<const int64_t*, kMaxLevels> offsets{};
  const std::byte* values = nullptr;

  // `buffers` in the order of the spec, already checked (CheckBlock).
  static ColumnView Of(const ColumnShape& shape, uint64_t rows, std::span<const std::span<const std::byte>> buffers);

  // Appends to `lengths` the bytes that each buffer of rows [first, first + n) takes by itself, and copies them to such buffers.
  void BufferLengths(uint64_t first, uint64_t n, std::vector<uint64_t>& lengths) const;
  void CopyTo(uint64_t first, uint64_t n, std::span<const std::span<std::byte>> buffers) const;
  uint64_t Bytes(uint64_t first, uint64_t n) const;  // of all buffers together
};

// The growing rows of one leaf.
class Column {
 public:
  explicit Column(const ColumnSpec& spec);

  const ColumnShape& shape() const { return shape_; }
  uint64_t rows() const { return rows_; }
  size_t buffer_count() const { return shape_.levels + 1; }
  std::span<const std::byte> buffer(size_t i) const;  // offsets from the outside in, then values
  ColumnView view() const;
  uint64_t bytes() const;     // used by rows, offsets included
  uint64_t capacity() const;  // of memory

  // Columns without a ragged level: room for n rows, to be written by the caller.
  std::byte* AppendDense(uint64_t n) {
    rows_ += n;
    return values_.Extend(n * shape_.fan[0]);
  }
  // So many rows more will be appended: memory grows once. A hint, of use where rows have one size.
  void Expect(uint64_t rows) {
    if (shape_.levels > 0) return;
    const size_t used = values_.size();
    values_.Extend(rows * shape_.fan[0]);
    values_.Truncate(used);
  }
  // Columns with one ragged level that is not split by fixed dimensions (a string is one of bytes): a row of `count` entries.
  std::byte* AppendRagged(uint64_t count) {
    PushOffset(0, count);
    ++rows_;
    return values_.Extend(count * shape_.fan[1]);
  }
  void AppendString(std::string_view bytes);

  // Anything else, level by level: PushOffset(level, count) opens `count` entries of the level below, from the outside in; ExtendValues makes
  // room for bytes; FinishRow says that the row is whole.
  void PushOffset(size_t level, uint64_t count);
  std::byte* ExtendValues(uint64_t bytes) { return values_.Extend(bytes); }
  void FinishRow() { ++rows_; }

  // Columns without a ragged level and without rows: see Columns::WriteTo.
  void WriteTo(std::span<std::byte> values) { values_.Borrow(values); }
  void Own() { values_.Own(); }

  void Append(const ColumnView& from, uint64_t first, uint64_t n);
  void Gather(const ColumnView& from, std::span<const uint64_t> rows);
  void Truncate(uint64_t rows);  // also drops what was pushed of an unfinished row
  void Clear() { Truncate(0); }

 private:
  int64_t* offsets(size_t level) { return reinterpret_cast<int64_t*>(offsets_[level].data()); }
  ColumnShape shape_;
  uint64_t rows_ = 0;
  std::vector<ByteBuffer> offsets_;
  ByteBuffer values_;
};

// A set of columns that matches a spec. Whoever appends to single columns leaves them with equally many rows.
class Columns {
 public:
  explicit Columns(std::shared_ptr<const Spec> spec);

  const Spec& spec() const { return *spec_; }
  const std::shared_ptr<const Spec>& shared_spec() const { return spec_; }
  uint64_t rows() const { return columns_.empty() ? 0 : columns_.front().rows(); }
  size_t size() const { return columns_.size(); }
  Column& operator[](size_t i) { return columns_[i]; }
  const Column& operator[](size_t i) const { return columns_[i]; }

  // Rows of a Columns of the same spec. `from` must not be this.
  void Append(const Columns& from, uint64_t first, uint64_t n);
  void Gather(const Columns& from, std::span<const uint64_t> rows);
  Columns Slice(uint64_t first, uint64_t n) const;  // a copy

  void Truncate(uint64_t rows);
  void Clear() { Truncate(0); }

  uint64_t bytes() const;
  uint64_t capacity() const;
  uint64_t RowBytes(uint64_t row) const;  // what the row adds to a block, 8 bytes of offsets a ragged entry included

  // Where no column is ragged and there are no rows: what comes is written to these buffers, as far as they go. CopyTo then leaves what lies there
  // where it is. Own() ends it: rows are copied to memory of its own, so that the buffers may go.
  void WriteTo(std::span<const std::span<std::byte>> buffers);
  void Own();

  // For a block of rows [first, first + n): lengths of its buffers in the spec's order, and their content.
  std::vector<uint64_t> BufferLengths(uint64_t first, uint64_t n) const;
  void CopyTo(uint64_t first, uint64_t n, std::span<const std::span<std::byte>> buffers) const;

 private:
  std::shared_ptr<const Spec> spec_;
  std::vector<Column> columns_;
};

}  // namespace penstock
