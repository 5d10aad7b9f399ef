#include "penstock/spec.h"

#include <algorithm>
#include <array>

#include "base/constants.h"

namespace penstock {
namespace {

constexpr size_t kMaxColumns = 65'536;
constexpr size_t kMaxRank = 16;
constexpr size_t kMaxDepth = 32;

struct DTypeInfo {
  DType dtype;
  size_t size;
  std::string_view name;
};
constexpr std::array kDTypes = {
    DTypeInfo{DType::kBool, 1, "bool"},       DTypeInfo{DType::kInt8, 1, "int8"},           DTypeInfo{DType::kInt16, 2, "int16"},
    DTypeInfo{DType::kInt32, 4, "int32"},     DTypeInfo{DType::kInt64, 8, "int64"},         DTypeInfo{DType::kUInt8, 1, "uint8"},
    DTypeInfo{DType::kUInt16, 2, "uint16"},   DTypeInfo{DType::kUInt32, 4, "uint32"},       DTypeInfo{DType::kUInt64, 8, "uint64"},
    DTypeInfo{DType::kFloat16, 2, "float16"}, DTypeInfo{DType::kBFloat16, 2, "bfloat16"},   DTypeInfo{DType::kFloat32, 4, "float32"},
    DTypeInfo{DType::kFloat64, 8, "float64"}, DTypeInfo{DType::kComplex64, 8, "complex64"}, DTypeInfo{DType::kComplex128, 16, "complex128"},
    DTypeInfo{DType::kString, 1, "string"},
};

const DTypeInfo* Find(DType dtype) {
  const auto index = static_cast<size_t>(dtype) - 1;
  return index < kDTypes.size() ? &kDTypes[index] : nullptr;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i] == kRagged ? "ragged" : std::to_string(shape[i]);
  }
  return text + "]";
}

Status CheckColumn(const ColumnSpec& column) {
  if (Find(column.dtype) == nullptr) {
    return Status(Code::kInvalid, "column '" + column.name + "' has the unknown dtype number " + std::to_string(static_cast<int>(column.dtype)));
  }
  if (column.shape.size() > kMaxRank) {
    return Status(Code::kInvalid, "column '" + column.name + "' has " + std::to_string(column.shape.size()) + " dimensions; at most " +
                                      std::to_string(kMaxRank) + " are supported");
  }
  uint64_t bytes = column.dtype == DType::kString ? sizeof(int64_t) : SizeOf(column.dtype);  // a string has an offset, whatever its length
  for (int64_t length : column.shape) {
    if (length < 0 && length != kRagged) {
      return Status(Code::kInvalid, "column '" + column.name + "' has a dimension of " + std::to_string(length) + " in " + ShapeText(column.shape) +
                                        "; use a length from 0, or -1 for ragged");
    }
    if (length > 0 && static_cast<uint64_t>(length) > kMaxBlock / bytes) {
      return Status(Code::kInvalid, "column '" + column.name + "' of shape " + ShapeText(column.shape) +
                                        " has too many values: a row would be over the cap of a block, " + std::to_string(kMaxBlock) + " bytes");
    }
    if (length > 0) bytes *= static_cast<uint64_t>(length);
  }
  return {};
}

// Counts the leaves; an error where a node is not as its kind demands.
Status CheckStructure(const Structure& node, size_t depth, size_t& leaves) {
  if (depth > kMaxDepth) return Status(Code::kInvalid, "the row's structure is nested deeper than " + std::to_string(kMaxDepth));
  switch (node.kind) {
    case Structure::Kind::kLeaf:
      if (!node.children.empty() || !node.names.empty()) return Status(Code::kInvalid, "a leaf of the row's structure has children");
      ++leaves;
      return {};
    case Structure::Kind::kDict: {
      if (node.names.size() != node.children.size()) return Status(Code::kInvalid, "a dict of the row's structure has not one name a child");
      std::vector<std::string> sorted = node.names;
      std::sort(sorted.begin(), sorted.end());
      const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
      if (twice != sorted.end()) return Status(Code::kInvalid, "the name '" + *twice + "' stands twice in a dict of the row's structure");
      break;
    }
    case Structure::Kind::kTuple:
      if (!node.names.empty()) return Status(Code::kInvalid, "a tuple of the row's structure has names");
      break;
    default: return Status(Code::kInvalid, "the row's structure has a node of unknown kind " + std::to_string(static_cast<int>(node.kind)));
  }
  for (const Structure& child : node.children) PENSTOCK_TRY(CheckStructure(child, depth + 1, leaves));
  return {};
}

void Print(const Structure& node, const Spec& spec, size_t& next, std::string& out) {
  if (node.kind == Structure::Kind::kLeaf) {
    if (next < spec.columns.size()) out += std::string(Name(spec.columns[next].dtype)) + ShapeText(spec.columns[next].shape);
    ++next;
    return;
  }
  const bool dict = node.kind == Structure::Kind::kDict;
  out += dict ? "{" : "(";
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0) out += ", ";
    if (dict && i < node.names.size()) out += node.names[i] + ": ";
    Print(node.children[i], spec, next, out);
  }
  out += dict ? "}" : ")";
}

}  // namespace

size_t SizeOf(DType dtype) {
  const DTypeInfo* info = Find(dtype);
  return info == nullptr ? 0 : info->size;
}

std::string_view Name(DType dtype) {
  const DTypeInfo* info = Find(dtype);
  return info == nullptr ? "unknown" : info->name;
}

Result<DType> DTypeFromName(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  std::string known;
  for (const DTypeInfo& info : kDTypes) known += (known.empty() ? "" : ", ") + std::string(info.name);
  return Status(Code::kInvalid, "unknown dtype '" + std::string(name) + "'; known are " + known);
}

size_t RaggedLevels(const ColumnSpec& column) {
  const auto ragged = std::count(column.shape.begin(), column.shape.end(), kRagged);
  return static_cast<size_t>(ragged) + (column.dtype == DType::kString ? 1 : 0);
}

size_t BufferCount(const ColumnSpec& column) { return RaggedLevels(column) + 1; }

Spec LeafSpec(DType dtype, std::vector<int64_t> shape) { return {{{"", dtype, std::move(shape)}}, {}}; }

Spec DictSpec(std::vector<ColumnSpec> columns) {
  Spec spec;
  spec.structure.kind = Structure::Kind::kDict;
  for (const ColumnSpec& column : columns) {
    spec.structure.names.push_back(column.name);
    spec.structure.children.emplace_back();
  }
  spec.columns = std::move(columns);
  return spec;
}

Spec TupleOf(const std::vector<Spec>& specs) {
  Spec tuple;
  tuple.structure.kind = Structure::Kind::kTuple;
  for (size_t i = 0; i < specs.size(); ++i) {
    tuple.structure.children.push_back(specs[i].structure);
    for (ColumnSpec column : specs[i].columns) {
      column.name = std::to_string(i) + (column.name.empty() ? "" : "/" + column.name);
      tuple.columns.push_back(std::move(column));
    }
  }
  return tuple;
}

Status CheckSpec(const Spec& spec) {
  if (spec.columns.empty()) return Status(Code::kInvalid, "a row needs at least one column");
  if (spec.columns.size() > kMaxColumns) {
    return Status(Code::kInvalid,
                  "a row of " + std::to_string(spec.columns.size()) + " columns; at most " + std::to_string(kMaxColumns) + " are supported");
  }
  for (const ColumnSpec& column : spec.columns) PENSTOCK_TRY(CheckColumn(column));
  size_t leaves = 0;
  PENSTOCK_TRY(CheckStructure(spec.structure, 0, leaves));
  if (leaves != spec.columns.size()) {
    return Status(Code::kInvalid,
                  "the row's structure has " + std::to_string(leaves) + " leaves for " + std::to_string(spec.columns.size()) + " columns");
  }
  return {};
}

std::string ToString(const Spec& spec) {
  std::string text;
  size_t next = 0;
  Print(spec.structure, spec, next, text);
  return text;
}

}  // namespace penstock
