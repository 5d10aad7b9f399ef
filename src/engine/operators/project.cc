// project(columns): some of the columns. What is left out is not evaluated at all.
#include <algorithm>

#include "engine/operators/operators.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

bool Names(const std::string& name, const std::string& column) {
  return column == name || (column.size() > name.size() && column.starts_with(name) && column[name.size()] == '/');
}

// The part of the tree whose leaves are kept; leaves are numbered from `leaf` on.
Structure Prune(const Structure& structure, const std::vector<bool>& kept, size_t& leaf, bool& any) {
  Structure pruned;
  pruned.kind = structure.kind;
  if (structure.kind == Structure::Kind::kLeaf) {
    any = kept[leaf++];
    return pruned;
  }
  for (size_t i = 0; i < structure.children.size(); ++i) {
    bool keeps = false;
    Structure child = Prune(structure.children[i], kept, leaf, keeps);
    if (!keeps) continue;
    any = true;
    pruned.children.push_back(std::move(child));
    if (structure.kind == Structure::Kind::kDict) pruned.names.push_back(structure.names[i]);
  }
  return pruned;
}

class Project final : public Operator {
 public:
  Project(Spec spec, std::vector<bool> kept) : Operator(std::move(spec)), kept_(std::move(kept)) {}

  Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const override {
    std::vector<Column*> wanted(kept_.size(), nullptr);
    size_t next = 0;
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i]) wanted[i] = columns[next++];
    }
    return engine::Evaluate(node.input(), rows, wanted);
  }
  bool passes_rows() const override { return true; }
  std::string Words() const override { return std::to_string(spec().columns.size()) + " of " + std::to_string(kept_.size()) + " columns"; }

 private:
  std::vector<bool> kept_;  // by column of the input
};

}  // namespace

MadeOperator MakeProject(const PlanNode& node, InputSpecs inputs) {
  const Spec& input = *inputs[0];
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const std::vector<std::string> names, attrs.Strings("columns"));
  PENSTOCK_TRY(attrs.Done());
  if (names.empty()) return attrs.Bad("columns", "must name at least one column");
  std::vector<bool> kept(input.columns.size(), false);
  for (const std::string& name : names) {
    bool found = false;
    for (size_t i = 0; i < input.columns.size(); ++i) {
      if (!Names(name, input.columns[i].name)) continue;
      kept[i] = true;
      found = true;
    }
    if (!found) return attrs.Bad("columns", "names '" + name + "', which is not in " + ToString(input));
  }
  Spec spec;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) spec.columns.push_back(input.columns[i]);
  }
  size_t leaf = 0;
  bool any = false;
  spec.structure = Prune(input.structure, kept, leaf, any);
  return std::unique_ptr<Operator>(std::make_unique<Project>(std::move(spec), std::move(kept)));
}

}  // namespace penstock::engine
