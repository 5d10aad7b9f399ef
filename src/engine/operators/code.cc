// python, torch, tf, map, filter, flat_map, map_batch: what a host runs (engine/code.h). The plan carries the code and the spec of its rows; what the
// code is made of is the executor's business.
#include <array>
#include <utility>

#include "engine/code_run.h"
#include "engine/operators/operators.h"
#include "engine/operators/spec_attrs.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

constexpr int64_t kMaxLanes = 4096;

class CodeOperator final : public Operator {
 public:
  CodeOperator(Spec spec, CodeTraits traits, bool on_batches, std::string label, std::vector<std::string> notes)
      : Operator(std::move(spec)), traits_(traits), on_batches_(on_batches), label_(std::move(label)), notes_(std::move(notes)) {}

  // Known to Cardinality alone: rows of code have no index.
  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>>) const override { return std::nullopt; }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override { return OpenCodeStream(node, context); }
  Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const override { return UnpackRows(node.spec(), rows, columns); }
  bool Strings(const Node&, RowPtrs, std::vector<std::string_view>&) const override { return false; }
  bool keeps_columns() const override { return false; }
  bool commutes_with_batch() const override { return on_batches_; }
  const CodeTraits* code() const override { return &traits_; }
  std::string Words() const override {
    const std::string lanes = traits_.lanes > 1 ? ", cut into " + std::to_string(traits_.lanes) + " lanes by itself" : "";
    std::string words = label_ + " in an executor" + lanes + ", " + std::string(Name(traits_.purity));
    for (const std::string& note : notes_) words += "; " + note;
    return words;
  }

 private:
  CodeTraits traits_;
  bool on_batches_;
  std::string label_;
  std::vector<std::string> notes_;  // what was found or changed when it was registered
};

Result<Purity> ReadPurity(AttrReader& attrs) {
  PENSTOCK_ASSIGN(const std::string name, attrs.String("purity", std::string(Name(Purity::kPure))));
  for (const Purity purity : {Purity::kPure, Purity::kPureIdentity, Purity::kImpure}) {
    if (Name(purity) == name) return purity;
  }
  return attrs.Bad("purity", "is '" + name + "', which is no level of purity");
}

// What only the executor reads.
Status ReadRest(AttrReader& attrs) {
  PENSTOCK_TRY(attrs.Blob("payload"));
  PENSTOCK_TRY(attrs.String("python"));
  PENSTOCK_TRY(attrs.Strings("modules", {}));
  for (const std::string_view name : {"element_spec", "functions"}) {
    if (attrs.Has(name)) PENSTOCK_TRY(attrs.Blob(name));
  }
  for (const std::string_view name : {"divided", "payload_digest", "functions_digest"}) PENSTOCK_TRY(attrs.String(name, ""));
  PENSTOCK_TRY(attrs.Int("cardinality", -2));
  if (attrs.Has("libraries")) PENSTOCK_TRY(attrs.Maps("libraries"));
  return {};
}

enum class Kind : uint8_t { kSource, kKeepsRows, kChangesRows, kOnBatches };

MadeOperator MakeCode(const PlanNode& node, Kind kind) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(Spec spec, ReadSpec(attrs));
  PENSTOCK_ASSIGN(std::string label, attrs.String("label", "a function"));
  CodeTraits traits;
  traits.keeps_rows = kind == Kind::kKeepsRows || kind == Kind::kOnBatches;
  PENSTOCK_ASSIGN(traits.purity, ReadPurity(attrs));
  if (kind == Kind::kSource) {
    PENSTOCK_ASSIGN(const int64_t lanes, attrs.IntFrom("lanes", 1, 1));
    if (lanes > kMaxLanes) return attrs.Bad("lanes", "must be at most " + std::to_string(kMaxLanes));
    traits.lanes = static_cast<uint32_t>(lanes);
  }
  if (kind == Kind::kOnBatches) PENSTOCK_TRY(attrs.IntFrom("batch_size", 1, 1));
  PENSTOCK_ASSIGN(std::vector<std::string> notes, attrs.Strings("notes", {}));
  PENSTOCK_TRY(ReadRest(attrs));
  PENSTOCK_TRY(attrs.Done());
  return std::unique_ptr<Operator>(
      std::make_unique<CodeOperator>(std::move(spec), traits, kind == Kind::kOnBatches, std::move(label), std::move(notes)));
}

}  // namespace

MadeOperator MakeCodeSource(const PlanNode& node, InputSpecs) { return MakeCode(node, Kind::kSource); }
MadeOperator MakeMap(const PlanNode& node, InputSpecs) { return MakeCode(node, Kind::kKeepsRows); }
MadeOperator MakeFilter(const PlanNode& node, InputSpecs) { return MakeCode(node, Kind::kChangesRows); }
MadeOperator MakeFlatMap(const PlanNode& node, InputSpecs) { return MakeCode(node, Kind::kChangesRows); }
MadeOperator MakeMapBatch(const PlanNode& node, InputSpecs) { return MakeCode(node, Kind::kOnBatches); }

}  // namespace penstock::engine
