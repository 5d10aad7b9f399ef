#include "engine/nested.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace penstock::engine {
namespace {

// Copies rows with their ragged dimensions padded. Dimensions are walked from the outside in; an entry that is not there is walked too, as zeros.
class Padder {
 public:
  Padder(Column& to, const ColumnSpec& spec, const ColumnView& from, size_t shift) : to_(to), spec_(spec), from_(from), shift_(shift) {
    longest_.resize(spec.shape.size(), 0);
  }

  void Measure(uint64_t row) { Walk(row, &Padder::MeasureEntry); }
  void Copy(uint64_t row) { Walk(row, &Padder::CopyEntry); }

 private:
  // An entry at a dimension: its number at that level of nesting, or missing.
  struct Entry {
    uint64_t number = 0;
    bool missing = false;
  };
  using Visit = void (Padder::*)(size_t dimension, size_t level, Entry entry);

  void Walk(uint64_t row, Visit visit) { (this->*visit)(0, 0, {row, false}); }

  int64_t Begin(size_t level, Entry entry) const { return from_.offsets[level][entry.number]; }
  int64_t Length(size_t level, Entry entry) const { return entry.missing ? 0 : from_.offsets[level][entry.number + 1] - Begin(level, entry); }

  void MeasureEntry(size_t dimension, size_t level, Entry entry) {
    if (dimension == spec_.shape.size()) return;
    const bool ragged = spec_.shape[dimension] == kRagged;
    const uint64_t length = static_cast<uint64_t>(ragged ? Length(level, entry) : spec_.shape[dimension]);
    if (ragged) longest_[dimension] = std::max(longest_[dimension], length);
    const uint64_t begin = ragged ? static_cast<uint64_t>(Begin(level, entry)) : entry.number * length;
    for (uint64_t i = 0; i < length; ++i) MeasureEntry(dimension + 1, level + (ragged ? 1 : 0), {begin + i, false});
  }

  void CopyEntry(size_t dimension, size_t level, Entry entry) {
    if (dimension == spec_.shape.size()) {
      CopyValue(level, entry);
      return;
    }
    const bool ragged = spec_.shape[dimension] == kRagged;
    const uint64_t there = static_cast<uint64_t>(ragged ? Length(level, entry) : entry.missing ? 0 : spec_.shape[dimension]);
    const uint64_t padded = ragged ? longest_[dimension] : static_cast<uint64_t>(spec_.shape[dimension]);
    if (ragged) to_.PushOffset(level + shift_, padded);
    const uint64_t begin = entry.missing ? 0 : ragged ? static_cast<uint64_t>(Begin(level, entry)) : entry.number * padded;
    for (uint64_t i = 0; i < padded; ++i) CopyEntry(dimension + 1, level + (ragged ? 1 : 0), {begin + i, i >= there});
  }

  void CopyValue(size_t level, Entry entry) {
    const size_t size = SizeOf(spec_.dtype);
    if (spec_.dtype == DType::kString) {
      const uint64_t length = static_cast<uint64_t>(Length(level, entry));
      to_.PushOffset(level + shift_, length);
      std::byte* out = to_.ExtendValues(length);
      if (length > 0) std::memcpy(out, from_.values + Begin(level, entry), length);
      return;
    }
    std::byte* out = to_.ExtendValues(size);
    if (entry.missing) {
      std::memset(out, 0, size);
    } else {
      std::memcpy(out, from_.values + entry.number * size, size);
    }
  }

  Column& to_;
  const ColumnSpec& spec_;
  const ColumnView& from_;
  size_t shift_;                   // levels that `to` has before those of `from`
  std::vector<uint64_t> longest_;  // by dimension
};

}  // namespace

void AppendNested(Column& to, const ColumnView& from, uint64_t first, uint64_t n, bool ragged) {
  const ColumnShape& shape = *from.shape;
  if (ragged) to.PushOffset(0, n);
  uint64_t begin = first * shape.fan[0];
  uint64_t end = (first + n) * shape.fan[0];
  for (size_t level = 0; level < shape.levels; ++level) {
    const int64_t* offsets = from.offsets[level];
    for (uint64_t i = begin; i < end; ++i) to.PushOffset(level + (ragged ? 1 : 0), static_cast<uint64_t>(offsets[i + 1] - offsets[i]));
    begin = static_cast<uint64_t>(offsets[begin]) * shape.fan[level + 1];
    end = static_cast<uint64_t>(offsets[end]) * shape.fan[level + 1];
  }
  std::byte* out = to.ExtendValues(end - begin);
  if (end > begin) std::memcpy(out, from.values + begin, end - begin);
  to.FinishRow();
}

void AppendPadded(Column& to, const ColumnSpec& spec, const ColumnView& from, uint64_t first, uint64_t n, bool ragged) {
  Padder padder(to, spec, from, ragged ? 1 : 0);
  if (ragged) to.PushOffset(0, n);
  for (uint64_t row = first; row < first + n; ++row) padder.Measure(row);
  for (uint64_t row = first; row < first + n; ++row) padder.Copy(row);
  to.FinishRow();
}

}  // namespace penstock::engine
