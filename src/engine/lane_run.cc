#include "engine/lane_run.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/constants.h"
#include "base/guarded.h"
#include "engine/seal.h"

namespace penstock::engine {
namespace {

// Rows are evaluated while what they were read into is still in the cache: so many together, where they differ in size, or so many bytes of them.
constexpr uint64_t kRowsAtOnce = 64;
constexpr uint64_t kBytesAtOnce = 128 * kKiB;
constexpr uint64_t kMaxRowsAtOnce = 4096;

// Bytes of a row that has no ragged dimension; 0 where rows differ.
uint64_t FixedRowBytes(const Spec& spec) {
  uint64_t bytes = 0;
  for (const ColumnSpec& column : spec.columns) {
    const ColumnShape shape(column);
    if (shape.levels > 0) return 0;
    bytes += shape.fan[0];
  }
  return std::max<uint64_t>(bytes, 1);
}

class Run final : public LaneRun {
 public:
  Run(LanePlan plan, const LaneRequest& request)
      : plan_(std::move(plan)),
        request_(request),
        columns_(plan_.spec),
        fixed_row_bytes_(FixedRowBytes(*plan_.spec)),
        next_(request.from.seq),
        read_(request.from.seq) {
    plan_.context.pieces = &plan_.pieces;
    request_.block_target = std::max<uint64_t>(request.block_target, 1);
    request_.block_cap = std::max(request.block_cap, request_.block_target);
  }

  StepResult Step() override {
    if (stream_ == nullptr) {
      if (Status status = Begin(); !status.ok()) return InLane(request_, std::move(status));
    }
    while (failed_.ok() && WantsMore()) {
      if (pulled_ == 0) failed_ = Pull();
      if (std::optional<StepResult> no_room = MakePlace()) return *std::move(no_room);
      if (failed_.ok()) failed_ = EvaluateRows();
    }
    if (columns_.rows() > 0) return Emit();  // what came before an error is good
    if (!failed_.ok()) return InLane(request_, failed_);
    return LaneOver{{next_, 0}, ended_};
  }

  void Extend(Seq to) override { request_.to = std::max(request_.to, to); }

  uint64_t state_bytes() const override {
    return (stream_ == nullptr ? 0 : stream_->state_bytes()) + columns_.capacity() + names_.capacity() * sizeof(uint32_t) + pulled_bytes_;
  }
  std::string where() const override { return stream_ == nullptr ? "not begun" : stream_->where(); }

 private:
  Status Begin() {
    PENSTOCK_ASSIGN(stream_, OpenStream(*plan_.root, plan_.context));
    PENSTOCK_ASSIGN(const uint64_t skipped, stream_->Skip(read_));
    ended_ = skipped < read_;
    return {};
  }

  // Rows of the pending ones up to the last end of a group: groups are cut from the lane's start.
  uint64_t WholeGroups() const {
    if (request_.by_group) return columns_.rows() >= plan_.group_rows ? plan_.group_rows : 0;
    const uint64_t end = next_ + columns_.rows();
    const uint64_t boundary = end - end % plan_.group_rows;
    return boundary > next_ ? boundary - next_ : 0;
  }

  bool Complete() const {
    if (columns_.rows() == 0) return false;  // though offsets begin with a 0 that takes bytes
    if (request_.by_group) return WholeGroups() > 0;
    const uint64_t bytes = columns_.bytes();
    // Rows of one size were planned to end with a group.
    const bool groups = fixed_row_bytes_ > 0 ? WholeGroups() == columns_.rows() : WholeGroups() > 0;
    return bytes >= request_.block_cap || (bytes >= request_.block_target && groups);
  }

  // How many rows the block still wants: what is missing to the target by the size of rows so far, and then to the end of the group.
  uint64_t Missing() const {
    if (request_.by_group) return std::min(plan_.group_rows - columns_.rows(), request_.to - read_);
    const uint64_t bytes = columns_.bytes();
    const uint64_t row_bytes = std::max<uint64_t>(fixed_row_bytes_ > 0 ? fixed_row_bytes_ : row_bytes_, 1);
    const bool short_of_target = bytes < request_.block_target;
    uint64_t rows = short_of_target ? (request_.block_target - bytes + row_bytes - 1) / row_bytes : 1;
    const uint64_t over = (next_ + columns_.rows() + rows) % plan_.group_rows;
    if (over > 0) rows += plan_.group_rows - over;
    const uint64_t room = std::max<uint64_t>((request_.block_cap - std::min(bytes, request_.block_cap)) / row_bytes, 1);
    return std::min({rows, room, request_.to - read_});
  }

  uint64_t AtOnce() const {
    if (fixed_row_bytes_ > 0) return std::clamp<uint64_t>(kBytesAtOnce / fixed_row_bytes_, 1, kMaxRowsAtOnce);
    return row_bytes_ == 0 ? 1 : kRowsAtOnce;
  }

  bool over() const { return ended_ || read_ >= request_.to; }

  bool WantsMore() const { return pulled_ > 0 || (!over() && !Complete()); }

  Status Pull() {
    const uint64_t missing = Missing();
    const uint64_t rows = std::min(missing, AtOnce());
    if (rows_.size() < rows) rows_.resize(rows);
    pulled_bytes_ = 0;
    Result<bool> more = true;
    while (pulled_ < rows && pulled_bytes_ < request_.block_target) {
      more = stream_->Next(rows_[pulled_]);
      if (!more.ok() || !*more) break;
      pulled_bytes_ += HeldBytes(rows_[pulled_++]);
    }
    ended_ = more.ok() && !*more;
    if (!more.ok()) pulled_ = 0;
    read_ += pulled_;
    const uint64_t to_come = over() ? 0 : std::min(stream_->left().value_or(missing), missing - pulled_);
    planned_ = pulled_ + to_come;
    last_ = planned_ < missing || read_ + to_come >= request_.to;
    return more.status();
  }

  // Rows of one size are evaluated where their block will lie, if it is a whole one. There may be no room for it now.
  std::optional<StepResult> MakePlace() {
    const uint64_t rows = planned_;
    const bool groups = (next_ + rows) % plan_.group_rows == 0;
    const bool alone = rows == 1 && fixed_row_bytes_ > request_.block_cap;  // whether it can ever fit is asked before its memory is touched
    const bool whole = request_.by_group ? rows == plan_.group_rows : groups && rows * fixed_row_bytes_ >= request_.block_target;
    if (pulled_ == 0 || columns_.rows() > 0 || fixed_row_bytes_ == 0 || !(whole || last_ || alone)) return std::nullopt;
    std::vector<uint64_t> lengths;
    for (size_t i = 0; i < columns_.size(); ++i) lengths.push_back(rows * columns_[i].shape().fan[0]);
    const BlockPlan block = PlanBlock(rows, {next_, 0}, {next_ + rows, 0}, /*has_cursors=*/false, lengths);
    const uint64_t bytes = block.header.total_bytes;
    if (bytes > request_.block_cap && !alone) return std::nullopt;
    Result<Extent> extent = request_.allocator->Allocate(bytes);
    if (!extent.ok()) return NoRoom(request_, extent.status(), next_, rows, bytes);
    columns_.WriteTo(BuffersIn(block, extent->bytes()));
    place_.emplace(std::move(*extent));
    place_rows_ = rows;
    return std::nullopt;
  }

  Status EvaluateRows() {
    if (pulled_ == 0) return {};
    row_ptrs_.clear();
    for (uint64_t i = 0; i < pulled_; ++i) row_ptrs_.push_back(&rows_[i]);
    column_ptrs_.clear();
    for (size_t i = 0; i < columns_.size(); ++i) column_ptrs_.push_back(&columns_[i]);
    const uint64_t before = columns_.rows();
    Status status = Evaluate(*plan_.root, row_ptrs_, column_ptrs_);
    if (!status.ok()) columns_.Truncate(before);  // some columns may have the rows that others lack
    if (kGuarded && status.ok()) {
      for (const Row* row : row_ptrs_) names_.push_back(NameOf(*row));
    }
    if (columns_.rows() > 0) row_bytes_ = columns_.bytes() / columns_.rows() + 1;
    Recycle();
    return status;
  }

  // Rows keep memory of their own for those that come, unless it became much.
  void Recycle() {
    pulled_ = 0;
    pulled_bytes_ = 0;
    for (Row& row : rows_) {
      Clear(row);
      pulled_bytes_ += HeldBytes(row);
    }
    if (pulled_bytes_ <= request_.block_target) return;
    rows_.clear();
    pulled_bytes_ = 0;
  }

  // Whole groups; fewer rows where they are over the cap, but at least one.
  uint64_t RowsOfBlock() const {
    const uint64_t pending = columns_.rows();
    const uint64_t groups = WholeGroups();
    if (request_.by_group) return groups > 0 ? groups : pending;
    const bool last = over() || !failed_.ok();
    const uint64_t rows = last && columns_.bytes() <= request_.block_target ? pending : groups > 0 ? groups : pending;
    if (PlanOf(rows).header.total_bytes <= request_.block_cap) return rows;
    uint64_t fits = 1;
    uint64_t too_many = rows;
    while (too_many - fits > 1) {
      const uint64_t middle = std::midpoint(fits, too_many);
      (PlanOf(middle).header.total_bytes <= request_.block_cap ? fits : too_many) = middle;
    }
    return fits;
  }

  BlockPlan PlanOf(uint64_t rows) const {
    return PlanBlock(rows, {next_, 0}, {next_ + rows, 0}, /*has_cursors=*/false, columns_.BufferLengths(0, rows));
  }

  StepResult Emit() {
    const uint64_t rows = RowsOfBlock();
    BlockPlan block = PlanOf(rows);
    const uint64_t bytes = block.header.total_bytes;
    const bool in_place = place_.has_value() && rows == place_rows_ && rows == columns_.rows();
    Result<Extent> extent = in_place ? *std::exchange(place_, std::nullopt) : Room(bytes);
    if (!extent.ok()) return NoRoom(request_, extent.status(), next_, rows, bytes);
    columns_.CopyTo(0, rows, BuffersIn(block, extent->bytes()));
    SealBlock(block, TakeNames(rows), extent->bytes());
    const BlockInfo info{rows, {next_, 0}, {next_ + rows, 0}, bytes, block.header.digest};
    next_ += rows;
    if (rows == columns_.rows()) {
      columns_.Clear();
      columns_.Own();
    } else {
      columns_ = columns_.Slice(rows, columns_.rows() - rows);
    }
    place_.reset();
    return Produced{std::move(*extent), info};
  }

  std::vector<uint32_t> TakeNames(uint64_t rows) {
    const auto end = names_.begin() + static_cast<std::ptrdiff_t>(kGuarded ? rows : 0);
    std::vector<uint32_t> taken(names_.begin(), end);
    names_.erase(names_.begin(), end);
    return taken;
  }

  // If there is no more, the place is given up for it.
  Result<Extent> Room(uint64_t bytes) {
    Result<Extent> room = request_.allocator->Allocate(bytes);
    if (room.ok() || !place_.has_value()) return room;
    columns_.Own();
    place_.reset();
    return request_.allocator->Allocate(bytes);
  }

  static std::vector<std::span<std::byte>> BuffersIn(const BlockPlan& block, std::span<std::byte> memory) {
    std::vector<std::span<std::byte>> buffers;
    for (const BufferPlace& place : block.places) buffers.push_back(memory.subspan(place.offset, place.length));
    return buffers;
  }

  LanePlan plan_;
  LaneRequest request_;
  RowStreamPtr stream_;
  std::optional<Extent> place_;  // of a block of place_rows_, which are being written there
  uint64_t place_rows_ = 0;
  Columns columns_;              // evaluated, not in a block yet; the first has seq next_
  std::vector<uint32_t> names_;  // of the rows in columns_: what a block's digest is made of
  std::vector<Row> rows_;        // the first pulled_ are to be evaluated
  uint64_t pulled_ = 0;
  uint64_t planned_ = 0;  // rows of the block that they begin, unless the lane ends before
  bool last_ = false;     // as far as is known nothing comes behind those
  uint64_t pulled_bytes_ = 0;
  std::vector<const Row*> row_ptrs_;
  std::vector<Column*> column_ptrs_;
  uint64_t fixed_row_bytes_;
  uint64_t row_bytes_ = 0;  // on average, so far; 0: none seen
  Seq next_;                // to go into a block
  Seq read_;                // to be pulled
  bool ended_ = false;
  Status failed_;  // told when all rows before were
};

}  // namespace

std::unique_ptr<LaneRun> MakeLaneRun(LanePlan plan, const LaneRequest& request) { return std::make_unique<Run>(std::move(plan), request); }

}  // namespace penstock::engine
