// range(start, stop, step): the numbers of an arithmetic sequence.
#include <cstring>

#include "engine/operators/operators.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

class RangeIndex final : public RowIndex {
 public:
  RangeIndex(int64_t start, int64_t step) : start_(start), step_(step) {}
  Row At(uint64_t i) override {
    Row row;
    row.number = static_cast<uint64_t>(start_) + i * static_cast<uint64_t>(step_);
    return row;
  }

 private:
  int64_t start_;
  int64_t step_;
};

class Range final : public Operator {
 public:
  Range(int64_t start, int64_t stop, int64_t step) : Operator(LeafSpec(DType::kInt64, {})), start_(start), stop_(stop), step_(step) {}

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>>) const override {
    if (step_ > 0 ? start_ >= stop_ : start_ <= stop_) return 0;
    const uint64_t low = static_cast<uint64_t>(step_ > 0 ? start_ : stop_);
    const uint64_t high = static_cast<uint64_t>(step_ > 0 ? stop_ : start_);
    const uint64_t step = step_ > 0 ? static_cast<uint64_t>(step_) : uint64_t{0} - static_cast<uint64_t>(step_);
    return (high - low - 1) / step + 1;
  }
  RowIndexPtr Index(const Node&, const OrderKey&) const override { return std::make_unique<RangeIndex>(start_, step_); }
  Status Evaluate(const Node&, RowPtrs rows, ColumnPtrs columns) const override {
    if (columns[0] == nullptr) return {};
    std::byte* out = columns[0]->AppendDense(rows.size());
    for (const Row* row : rows) {
      std::memcpy(out, &row->number, sizeof(int64_t));
      out += sizeof(int64_t);
    }
    return {};
  }
  uint64_t RowBytes(std::span<const uint64_t>) const override { return sizeof(int64_t); }
  std::string Words() const override {
    return "numbers from " + std::to_string(start_) + " to " + std::to_string(stop_) + (step_ == 1 ? "" : " by " + std::to_string(step_));
  }

 private:
  int64_t start_;
  int64_t stop_;
  int64_t step_;
};

}  // namespace

MadeOperator MakeRange(const PlanNode& node, InputSpecs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t start, attrs.Int("start", 0));
  PENSTOCK_ASSIGN(const int64_t stop, attrs.Int("stop"));
  PENSTOCK_ASSIGN(const int64_t step, attrs.Int("step", 1));
  PENSTOCK_TRY(attrs.Done());
  if (step == 0) return attrs.Bad("step", "must not be 0");
  return std::unique_ptr<Operator>(std::make_unique<Range>(start, stop, step));
}

}  // namespace penstock::engine
