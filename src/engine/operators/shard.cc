// shard(num, index): every num-th row, from row `index` on.
#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class ShardStream final : public OverOne {
 public:
  ShardStream(RowStreamPtr input, uint64_t num, uint64_t index) : OverOne(std::move(input)), num_(num), gap_(index) {}

  Result<bool> Next(Row& row) override {
    PENSTOCK_ASSIGN(const uint64_t passed, input_->Skip(gap_));
    if (passed < gap_) return false;
    gap_ = num_ - 1;
    return input_->Next(row);
  }
  Result<uint64_t> Skip(uint64_t n) override {
    if (n == 0) return uint64_t{0};
    const uint64_t wanted = gap_ + 1 + (n - 1) * num_;
    PENSTOCK_ASSIGN(const uint64_t passed, input_->Skip(wanted));
    const uint64_t skipped = passed <= gap_ ? 0 : (passed - gap_ - 1) / num_ + 1;
    gap_ = num_ - 1;
    return skipped;
  }

 private:
  uint64_t num_;
  uint64_t gap_;  // rows before the next of ours
};

class Shard final : public Operator {
 public:
  Shard(Spec spec, uint64_t num, uint64_t index) : Operator(std::move(spec)), num_(num), index_(index) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>> inputs) const override {
    if (!inputs[0].has_value()) return std::nullopt;
    if (*inputs[0] >= kEndlessRows) return kEndlessRows;
    return *inputs[0] > index_ ? (*inputs[0] - index_ - 1) / num_ + 1 : 0;
  }
  RowIndexPtr Index(const Node& node, const OrderKey& order) const override {
    return Renumbered(OpenIndex(node.input(), order), [num = num_, index = index_](uint64_t i) { return i * num + index; });
  }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(node.input(), context));
    return RowStreamPtr(std::make_unique<ShardStream>(std::move(input), num_, index_));
  }
  std::string Words() const override { return "every " + std::to_string(num_) + "th row from row " + std::to_string(index_); }

 private:
  uint64_t num_;
  uint64_t index_;
};

}  // namespace

MadeOperator MakeShard(const PlanNode& node, InputSpecs inputs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t num, attrs.IntFrom("num", 1));
  PENSTOCK_ASSIGN(const int64_t index, attrs.IntFrom("index", 0));
  PENSTOCK_TRY(attrs.Done());
  if (index >= num) return attrs.Bad("index", "must be below num, which is " + std::to_string(num));
  return std::unique_ptr<Operator>(std::make_unique<Shard>(*inputs[0], static_cast<uint64_t>(num), static_cast<uint64_t>(index)));
}

}  // namespace penstock::engine
