#include "engine/kept_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/copy.h"
#include "base/crc32c.h"
#include "engine/seal.h"

namespace penstock::engine {
namespace {

class KeptRun final : public LaneRun {
 public:
  KeptRun(LanePlan plan, const LaneRequest& request)
      : plan_(std::move(plan)), request_(request), lane_rows_(Range().end - Range().begin), next_(request.from.seq) {
    const auto row = Rows(0, std::min<uint64_t>(lane_rows_, 1));
    for (const auto column : row) row_bytes_ += column.size();
    around_ = (2 + 2 * row.size()) * kBlockAlign;
    row_bytes_ = std::max<uint64_t>(row_bytes_, 1);
  }

  StepResult Step() override {
    if (next_ >= std::min(request_.to, lane_rows_)) return LaneOver{{next_, 0}, next_ >= lane_rows_};
    const uint64_t rows = RowsOfBlock();
    const auto buffers = Rows(next_, rows);
    std::vector<uint64_t> lengths;
    for (const auto buffer : buffers) lengths.push_back(buffer.size());
    const Cursor end{next_ + rows, 0};
    BlockPlan block = PlanBlock(rows, {next_, 0}, end, /*has_cursors=*/false, lengths);
    const uint64_t bytes = block.header.total_bytes;
    const uint64_t own_bytes = request_.in_place ? HeadBytes(block) : bytes;
    Result<Extent> extent = request_.allocator->Allocate(own_bytes);
    if (!extent.ok()) return NoRoom(request_, extent.status(), next_, rows, own_bytes);
    if (request_.in_place) {
      SealHead(block, NameOf(rows, buffers.size()), extent->bytes());
      extent->Follow(std::make_shared<const Following>(Following{BehindHead(block, buffers), bytes - own_bytes, plan_.owner}));
    } else {
      for (size_t i = 0; i < buffers.size(); ++i) CopyBytes(buffers[i], extent->bytes().data() + block.places[i].offset);
      SealBlock(block, NameOf(rows, buffers.size()), extent->bytes());
    }
    const BlockInfo info{rows, {next_, 0}, end, bytes, block.header.digest};
    next_ += rows;
    return Produced{std::move(*extent), info};
  }

  void Extend(Seq to) override { request_.to = std::max(request_.to, to); }
  uint64_t state_bytes() const override { return 0; }
  std::string where() const override { return "row " + std::to_string(Range().begin + next_) + " of the plan's own"; }

 private:
  const Piece& Range() const { return plan_.pieces.front(); }
  std::vector<std::span<const std::byte>> Rows(uint64_t first, uint64_t n) const { return plan_.root->op->Kept(Range().begin + first, n); }

  // In place of the CRCs of the next rows' columns: the plan's own rows are known by where they are in it, so none of their bytes has to be looked
  // at.
  std::vector<uint32_t> NameOf(uint64_t rows, size_t columns) const {
    const std::array<uint64_t, 2> range{Range().begin + next_, rows};
    return std::vector<uint32_t>(columns, Crc32c(std::as_bytes(std::span(range))));
  }

  // Whole groups up to the target, fewer rows where they are over the cap, but at least one: as other runs cut them.
  uint64_t RowsOfBlock() const {
    const uint64_t left = std::min(request_.to, lane_rows_) - next_;
    if (request_.by_group) return std::min(plan_.group_rows, left);
    const uint64_t target = std::max<uint64_t>(request_.block_target / row_bytes_, 1);
    const uint64_t over = (next_ + target) % plan_.group_rows;
    const uint64_t wanted = over == 0 ? target : target + plan_.group_rows - over;
    const uint64_t cap = std::max(request_.block_cap, request_.block_target);
    return std::min({wanted, std::max<uint64_t>((cap - std::min(cap, around_)) / row_bytes_, 1), left});
  }

  LanePlan plan_;
  LaneRequest request_;
  uint64_t lane_rows_;
  uint64_t row_bytes_ = 0;
  uint64_t around_ = 0;  // bytes of a block that are not rows, at most
  Seq next_;
};

}  // namespace

bool AreKept(const LanePlan& plan) {
  return plan.pieces.size() == 1 && plan.pieces.front().node == plan.root->id && !plan.root->op->Kept(0, 0).empty();
}

std::unique_ptr<LaneRun> MakeKeptRun(LanePlan plan, const LaneRequest& request) { return std::make_unique<KeptRun>(std::move(plan), request); }

}  // namespace penstock::engine
