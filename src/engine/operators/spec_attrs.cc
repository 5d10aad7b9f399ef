#include "engine/operators/spec_attrs.h"

#include <utility>

namespace penstock::engine {
namespace {

constexpr int kMaxDepth = 32;  // of the structure

Result<Structure> ReadStructure(const AttrMap& map, int depth) {
  AttrReader attrs("the structure", map);
  if (depth > kMaxDepth) return attrs.Bad("children", "nest deeper than " + std::to_string(kMaxDepth));
  Structure structure;
  PENSTOCK_ASSIGN(const std::string kind, attrs.String("kind"));
  if (kind == "leaf") return structure;
  if (kind != "dict" && kind != "tuple") return attrs.Bad("kind", "is '" + kind + "'; it is leaf, dict or tuple");
  structure.kind = kind == "dict" ? Structure::Kind::kDict : Structure::Kind::kTuple;
  if (kind == "dict") {
    PENSTOCK_ASSIGN(structure.names, attrs.Strings("names"));
  }
  if (kind == "tuple" && !attrs.Has("children")) return structure;  // an empty one, which stands for Python's None
  PENSTOCK_ASSIGN(const std::vector<AttrMap>* children, attrs.Maps("children"));
  for (const AttrMap& child : *children) {
    PENSTOCK_ASSIGN(Structure inner, ReadStructure(child, depth + 1));
    structure.children.push_back(std::move(inner));
  }
  return structure;
}

}  // namespace

Result<Spec> ReadStructureOver(AttrReader& attrs, std::vector<ColumnSpec> columns) {
  if (!attrs.Has("structure")) return DictSpec(std::move(columns));
  Spec spec{std::move(columns), {}};
  PENSTOCK_ASSIGN(const std::vector<AttrMap>* maps, attrs.Maps("structure"));
  if (maps->size() != 1) return attrs.Bad("structure", "must be one map");
  PENSTOCK_ASSIGN(spec.structure, ReadStructure(maps->front(), 0));
  return spec;
}

Result<ColumnSpec> ReadColumnSpec(AttrReader& attrs) {
  ColumnSpec spec;
  PENSTOCK_ASSIGN(spec.name, attrs.String("name", ""));
  PENSTOCK_ASSIGN(const std::string dtype, attrs.String("dtype"));
  PENSTOCK_ASSIGN(spec.dtype, DTypeFromName(dtype));
  PENSTOCK_ASSIGN(spec.shape, attrs.Ints("shape", {}));
  PENSTOCK_TRY(CheckSpec(Spec{{spec}, {}}));
  return spec;
}

Result<Spec> ReadSpec(AttrReader& attrs) {
  PENSTOCK_ASSIGN(const std::vector<AttrMap>* maps, attrs.Maps("columns"));
  std::vector<ColumnSpec> columns;
  for (const AttrMap& map : *maps) {
    AttrReader reader("a column", map);
    PENSTOCK_ASSIGN(ColumnSpec column, ReadColumnSpec(reader));
    PENSTOCK_TRY(reader.Bool("arrays", false).status());  // this and the next are Python's: what the loop's rows are there
    PENSTOCK_TRY(reader.String("type", "").status());
    PENSTOCK_TRY(reader.Done());
    columns.push_back(std::move(column));
  }
  return ReadStructureOver(attrs, std::move(columns));
}

}  // namespace penstock::engine
