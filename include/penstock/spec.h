// What a row looks like: leaf columns, and the structure (dicts, tuples) that bindings rebuild around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/status.h"

namespace penstock {

enum class DType : uint8_t {
  kBool = 1,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kString,  // bytes of any length: one more ragged level over uint8
};

size_t SizeOf(DType dtype);  // bytes of one value; 1 for kString, whose values are bytes
std::string_view Name(DType dtype);
Result<DType> DTypeFromName(std::string_view name);  // numpy's names, and "string"

inline constexpr int64_t kRagged = -1;

// One leaf. `shape` is of one row; kRagged is a dimension whose length differs from row to row.
// Buffers of a column, in this order: one int64 offsets buffer for each ragged dimension from the outside in, one more for a string, then the values.
struct ColumnSpec {
  std::string name;  // its path, "user/age"; "" where the row is a bare value
  DType dtype = DType::kInt64;
  std::vector<int64_t> shape;
  friend bool operator==(const ColumnSpec&, const ColumnSpec&) = default;
};

size_t RaggedLevels(const ColumnSpec& column);  // the string's own level included
size_t BufferCount(const ColumnSpec& column);   // ragged levels + 1

// The tree over the columns. Leaves number the columns from left to right.
struct Structure {
  enum class Kind : uint8_t { kLeaf, kDict, kTuple };
  Kind kind = Kind::kLeaf;
  std::vector<std::string> names;  // of a dict's children, in order
  std::vector<Structure> children;
  friend bool operator==(const Structure&, const Structure&) = default;
};

struct Spec {
  std::vector<ColumnSpec> columns;
  Structure structure;
  friend bool operator==(const Spec&, const Spec&) = default;
};

Spec LeafSpec(DType dtype, std::vector<int64_t> shape);
Spec DictSpec(std::vector<ColumnSpec> columns);
Spec TupleOf(const std::vector<Spec>& specs);  // column names get the position as a prefix

Status CheckSpec(const Spec& spec);      // whatever comes from outside
std::string ToString(const Spec& spec);  // "{id: int64[], ids: int64[ragged]}"

}  // namespace penstock
