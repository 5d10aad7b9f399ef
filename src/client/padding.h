// Ragged rows of a column as a dense array, as long as the longest in each dimension, filled with zeros (strings: "").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/columns.h"
#include "penstock/spec.h"

namespace penstock {

// Some rows of a column's view.
struct ViewRows {
  ColumnView view;
  uint64_t first = 0;
  uint64_t rows = 0;
};

// What a row of the batch has: every ragged dimension of `column` replaced by the longest among the rows.
ColumnSpec PaddedSpec(const ColumnSpec& column, std::span<const ViewRows> rows);
// The buffers' lengths in bytes: values, or for strings offsets and values.
std::vector<uint64_t> PaddedLengths(const ColumnSpec& padded, std::span<const ViewRows> rows);
// Writes buffers of those lengths.
void WritePadded(const ColumnSpec& column, const ColumnSpec& padded, std::span<const ViewRows> rows, std::span<const std::span<std::byte>> buffers);

}  // namespace penstock
