// prefetch(count): means nothing here; lanes read ahead within the worker's and the client's budgets by themselves.
#include "engine/operators/operators.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class Prefetch final : public Operator {
 public:
  using Operator::Operator;
  bool passes_rows() const override { return true; }
  std::string Words() const override { return "nothing: lanes read ahead by themselves"; }
};

}  // namespace

MadeOperator MakePrefetch(const PlanNode& node, InputSpecs inputs) {
  AttrReader attrs(node);
  PENSTOCK_TRY(attrs.Int("count", 0));
  PENSTOCK_TRY(attrs.Done());
  return std::unique_ptr<Operator>(std::make_unique<Prefetch>(*inputs[0]));
}

}  // namespace penstock::engine
