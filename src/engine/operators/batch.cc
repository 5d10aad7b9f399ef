// batch(n, drop_remainder), padded_batch(n, drop_remainder). The last batching of a plan is lifted out and never runs here; one in mid-plan makes
// a row of n rows, within its lane.
#include <algorithm>
#include <memory>

#include "engine/graph.h"
#include "engine/nested.h"
#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

constexpr uint64_t kMaxHeld = uint64_t{1} << 62;

class BatchIndex final : public RowIndex {
 public:
  BatchIndex(RowIndexPtr input, uint64_t rows, uint64_t n) : input_(std::move(input)), rows_(rows), n_(n) {}
  Row At(uint64_t i) override {
    Row batch;
    const uint64_t end = std::min((i + 1) * n_, rows_);
    batch.parts.reserve(end - i * n_);
    for (uint64_t row = i * n_; row < end; ++row) batch.parts.push_back(input_->At(row));
    return batch;
  }

 private:
  RowIndexPtr input_;
  uint64_t rows_;
  uint64_t n_;
};

class BatchStream final : public OverOne {
 public:
  BatchStream(RowStreamPtr input, const Batching& batching, uint64_t state_cap)
      : OverOne(std::move(input)), batching_(batching), state_cap_(state_cap) {}

  Result<bool> Next(Row& row) override {
    Row batch;
    Row one;
    uint64_t held = 0;
    while (batch.parts.size() < batching_.rows) {
      PENSTOCK_ASSIGN(const bool more, input_->Next(one));
      if (!more) break;
      held += HeldBytes(one);
      batch.parts.push_back(std::move(one));
      PENSTOCK_TRY(CheckHeld(batch.parts.size(), held));
    }
    if (!Counts(batch.parts.size())) return false;
    row = std::move(batch);
    return true;
  }
  Result<uint64_t> Skip(uint64_t n) override {
    PENSTOCK_ASSIGN(const uint64_t passed, input_->Skip(n * batching_.rows));
    return passed / batching_.rows + (Counts(passed % batching_.rows) ? 1 : 0);
  }

 private:
  bool Counts(uint64_t rows) const { return rows == batching_.rows || (rows > 0 && !batching_.drop_remainder); }
  Status CheckHeld(uint64_t rows, uint64_t held) const {
    if (state_cap_ == 0 || held <= state_cap_) return {};
    return HoldsTooMuch("batch: " + std::to_string(rows) + " rows of one of " + std::to_string(batching_.rows), held, "n");
  }

  Batching batching_;
  uint64_t state_cap_;  // LaneRequest::state_cap
};

class Batch final : public Operator {
 public:
  Batch(const Spec& row, const Batching& batching) : Operator(Batched(row, batching)), batching_(batching) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const override {
    if (!inputs[0].has_value()) return std::nullopt;
    if (*inputs[0] >= kEndlessRows) return kEndlessRows;
    const bool short_one = *inputs[0] % batching_.rows != 0 && !batching_.drop_remainder;
    return *inputs[0] / batching_.rows + (short_one ? 1 : 0);
  }
  RowIndexPtr Index(const Node& node, const OrderKey& order) const override {
    return std::make_unique<BatchIndex>(OpenIndex(node.input(), order), *node.input().rows, batching_.rows);
  }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(node.input(), context));
    return RowStreamPtr(std::make_unique<BatchStream>(std::move(input), batching_, context.state_cap));
  }
  Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const override {
    std::vector<const Row*> flat;
    for (const Row* row : rows) {
      for (const Row& part : row->parts) flat.push_back(&part);
    }
    const Spec& spec = node.input().spec();
    std::vector<std::unique_ptr<Column>> inner;
    std::vector<Column*> wanted;
    for (size_t i = 0; i < columns.size(); ++i) {
      inner.push_back(columns[i] == nullptr ? nullptr : std::make_unique<Column>(spec.columns[i]));
      wanted.push_back(inner.back().get());
    }
    PENSTOCK_TRY(engine::Evaluate(node.input(), flat, wanted));
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] != nullptr) Nest(rows, spec.columns[i], inner[i]->view(), *columns[i]);
    }
    return {};
  }
  bool Strings(const Node&, RowPtrs, std::vector<std::string_view>&) const override { return false; }
  uint64_t HeldBytesOfRow(const Node& node) const override {
    const uint64_t rows = std::min(batching_.rows, node.input().rows.value_or(batching_.rows));
    const uint64_t bytes = node.input().op->HeldBytesOfRow(node.input());
    return rows < kMaxHeld / bytes ? sizeof(Row) + rows * bytes : kMaxHeld;  // batches of batches of batches
  }
  uint64_t RowBytes(std::span<const uint64_t> inputs) const override { return inputs[0] * batching_.rows; }
  std::optional<Batching> batching() const override { return batching_; }
  std::string Words() const override {
    return "batches of " + std::to_string(batching_.rows) + " rows" + (batching_.drop_remainder ? ", full ones only" : "") +
           (batching_.pad ? ", padded" : "");
  }

 private:
  void Nest(RowPtrs rows, const ColumnSpec& spec, const ColumnView& from, Column& to) const {
    uint64_t first = 0;
    for (const Row* row : rows) {
      if (batching_.pad) {
        AppendPadded(to, spec, from, first, row->parts.size(), !batching_.drop_remainder);
      } else {
        AppendNested(to, from, first, row->parts.size(), !batching_.drop_remainder);
      }
      first += row->parts.size();
    }
  }

  Batching batching_;
};

MadeOperator Make(const PlanNode& node, InputSpecs inputs, bool pad) {
  constexpr int64_t kMaxBatch = int64_t{1} << 31;
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t n, attrs.IntFrom("n", 1));
  PENSTOCK_ASSIGN(const bool drop_remainder, attrs.Bool("drop_remainder", false));
  PENSTOCK_TRY(attrs.Done());
  if (n > kMaxBatch) return attrs.Bad("n", "must be at most " + std::to_string(kMaxBatch));
  return std::unique_ptr<Operator>(std::make_unique<Batch>(*inputs[0], Batching{static_cast<uint64_t>(n), drop_remainder, pad}));
}

}  // namespace

MadeOperator MakeBatch(const PlanNode& node, InputSpecs inputs) { return Make(node, inputs, false); }
MadeOperator MakePaddedBatch(const PlanNode& node, InputSpecs inputs) { return Make(node, inputs, true); }

}  // namespace penstock::engine
