// skip(count): all rows but the first.
#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class SkipStream final : public OverOne {
 public:
  SkipStream(RowStreamPtr input, uint64_t count) : OverOne(std::move(input)), ahead_(count) {}

  Result<bool> Next(Row& row) override {
    PENSTOCK_TRY(Begin());
    return input_->Next(row);
  }
  Result<uint64_t> Skip(uint64_t n) override {
    PENSTOCK_TRY(Begin());
    return input_->Skip(n);
  }

 private:
  Status Begin() {
    if (ahead_ == 0) return {};
    PENSTOCK_TRY(input_->Skip(ahead_));
    ahead_ = 0;
    return {};
  }
  uint64_t ahead_;
};

class SkipRows final : public Operator {
 public:
  SkipRows(Spec spec, uint64_t count) : Operator(std::move(spec)), count_(count) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const override {
    if (!inputs[0].has_value()) return std::nullopt;
    if (*inputs[0] >= kEndlessRows) return kEndlessRows;
    return *inputs[0] > count_ ? *inputs[0] - count_ : 0;
  }
  RowIndexPtr Index(const Node& node, const OrderKey& order) const override {
    return Renumbered(OpenIndex(node.input(), order), [count = count_](uint64_t i) { return i + count; });
  }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(node.input(), context));
    return RowStreamPtr(std::make_unique<SkipStream>(std::move(input), count_));
  }
  std::string Words() const override { return "all but the first " + std::to_string(count_) + " rows"; }

 private:
  uint64_t count_;
};

}  // namespace

MadeOperator MakeSkip(const PlanNode& node, InputSpecs inputs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t count, attrs.IntFrom("count", 0));
  PENSTOCK_TRY(attrs.Done());
  return std::unique_ptr<Operator>(std::make_unique<SkipRows>(*inputs[0], static_cast<uint64_t>(count)));
}

}  // namespace penstock::engine
