// enumerate(start): each row with its number.
#include <cstring>

#include "engine/operators/operators.h"
#include "engine/streams.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

Row Numbered(uint64_t number, Row row) {
  Row pair;
  pair.number = number;
  pair.parts.push_back(std::move(row));
  return pair;
}

class EnumerateIndex final : public RowIndex {
 public:
  EnumerateIndex(RowIndexPtr input, uint64_t start) : input_(std::move(input)), start_(start) {}
  Row At(uint64_t i) override { return Numbered(start_ + i, input_->At(i)); }

 private:
  RowIndexPtr input_;
  uint64_t start_;
};

class EnumerateStream final : public OverOne {
 public:
  EnumerateStream(RowStreamPtr input, uint64_t start) : OverOne(std::move(input)), next_(start) {}

  Result<bool> Next(Row& row) override {
    Row inner;
    PENSTOCK_ASSIGN(const bool more, input_->Next(inner));
    if (more) row = Numbered(next_++, std::move(inner));
    return more;
  }
  Result<uint64_t> Skip(uint64_t n) override {
    PENSTOCK_ASSIGN(const uint64_t skipped, input_->Skip(n));
    next_ += skipped;
    return skipped;
  }

 private:
  uint64_t next_;
};

class Enumerate final : public Operator {
 public:
  Enumerate(const Spec& row, int64_t start) : Operator(TupleOf({LeafSpec(DType::kInt64, {}), row})), start_(static_cast<uint64_t>(start)) {}

  RowIndexPtr Index(const Node& node, const OrderKey& order) const override {
    return std::make_unique<EnumerateIndex>(OpenIndex(node.input(), order), start_);
  }
  Result<RowStreamPtr> Open(const Node& node, const LaneContext& context) const override {
    PENSTOCK_ASSIGN(RowStreamPtr input, OpenStream(node.input(), context));
    return RowStreamPtr(std::make_unique<EnumerateStream>(std::move(input), start_));
  }
  Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const override {
    std::vector<const Row*> inner;
    inner.reserve(rows.size());
    for (const Row* row : rows) inner.push_back(&row->parts[0]);
    if (columns[0] != nullptr) {
      std::byte* out = columns[0]->AppendDense(rows.size());
      for (size_t i = 0; i < rows.size(); ++i) std::memcpy(out + i * sizeof(int64_t), &rows[i]->number, sizeof(int64_t));
    }
    return engine::Evaluate(node.input(), inner, columns.subspan(1));
  }
  bool Strings(const Node&, RowPtrs, std::vector<std::string_view>&) const override { return false; }
  uint64_t RowBytes(std::span<const uint64_t> inputs) const override { return inputs[0] + sizeof(int64_t); }
  std::string Words() const override { return "rows numbered from " + std::to_string(static_cast<int64_t>(start_)); }

 private:
  uint64_t start_;
};

}  // namespace

MadeOperator MakeEnumerate(const PlanNode& node, InputSpecs inputs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t start, attrs.Int("start", 0));
  PENSTOCK_TRY(attrs.Done());
  return std::unique_ptr<Operator>(std::make_unique<Enumerate>(*inputs[0], start));
}

}  // namespace penstock::engine
