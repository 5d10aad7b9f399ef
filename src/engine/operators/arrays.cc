// arrays(rows, columns, structure): rows that the plan itself carries, as buffers of a block.
#include <algorithm>
#include <cstring>

#include "base/constants.h"
#include "engine/operators/operators.h"
#include "engine/operators/spec_attrs.h"
#include "plan/attrs.h"

namespace penstock::engine {
namespace {

// One column's memory: buffers as the plan brought them, checked.
struct ArrayColumn {
  ColumnShape shape;
  std::vector<Bytes> buffers;
};

class ArraysIndex final : public RowIndex {
 public:
  Row At(uint64_t i) override {
    Row row;
    row.number = i;
    return row;
  }
};

std::span<const std::byte> BytesOf(const Bytes& bytes) { return std::as_bytes(std::span(bytes->data(), bytes->size())); }

class Arrays final : public Operator {
 public:
  Arrays(Spec spec, uint64_t rows, std::vector<ArrayColumn> columns) : Operator(std::move(spec)), rows_(rows), columns_(std::move(columns)) {
    for (const ArrayColumn& column : columns_) {
      for (const Bytes& buffer : column.buffers) bytes_ += buffer->size();
    }
  }

  std::optional<uint64_t> Rows(std::span<const std::optional<uint64_t>>) const override { return rows_; }
  RowIndexPtr Index(const Node&, const OrderKey&) const override { return std::make_unique<ArraysIndex>(); }
  Status Evaluate(const Node&, RowPtrs rows, ColumnPtrs columns) const override {
    std::vector<uint64_t> numbers;
    numbers.reserve(rows.size());
    for (const Row* row : rows) numbers.push_back(row->number);
    const bool run = !numbers.empty() && numbers.back() - numbers.front() == numbers.size() - 1 && std::is_sorted(numbers.begin(), numbers.end());
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == nullptr) continue;
      const ColumnView view = View(columns_[i]);
      if (run) {
        columns[i]->Append(view, numbers.front(), numbers.size());
      } else {
        columns[i]->Gather(view, numbers);
      }
    }
    return {};
  }
  std::vector<std::span<const std::byte>> Kept(uint64_t first, uint64_t n) const override {
    std::vector<std::span<const std::byte>> columns;
    for (const ArrayColumn& column : columns_) {
      if (column.shape.levels > 0) return {};  // offsets begin at 0 in each block
      const uint64_t row_bytes = column.shape.fan[0];
      columns.push_back(BytesOf(column.buffers.back()).subspan(first * row_bytes, n * row_bytes));
    }
    return columns;
  }
  bool Strings(const Node&, RowPtrs, std::vector<std::string_view>&) const override { return false; }
  uint64_t RowBytes(std::span<const uint64_t>) const override { return rows_ == 0 ? 0 : bytes_ / rows_; }
  std::string Words() const override { return std::to_string(rows_) + " rows in the plan, " + std::to_string(bytes_) + " bytes"; }

 private:
  ColumnView View(const ArrayColumn& column) const {
    std::vector<std::span<const std::byte>> buffers;
    for (const Bytes& buffer : column.buffers) buffers.push_back(BytesOf(buffer));
    return ColumnView::Of(column.shape, rows_, buffers);
  }

  uint64_t rows_;
  std::vector<ArrayColumn> columns_;
  uint64_t bytes_ = 0;
};

int64_t OffsetAt(const Bytes& offsets, uint64_t i) {
  int64_t value = 0;
  std::memcpy(&value, offsets->data() + i * sizeof(int64_t), sizeof(int64_t));
  return value;
}

// False: there is no memory of that size.
bool Product(uint64_t entries, uint64_t fan, uint64_t& out) { return !__builtin_mul_overflow(entries, fan, &out) && out <= kMaxBlock; }

// Bounds and monotone offsets, before anything is read through them.
Status CheckBuffers(const std::string& name, uint64_t rows, const ArrayColumn& column) {
  const auto bad = [&](const std::string& what) { return Status(Code::kInvalid, "arrays: column '" + name + "' " + what); };
  if (column.buffers.size() != column.shape.levels + 1) {
    return bad("has " + std::to_string(column.buffers.size() - 1) + " offsets buffers where its dtype and shape want " +
               std::to_string(column.shape.levels));
  }
  uint64_t entries = rows;
  for (size_t level = 0; level < column.shape.levels; ++level) {
    const Bytes& offsets = column.buffers[level];
    uint64_t slots = 0;
    if (!Product(entries, column.shape.fan[level], slots)) return bad("would hold more values than a plan can");
    if (offsets->size() != (slots + 1) * sizeof(int64_t)) {
      return bad("wants " + std::to_string(slots + 1) + " offsets at ragged level " + std::to_string(level) + ", but has " +
                 std::to_string(offsets->size()) + " bytes of them");
    }
    if (OffsetAt(offsets, 0) != 0) return bad("has offsets that do not begin at 0");
    for (uint64_t i = 0; i < slots; ++i) {
      if (OffsetAt(offsets, i + 1) < OffsetAt(offsets, i)) return bad("has offsets that fall at " + std::to_string(i));
    }
    entries = static_cast<uint64_t>(OffsetAt(offsets, slots));
    if (entries > column.buffers.back()->size() && column.shape.fan[level + 1] > 0) return bad("has offsets beyond its values");
  }
  uint64_t wanted = 0;
  if (!Product(entries, column.shape.fan[column.shape.levels], wanted)) return bad("would hold more values than a plan can");
  if (column.buffers.back()->size() != wanted) {
    return bad("has " + std::to_string(column.buffers.back()->size()) + " bytes of values where its rows want " + std::to_string(wanted));
  }
  return {};
}

struct ReadColumn {
  ColumnSpec spec;
  ArrayColumn column;
};

Result<ReadColumn> ReadColumnAttr(const AttrMap& map, uint64_t rows) {
  AttrReader attrs("arrays: a column", map);
  PENSTOCK_ASSIGN(ColumnSpec spec, ReadColumnSpec(attrs));
  ArrayColumn column{ColumnShape(spec), {}};
  if (attrs.Has("offsets")) {
    PENSTOCK_ASSIGN(const std::vector<AttrMap>* levels, attrs.Maps("offsets"));
    for (const AttrMap& level : *levels) {
      AttrReader reader("arrays: offsets", level);
      PENSTOCK_ASSIGN(Bytes bytes, reader.Blob("bytes"));
      PENSTOCK_TRY(reader.Done());
      column.buffers.push_back(std::move(bytes));
    }
  }
  PENSTOCK_ASSIGN(Bytes values, attrs.Blob("values"));
  column.buffers.push_back(std::move(values));
  PENSTOCK_TRY(attrs.Done());
  PENSTOCK_TRY(CheckBuffers(spec.name, rows, column));
  return ReadColumn{std::move(spec), std::move(column)};
}

}  // namespace

MadeOperator MakeArrays(const PlanNode& node, InputSpecs) {
  AttrReader attrs(node);
  PENSTOCK_ASSIGN(const int64_t rows, attrs.IntFrom("rows", 0));
  if (rows > static_cast<int64_t>(kEndlessRows >> 20)) return attrs.Bad("rows", "is too large");
  PENSTOCK_ASSIGN(const std::vector<AttrMap>* maps, attrs.Maps("columns"));
  if (maps->empty()) return attrs.Bad("columns", "must have at least one column");
  std::vector<ColumnSpec> specs;
  std::vector<ArrayColumn> columns;
  for (const AttrMap& map : *maps) {
    PENSTOCK_ASSIGN(ReadColumn read, ReadColumnAttr(map, static_cast<uint64_t>(rows)));
    specs.push_back(std::move(read.spec));
    columns.push_back(std::move(read.column));
  }
  PENSTOCK_ASSIGN(Spec spec, ReadStructureOver(attrs, std::move(specs)));
  PENSTOCK_TRY(attrs.Done());
  return std::unique_ptr<Operator>(std::make_unique<Arrays>(std::move(spec), static_cast<uint64_t>(rows), std::move(columns)));
}

}  // namespace penstock::engine
