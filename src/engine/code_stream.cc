// Rows of code below native operators: the blocks of a run of their own, taken apart again, since shuffles and counts move single rows.
#include <cstring>
#include <optional>
#include <utility>

#include "base/constants.h"
#include "engine/code_run.h"
#include "engine/streams.h"

namespace penstock::engine {
namespace {

constexpr uint64_t kStreamBlock = 256 * kKiB;

// A row's buffers one after the other, each behind its length.
void PackRow(const std::vector<ColumnView>& columns, uint64_t row, std::string& bytes) {
  bytes.clear();
  std::vector<uint64_t> lengths;
  for (const ColumnView& column : columns) {
    lengths.clear();
    column.BufferLengths(row, 1, lengths);
    const size_t head = bytes.size();
    size_t size = head + lengths.size() * sizeof(uint64_t);
    for (const uint64_t length : lengths) size += length;
    bytes.resize(size);
    auto* at = reinterpret_cast<std::byte*>(bytes.data()) + head;
    std::memcpy(at, lengths.data(), lengths.size() * sizeof(uint64_t));
    at += lengths.size() * sizeof(uint64_t);
    std::vector<std::span<std::byte>> buffers;
    for (const uint64_t length : lengths) {
      buffers.emplace_back(at, length);
      at += length;
    }
    column.CopyTo(row, 1, buffers);
  }
}

// Copies of the buffers, aligned as views want them.
class RowReader {
 public:
  explicit RowReader(const Row& row) : at_(row.bytes.view().data()) {}

  ColumnView Next(const ColumnShape& shape) {
    const size_t count = shape.levels + 1;
    std::vector<uint64_t> lengths(count);
    std::memcpy(lengths.data(), at_, count * sizeof(uint64_t));
    at_ += count * sizeof(uint64_t);
    buffers_.resize(count);
    std::vector<std::span<const std::byte>> spans;
    for (size_t i = 0; i < count; ++i) {
      buffers_[i].resize((lengths[i] + sizeof(uint64_t) - 1) / sizeof(uint64_t));
      if (lengths[i] > 0) std::memcpy(buffers_[i].data(), at_, lengths[i]);
      at_ += lengths[i];
      spans.push_back(std::as_bytes(std::span(buffers_[i])).first(lengths[i]));
    }
    return ColumnView::Of(shape, 1, spans);
  }

 private:
  const char* at_;
  std::vector<std::vector<uint64_t>> buffers_;
};

class CodeStream final : public RowStream {
 public:
  CodeStream(const Node& node, const LaneContext& context, std::vector<Piece> pieces) : spec_(std::make_shared<const Spec>(node.spec())) {
    for (const ColumnSpec& column : spec_->columns) shapes_.emplace_back(column);
    LanePlan plan;
    plan.root = &node;
    plan.spec = spec_;
    plan.context = context;
    plan.pieces = std::move(pieces);
    LaneRequest request;
    request.key = context.key;
    request.block_target = kStreamBlock;
    request.block_cap = kMaxBlock;
    request.allocator = &context.code->scratch();
    run_ = MakeCodeRun(std::move(plan), request);
  }

  Result<bool> Next(Row& row) override {
    while (!ended_ && at_ == rows_) PENSTOCK_TRY(Load());
    if (ended_) return false;
    PackRow(columns_, at_++, row.bytes.Own());
    return true;
  }
  Result<uint64_t> Skip(uint64_t n) override {
    uint64_t skipped = 0;
    while (skipped < n) {
      while (!ended_ && at_ == rows_) PENSTOCK_TRY(Load());
      if (ended_) break;
      const uint64_t step = std::min(n - skipped, rows_ - at_);
      at_ += step;
      skipped += step;
    }
    return skipped;
  }
  uint64_t state_bytes() const override { return run_->state_bytes() + block_.size(); }
  std::string where() const override { return run_->where(); }

 private:
  Status Load() {
    StepResult result = run_->Step();
    if (auto* status = std::get_if<Status>(&result)) return *status;
    if (std::holds_alternative<Blocked>(result)) return Status(Code::kInternal, "memory that has no budget has no room");
    if (std::holds_alternative<LaneOver>(result)) {
      ended_ = true;
      return {};
    }
    block_ = std::move(std::get<Produced>(result).extent);
    PENSTOCK_ASSIGN(const BlockView view, CheckBlock(*spec_, block_.bytes()));
    columns_.clear();
    size_t buffer = 0;
    for (const ColumnShape& shape : shapes_) {
      std::vector<std::span<const std::byte>> buffers;
      for (size_t i = 0; i <= shape.levels; ++i) buffers.push_back(view.buffer(buffer++));
      columns_.push_back(ColumnView::Of(shape, view.rows(), buffers));
    }
    rows_ = view.rows();
    at_ = 0;
    return {};
  }

  std::shared_ptr<const Spec> spec_;
  std::vector<ColumnShape> shapes_;
  std::unique_ptr<LaneRun> run_;
  Extent block_;
  std::vector<ColumnView> columns_;
  uint64_t rows_ = 0;
  uint64_t at_ = 0;
  bool ended_ = false;
};

}  // namespace

// A lane of several parts of one source reads them in turn; what is fed native rows reads all pieces of its input.
Result<RowStreamPtr> OpenCodeStream(const Node& node, const LaneContext& context) {
  const Program program(node);
  if (program.source == nullptr || context.serial) return RowStreamPtr(std::make_unique<CodeStream>(node, context, *context.pieces));
  auto pieces = std::make_shared<const std::vector<Piece>>(context.PiecesOf(*program.source_node));
  return InTurn(pieces->size(), [&node, context, pieces](size_t part) -> Result<RowStreamPtr> {
    return RowStreamPtr(std::make_unique<CodeStream>(node, context, std::vector<Piece>{(*pieces)[part]}));
  });
}

Status UnpackRows(const Spec& spec, RowPtrs rows, ColumnPtrs columns) {
  std::vector<ColumnShape> shapes;
  for (const ColumnSpec& column : spec.columns) shapes.emplace_back(column);
  for (const Row* row : rows) {
    RowReader reader(*row);
    for (size_t i = 0; i < shapes.size(); ++i) {
      const ColumnView view = reader.Next(shapes[i]);
      if (columns[i] != nullptr) columns[i]->Append(view, 0, 1);
    }
  }
  return {};
}

}  // namespace penstock::engine
