// take(count): the first rows.
#include <algorithm>

#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class TakeStream final : public OverOne {
 public:
  TakeStream(RowStreamPtr input, uint64_t count) : OverOne(std::move(input)), left_(count) {}

  Result<bool> Next(Row& row) override {
    if (left_ == 0) return false;
    --left_;
    return input_->Next(row);
  }
  Result<uint64_t> Skip(uint64_t n) override {
    const uint64_t step = std::min(n, left_);
    left_ -= step;
    return input_->Skip(step);
  }

 private:
  uint64_t left_;
};

class Take final : public Operator {
 public:
  Take(Spec spec, uint64_t count) : Operator(std::move(spec)), count_(count) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const override {
    if (count_ == 0) return 0;
    return inputs[0].has_value() ? std::optional(std::min(*inputs[0], count_)) : std::nullopt;
  }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(node.input(), context));
    return RowStreamPtr(std::make_unique<TakeStream>(std::move(input), count_));
  }
  std::string Words() const override { return "the first " + std::to_string(count_) + " rows"; }

 private:
  uint64_t count_;
};

}  // namespace

MadeOperator MakeTake(const PlanNode& node, InputSpecs inputs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t count, attrs.IntFrom("count", -1));
  PENSTOCK_TRY(attrs.Done());
  return std::unique_ptr<Operator>(std::make_unique<Take>(*inputs[0], count < 0 ? kEndlessRows : static_cast<uint64_t>(count)));
}

}  // namespace penstock::engine
