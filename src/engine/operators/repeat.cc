// repeat(count): the input again and again, each pass with orders of its own.
#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class RepeatIndex final : public RowIndex {
 public:
  RepeatIndex(const Node& input, const OrderKey& order) : input_(input), order_(order) {}
  Row At(uint64_t i) override {
    const uint64_t pass = i / *input_.rows;
    if (index_ == nullptr || pass != pass_) {
      index_ = OpenIndex(input_, order_.Pass(pass));
      pass_ = pass;
    }
    return index_->At(i % *input_.rows);
  }

 private:
  const Node& input_;
  OrderKey order_;
  RowIndexPtr index_;
  uint64_t pass_ = 0;
};

class RepeatStream final : public RowStream {
 public:
  RepeatStream(const Node& input, const LaneContext& context, int64_t count) : input_(input), context_(context), passes_(count) {}

  Result<bool> Next(Row& row) override {
    for (;;) {
      PENSTOCK_ASSIGN(const bool there, Settle());
      if (!there) return false;
      PENSTOCK_ASSIGN(const bool more, current_->Next(row));
      rows_in_pass_ += more ? 1 : 0;
      if (more) return true;
      EndPass();
    }
  }
  Result<uint64_t> Skip(uint64_t n) override {
    uint64_t skipped = 0;
    while (skipped < n) {
      PENSTOCK_ASSIGN(const bool there, Settle());
      if (!there) break;
      PENSTOCK_ASSIGN(const uint64_t step, current_->Skip(n - skipped));
      skipped += step;
      rows_in_pass_ += step;
      if (skipped < n) EndPass();
    }
    return skipped;
  }
  uint64_t state_bytes() const override { return current_ == nullptr ? 0 : current_->state_bytes(); }
  std::string where() const override { return "pass " + std::to_string(pass_) + (current_ == nullptr ? std::string() : ", " + current_->where()); }

 private:
  Result<bool> Settle() {
    if (current_ != nullptr) return true;
    if (empty_ || (passes_ >= 0 && pass_ == static_cast<uint64_t>(passes_))) return false;
    LaneContext context = context_;
    context.order = context.order.Pass(pass_);
    PENSTOCK_ASSIGN(current_, OpenStream(input_, context));
    return true;
  }
  void EndPass() {
    empty_ = rows_in_pass_ == 0;  // an endless repeat of nothing is nothing
    rows_in_pass_ = 0;
    current_.reset();
    ++pass_;
  }

  const Node& input_;
  LaneContext context_;
  int64_t passes_;
  uint64_t pass_ = 0;
  uint64_t rows_in_pass_ = 0;
  bool empty_ = false;
  RowStreamPtr current_;
};

class Repeat final : public Operator {
 public:
  Repeat(Spec spec, int64_t count) : Operator(std::move(spec)), count_(count) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const override {
    if (count_ == 0) return 0;
    if (!inputs[0].has_value()) return std::nullopt;
    if (*inputs[0] == 0) return 0;
    if (count_ < 0 || *inputs[0] > kEndlessRows / static_cast<uint64_t>(count_)) return kEndlessRows;
    return *inputs[0] * static_cast<uint64_t>(count_);
  }
  RowIndexPtr Index(const Node& node, const OrderKey& order) const override { return std::make_unique<RepeatIndex>(node.input(), order); }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    return RowStreamPtr(std::make_unique<RepeatStream>(node.input(), context, count_));
  }
  std::optional<int64_t> passes() const override { return count_; }
  std::string Words() const override { return count_ < 0 ? "passes without end" : std::to_string(count_) + " passes"; }

 private:
  int64_t count_;
};

}  // namespace

MadeOperator MakeRepeat(const PlanNode& node, InputSpecs inputs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t count, attrs.IntFrom("count", -1, -1));
  PENSTOCK_TRY(attrs.Done());
  return std::unique_ptr<Operator>(std::make_unique<Repeat>(*inputs[0], count));
}

}  // namespace penstock::engine
