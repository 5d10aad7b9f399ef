// Rows made one value: n rows of a column become one row of a column with a dimension more.
#pragma once

#include <cstdint>

#include "base/columns.h"
#include "penstock/spec.h"

namespace penstock::engine {

// Appends rows [first, first + n) of `from` to `to` as one row. `ragged`: the new dimension is ragged; else it is n, and so fixed.
void AppendNested(Column& to, const ColumnView& from, uint64_t first, uint64_t n, bool ragged);

// The same, with each ragged dimension of `spec` (that of `from`) filled up with zeros (empty strings) to the longest among these rows.
void AppendPadded(Column& to, const ColumnSpec& spec, const ColumnView& from, uint64_t first, uint64_t n, bool ragged);

}  // namespace penstock::engine
