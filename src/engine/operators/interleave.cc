// interleave(cycle_length): rows of up to so many files in turn. In lanes it is one of the lane's files; over counted rows it does nothing.
#include "engine/operators/operators.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class Interleave final : public Operator {
 public:
  Interleave(Spec spec, uint32_t cycle) : Operator(std::move(spec)), cycle_(cycle) {}

  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    LaneContext inner = context;
    inner.cycle = cycle_;
    return OpenStream(node.input(), inner);
  }
  Mixing mixing() const override { return Mixing::kInterleaves; }
  uint32_t cycle() const override { return cycle_; }
  std::string Words() const override { return "rows of up to " + std::to_string(cycle_) + " files in turn"; }

 private:
  uint32_t cycle_;
};

}  // namespace

MadeOperator MakeInterleave(const PlanNode& node, InputSpecs inputs) {
  constexpr int64_t kMaxCycle = 4096;
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t cycle, attrs.IntFrom("cycle_length", 1, 16));
  PENSTOCK_TRY(attrs.Done());
  if (cycle > kMaxCycle) return attrs.Bad("cycle_length", "must be at most " + std::to_string(kMaxCycle));
  return std::unique_ptr<Operator>(std::make_unique<Interleave>(*inputs[0], static_cast<uint32_t>(cycle)));
}

}  // namespace penstock::engine
