#include "client/inline_runs.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace penstock {

InlineRuns::InlineRuns(const Layout& layout, uint32_t index, uint32_t consumers, InlineLanes& lanes, Shelf& shelf)
    : layout_(layout), index_(consumers > 1 ? index : 0), step_(std::max(consumers, 1u)), lanes_(lanes), shelf_(shelf), next_lane_(index_) {}

void InlineRuns::Begin(Epoch epoch) {
  runs_.clear();
  pieces_.clear();
  epoch_ = epoch;
  next_lane_ = index_;
}

size_t InlineRuns::OpenTarget() const { return layout_.batch == 0 ? 1 : std::max(layout_.mix, 1u); }

InlineRuns::Runs::iterator InlineRuns::Least() {
  return std::min_element(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.rows < b.rows; });
}

Status InlineRuns::Work() {
  while (runs_.size() < OpenTarget()) {
    if (pieces_.empty() && !NextLane()) break;
    PENSTOCK_TRY(OpenPiece());
  }
  if (runs_.empty()) {
    shelf_.EndEpoch(epoch_);
    return {};
  }
  const auto least = Least();
  StepResult result = least->run->Step();
  if (auto* produced = std::get_if<Produced>(&result)) {
    PENSTOCK_ASSIGN(ShelfBlock block, lanes_.Keep(std::move(*produced)));
    least->rows += block.info.rows;
    shelf_.Put(least->name, std::move(block));
    return {};
  }
  if (auto* failed = std::get_if<Status>(&result)) return std::move(*failed);
  if (auto* over = std::get_if<LaneOver>(&result)) {
    Over(least, *over);
    return {};
  }
  const auto& blocked = std::get<Blocked>(result);
  if (blocked.on != Waits::kInput) {
    return Status(Code::kBusy, "no memory for a block of " + std::to_string(blocked.bytes) + " bytes; at " + least->run->where());
  }
  std::this_thread::yield();
  return {};
}

// Takes the pieces of the next lane that has rows left; false: there is none.
bool InlineRuns::NextLane() {
  const auto done = done_.epochs.find(epoch_);
  for (; pieces_.empty() && next_lane_ < layout_.lanes && epoch_ >= done_.epochs_done; next_lane_ += step_) {
    const LaneId lane{static_cast<uint32_t>(next_lane_)};
    const auto rows = done == done_.epochs.end() ? std::vector<Interval>{Interval{}} : done->second.Missing(lane);
    for (const Interval& piece : rows) pieces_.push_back({lane, piece});
  }
  return !pieces_.empty();
}

// Whole source rows are made of it; the shelf does not see those that a piece ends before.
Status InlineRuns::OpenPiece() {
  const Delivered::Piece piece = pieces_.front();
  pieces_.pop_front();
  const Interval& rows = piece.rows;
  Run run{.name = {{epoch_, ReplicaId{}, piece.lane}, rows.from, Fence{1}}, .to = rows.to, .run = nullptr};
  PENSTOCK_ASSIGN(run.run, lanes_.OpenRows(piece.lane, rows.from, rows.to.seq + (rows.to.child > 0 ? 1 : 0)));
  shelf_.Add(run.name, rows.from, epoch_, rows.to);
  shelf_.SetOpen(run.name, true);
  // Lanes opened later go on from where the others are, so that each gives its share of a mixed batch.
  if (!runs_.empty()) run.rows = Least()->rows;
  runs_.push_back(std::move(run));
  return {};
}

void InlineRuns::Over(Runs::iterator run, const LaneOver& over) {
  shelf_.End(run->name, std::min(over.end, run->to), over.lane_ended && over.end <= run->to);
  runs_.erase(run);
  ++lanes_done_;
}

std::string InlineRuns::where() const {
  return runs_.empty() ? "the next lane" : ToString(runs_.front().name.lane) + ", " + runs_.front().run->where();
}

}  // namespace penstock
