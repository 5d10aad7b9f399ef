// zip: a tuple of the inputs' rows, as many as the shortest has.
#include <algorithm>

#include "engine/operators/operators.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class ZipIndex final : public RowIndex {
 public:
  explicit ZipIndex(std::vector<RowIndexPtr> inputs) : inputs_(std::move(inputs)) {}
  Row At(uint64_t i) override {
    Row row;
    row.parts.reserve(inputs_.size());
    for (const RowIndexPtr& input : inputs_) row.parts.push_back(input->At(i));
    return row;
  }

 private:
  std::vector<RowIndexPtr> inputs_;
};

class ZipStream final : public RowStream {
 public:
  explicit ZipStream(std::vector<RowStreamPtr> inputs) : inputs_(std::move(inputs)) {}

  Result<bool> Next(Row& row) override {
    Row tuple;
    tuple.parts.resize(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      PENSTOCK_ASSIGN(const bool more, inputs_[i]->Next(tuple.parts[i]));
      if (!more) return false;
    }
    row = std::move(tuple);
    return true;
  }
  Result<uint64_t> Skip(uint64_t n) override {
    uint64_t skipped = n;
    for (const RowStreamPtr& input : inputs_) {
      PENSTOCK_ASSIGN(const uint64_t there, input->Skip(n));
      skipped = std::min(skipped, there);
    }
    return skipped;
  }
  uint64_t state_bytes() const override {
    uint64_t bytes = 0;
    for (const RowStreamPtr& input : inputs_) bytes += input->state_bytes();
    return bytes;
  }
  std::string where() const override { return inputs_.front()->where(); }

 private:
  std::vector<RowStreamPtr> inputs_;
};

class Zip final : public Operator {
 public:
  using Operator::Operator;

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const override {
    uint64_t rows = kEndlessRows;
    for (const auto& input : inputs) {
      if (!input.has_value()) return std::nullopt;
      rows = std::min(rows, *input);
    }
    return rows;
  }
  RowIndexPtr Index(const Node& node, const OrderKey& order) const override {
    std::vector<RowIndexPtr> inputs;
    for (const auto& input : node.inputs) inputs.push_back(OpenIndex(*input, order));
    return std::make_unique<ZipIndex>(std::move(inputs));
  }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    std::vector<RowStreamPtr> inputs;
    for (const auto& input : node.inputs) {
      PENSTOCK_ASSIGN(RowStreamPtr stream, OpenStream(*input, context));
      inputs.push_back(std::move(stream));
    }
    return RowStreamPtr(std::make_unique<ZipStream>(std::move(inputs)));
  }
  Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const override {
    std::vector<const Row*> parts(rows.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Node& input = *node.inputs[i];
      std::transform(rows.begin(), rows.end(), parts.begin(), [i](const Row* row) { return &row->parts[i]; });
      PENSTOCK_TRY(engine::Evaluate(input, parts, columns.first(input.spec().columns.size())));
      columns = columns.subspan(input.spec().columns.size());
    }
    return {};
  }
  bool Strings(const Node&, RowPtrs, std::vector<std::string_view>&) const override { return false; }
  std::string Words() const override { return "rows of the inputs side by side"; }
};

}  // namespace

MadeOperator MakeZip(const PlanNode& node, InputSpecs inputs) {
  PENSTOCK_TRY(AttrReader(node).Done());
  std::vector<Spec> specs;
  for (const Spec* input : inputs) specs.push_back(*input);
  return std::unique_ptr<Operator>(std::make_unique<Zip>(TupleOf(specs)));
}

}  // namespace penstock::engine
