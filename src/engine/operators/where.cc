// where(condition): the rows for which a condition on their values holds. Only the columns that it looks at are evaluated of rows that it drops.
//
// A lane's rows are numbered behind it: to the service a filtered lane is one with fewer rows.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/constants.h"
#include "engine/condition.h"
#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

// Rows are looked at together, so many or of so many bytes.
constexpr size_t kRowsTogether = 64;
constexpr uint64_t kBytesTogether = 128 * kKiB;

class WhereStream final : public OverOne {
 public:
  WhereStream(RowStreamPtr input, const Node& node, const Condition& condition, RandomStream random)
      : OverOne(std::move(input)), node_(node), condition_(condition), random_(random) {
    const std::vector<bool>& wanted = condition.wanted();
    columns_.reserve(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      column_ptrs_.push_back(wanted[i] ? &columns_.emplace_back(node.spec().columns[i]) : nullptr);
    }
  }

  Result<bool> Next(Row& row) override {
    PENSTOCK_ASSIGN(const bool found, FindKept());
    if (found) std::swap(row, rows_[at_++]);
    return found;
  }
  Result<uint64_t> Skip(uint64_t n) override {
    for (uint64_t passed = 0; passed < n; ++passed, ++at_) {
      PENSTOCK_ASSIGN(const bool found, FindKept());
      if (!found) return passed;
    }
    return n;
  }
  uint64_t state_bytes() const override {
    uint64_t bytes = input_->state_bytes();
    for (size_t i = at_; i < holds_.size(); ++i) bytes += HeldBytes(rows_[i]);
    return bytes;
  }

 private:
  // Brings `at_` to the next row that is kept; false: there are no more.
  Result<bool> FindKept() {
    for (;;) {
      while (at_ < holds_.size() && holds_[at_] == 0) ++at_;
      if (at_ < holds_.size()) return true;
      if (ended_) return false;
      PENSTOCK_TRY(Pull());
      PENSTOCK_TRY(Judge());
    }
  }

  Status Pull() {
    first_ += pulled_;
    pulled_ = at_ = 0;
    uint64_t bytes = 0;
    while (pulled_ < kRowsTogether && bytes < kBytesTogether) {
      if (rows_.size() == pulled_) rows_.emplace_back();
      PENSTOCK_ASSIGN(const bool more, input_->Next(rows_[pulled_]));
      ended_ = !more;
      if (ended_) break;
      bytes += HeldBytes(rows_[pulled_++]);
    }
    return {};
  }

  Status Judge() {
    holds_.clear();
    views_.clear();
    if (!columns_.empty()) PENSTOCK_TRY(Look());
    condition_.Evaluate(views_, pulled_, random_, first_, holds_);
    return {};
  }

  // Evaluates what the condition wants of the rows.
  Status Look() {
    row_ptrs_.clear();
    for (size_t i = 0; i < pulled_; ++i) row_ptrs_.push_back(&rows_[i]);
    for (Column& column : columns_) column.Clear();
    PENSTOCK_TRY(engine::Evaluate(node_.input(), row_ptrs_, column_ptrs_));
    for (const Column& column : columns_) views_.push_back(column.view());
    return {};
  }

  const Node& node_;
  const Condition& condition_;
  RandomStream random_;
  std::vector<Column> columns_;       // that the condition wants
  std::vector<Column*> column_ptrs_;  // by column of the spec
  std::vector<ColumnView> views_;
  std::vector<Row> rows_;  // the first pulled_ are of now
  std::vector<const Row*> row_ptrs_;
  std::vector<uint8_t> holds_;  // of those
  size_t pulled_ = 0;
  size_t at_ = 0;
  Seq first_ = 0;  // number of rows_[0] in the input: what is drawn for a row depends on that
  bool ended_ = false;
};

class Where final : public Operator {
 public:
  Where(Spec spec, Condition condition) : Operator(std::move(spec)), condition_(std::move(condition)) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>>) const override { return std::nullopt; }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(node.input(), context));
    return RowStreamPtr(std::make_unique<WhereStream>(std::move(input), node, condition_, context.order.StreamOf(node.id)));
  }
  uint64_t StateBytes(uint64_t lane_bytes) const override { return std::min(lane_bytes, kBytesTogether); }
  bool commutes_with_batch() const override { return false; }
  std::string Words() const override { return "rows where " + condition_.Words(); }

 private:
  Condition condition_;
};

}  // namespace

MadeOperator MakeWhere(const PlanNode& node, InputSpecs inputs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const std::vector<AttrMap>* steps, attrs.Maps("condition"));
  PENSTOCK_TRY(attrs.Done());
  PENSTOCK_ASSIGN(Condition condition, Condition::Create(*steps, *inputs[0]));
  return std::unique_ptr<Operator>(std::make_unique<Where>(*inputs[0], std::move(condition)));
}

}  // namespace penstock::engine
