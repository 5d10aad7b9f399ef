// concatenate: the rows of one input after those of the other.
#include <algorithm>

#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

// A row knows which input it came from: they may be evaluated differently.
Row Branch(uint64_t branch, Row row) {
  Row tagged;
  tagged.number = branch;
  tagged.parts.push_back(std::move(row));
  return tagged;
}

class BranchStream final : public OverOne {
 public:
  BranchStream(RowStreamPtr input, uint64_t branch) : OverOne(std::move(input)), branch_(branch) {}
  Result<bool> Next(Row& row) override {
    Row inner;
    PENSTOCK_ASSIGN(const bool more, input_->Next(inner));
    if (more) row = Branch(branch_, std::move(inner));
    return more;
  }
  Result<uint64_t> Skip(uint64_t n) override { return input_->Skip(n); }

 private:
  uint64_t branch_;
};

class ConcatenateIndex final : public RowIndex {
 public:
  ConcatenateIndex(const Node& node, const OrderKey& order) {
    for (const auto& input : node.inputs) inputs_.push_back({*input->rows, OpenIndex(*input, order)});
  }
  Row At(uint64_t i) override {
    uint64_t branch = 0;
    while (i >= inputs_[branch].rows) i -= inputs_[branch++].rows;
    return Branch(branch, inputs_[branch].index->At(i));
  }

 private:
  struct Input {
    uint64_t rows;
    RowIndexPtr index;
  };
  std::vector<Input> inputs_;
};

class Concatenate final : public Operator {
 public:
  using Operator::Operator;

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const override {
    uint64_t rows = 0;
    for (const auto& input : inputs) {
      if (!input.has_value()) return std::nullopt;
      rows = std::min(rows + *input, kEndlessRows);
    }
    return rows;
  }
  RowIndexPtr Index(const Node& node, const OrderKey& order) const override { return std::make_unique<ConcatenateIndex>(node, order); }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    return InTurn(node.inputs.size(), [&node, context](size_t branch) -> Result<RowStreamPtr> {
      PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(*node.inputs[branch], context));
      return RowStreamPtr(std::make_unique<BranchStream>(std::move(input), branch));
    });
  }
  Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const override {
    std::vector<const Row*> run;
    for (size_t begin = 0; begin < rows.size(); begin += run.size()) {
      run.clear();
      const uint64_t branch = rows[begin]->number;
      for (size_t i = begin; i < rows.size() && rows[i]->number == branch; ++i) run.push_back(&rows[i]->parts[0]);
      PENSTOCK_TRY(engine::Evaluate(*node.inputs[branch], run, columns));
    }
    return {};
  }
  bool Strings(const Node&, RowPtrs, std::vector<std::string_view>&) const override { return false; }
  uint64_t RowBytes(std::span<const uint64_t> inputs) const override { return *std::max_element(inputs.begin(), inputs.end()); }
  std::string Words() const override { return "the inputs one after the other"; }
};

}  // namespace

MadeOperator MakeConcatenate(const PlanNode& node, InputSpecs inputs) {
  PENSTOCK_TRY(AttrReader(node).Done());
  for (const Spec* input : inputs) {
    if (*input != *inputs[0]) {
      return InvalidNode(node, "its inputs have different specs, " + ToString(*inputs[0]) + " and " + ToString(*input) +
                                   "; bring them to one by parse_example or project");
    }
  }
  return std::unique_ptr<Operator>(std::make_unique<Concatenate>(*inputs[0]));
}

}  // namespace penstock::engine
