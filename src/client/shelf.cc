#include "client/shelf.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/planted.h"
#include "plan/ranges.h"

namespace penstock {
namespace {

// The first row at or after `from`.
uint64_t RowAt(const ShelfBlock& block, Cursor from) {
  uint64_t low = 0;
  uint64_t high = block.info.rows;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (block.cursor(middle) < from) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// What lies in it from `to` on is not seen.
void CutAt(ShelfBlock& block, Cursor to) {
  block.info.rows = RowAt(block, to);
  block.info.end = to;
}

}  // namespace

Status ReaderClosed() { return Status(Code::kCancelled, "the reader was closed; make a new one to go on reading"); }

Cursor ShelfBlock::cursor(uint64_t row) const {
  if (row == info.rows) return info.end;
  if (!cursors.empty() && !Planted(Bug::kSeqOnOutput)) return cursors[row];
  return row == 0 ? info.first : Cursor{info.first.seq + row, 0};
}

Shelf::Shelf(const Clock& clock, std::function<void()> on_progress) : clock_(clock), on_progress_(std::move(on_progress)) {}

void Shelf::Configure(const Layout& layout, Epoch epoch, Generation generation, uint32_t consumers) {
  std::lock_guard lock(mutex_);
  ConfigureLocked(layout, epoch, generation, consumers);
}

void Shelf::Restart(const Layout& layout, Epoch epoch, Generation generation, uint32_t consumers, bool loop_goes_on) {
  std::lock_guard lock(mutex_);
  const uint64_t steps = log_.tag();
  const uint64_t steps_of_epoch = epoch == epoch_ ? totals_.epoch_batches : 0;
  ClaimLocked();
  while (!lanes_.empty()) RemoveLocked(lanes_.begin());
  EndRing();
  ring_ = {};
  ring_moved_ = false;
  last_.clear();
  end_ = false;
  ConfigureLocked(layout, epoch, generation, consumers);
  if (!loop_goes_on) return;
  log_.Restart(generation, epoch, asked_tag_ = steps);
  totals_.epoch_batches = steps_of_epoch;
}

void Shelf::ConfigureLocked(const Layout& layout, Epoch epoch, Generation generation, uint32_t consumers) {
  batch_ = layout.batch;
  group_ = std::max<uint64_t>(layout.group_rows(), 1);
  mix_ = layout.batch == 0 ? 1 : std::max(layout.mix, 1u);
  drop_remainder_ = layout.drop_remainder;
  in_order_ = GrantedInRanges(layout, consumers);
  epoch_ = epoch;
  log_.Restart(generation, epoch);
  asked_tag_ = 0;
  not_handed_out_ = 0;
  totals_.epoch_batches = 0;
  limit_ = steps_ = kNoLimit;
  News();
}

void Shelf::CountFrom(uint64_t tag) {
  std::lock_guard lock(mutex_);
  if (log_.tag() == 0) log_.TakeSeat(asked_tag_ = tag);
}

void Shelf::News() {
  waiting_ = waiting_told_ = false;
  ++version_;
  news_.notify_all();
}

void Shelf::Add(const GrantName& grant, Cursor from, Epoch reading, Cursor to) {
  std::lock_guard lock(mutex_);
  Lane lane;
  lane.shelved = lane.received = lane.asked = from;
  lane.to = to;
  if (closed_ || reading != epoch_) {
    Mark mark = MarkOf(grant, lane);
    mark.removed = true;
    last_marks_.push_back(mark);
    return;
  }
  const auto [at, added] = lanes_.emplace(grant, std::move(lane));
  if (!added) return;
  const auto earlier = [](Lanes::iterator a, Lanes::iterator b) {
    return std::tie(a->first.from, a->first.lane) < std::tie(b->first.from, b->first.lane);
  };
  rotation_.insert(in_order_ ? std::upper_bound(rotation_.begin(), rotation_.end(), at, earlier) : rotation_.end(), at);
}

void Shelf::SetOpen(const GrantName& grant, bool open) {
  std::lock_guard lock(mutex_);
  auto lane = lanes_.find(grant);
  if (lane == lanes_.end()) return;
  lane->second.open = open;
  News();
}

void Shelf::Put(const GrantName& grant, ShelfBlock block) {
  std::lock_guard lock(mutex_);
  auto lane = lanes_.find(grant);
  if (lane != lanes_.end() && block.info.end > lane->second.to) CutAt(block, lane->second.to);
  const bool doubles = Planted(Bug::kNoDedup);
  const uint64_t skip = lane == lanes_.end() ? block.info.rows : doubles ? 0 : RowAt(block, lane->second.shelved);
  if (lane != lanes_.end()) lane->second.shelved = std::max(lane->second.shelved, block.info.end);
  if (skip == block.info.rows) {
    passed_.push_back(block.handle);
    return;
  }
  lane->second.left += block.info.rows - skip;
  lane->second.blocks.push_back({std::move(block), skip});
  Touched(grant);
  News();
}

void Shelf::End(const GrantName& grant, Cursor end, bool lane_ended) {
  std::lock_guard lock(mutex_);
  auto lane = lanes_.find(grant);
  if (lane == lanes_.end() || lane->second.end) return;
  lane->second.end = end;
  lane->second.lane_ended = lane_ended;
  lane->second.open = false;
  Settle(lane);
  News();
}

// Once nothing is left of an ended lane its marks are its end, also where the last rows of it were filtered; a tail leaves the rotation.
void Shelf::Settle(Lanes::iterator lane) {
  Lane& l = lane->second;
  const GrantName& grant = lane->first;
  Touched(grant);
  if (!l.end) return;
  if (l.left == 0) {
    log_.AddEmpty(grant.lane, l.received, l.lane_ended ? kLaneEndCursor : *l.end);
    l.received = *l.end;
    if (!unasked_.contains(grant)) l.asked = *l.end;
  }
  if (l.left < group_) {
    if (std::erase(rotation_, lane) > 0 && l.left > 0 && !Planted(Bug::kTailForgotten)) tails_.push_back(lane);
    if (l.left == 0) std::erase(tails_, lane);
  }
}

std::optional<Slice> Shelf::ThinTail(const GrantName& grant) const {
  std::lock_guard lock(mutex_);
  const auto lane = lanes_.find(grant);
  if (lane == lanes_.end() || !lane->second.end || lane->second.left >= group_ || lane->second.blocks.size() != 1) return std::nullopt;
  const Entry& entry = lane->second.blocks.front();
  const uint64_t rows = entry.block.info.rows - entry.next_row;
  if (rows * 2 > entry.block.info.rows) return std::nullopt;
  return Slice{grant, entry.block.handle, entry.next_row, rows, entry.block.cursor(entry.next_row), entry.block.info.end};
}

bool Shelf::ReplaceTail(const Slice& tail, ShelfBlock copy) {
  std::lock_guard lock(mutex_);
  const auto lane = lanes_.find(tail.grant);
  if (lane == lanes_.end() || lane->second.blocks.empty()) return false;
  Entry& entry = lane->second.blocks.front();
  if (entry.block.handle != tail.handle || entry.next_row != tail.row) return false;
  Pass(entry.block.handle);
  entry = {std::move(copy), 0};
  return true;
}

void Shelf::Remove(const GrantName& grant) {
  std::lock_guard lock(mutex_);
  if (auto lane = lanes_.find(grant); lane != lanes_.end()) RemoveLocked(lane);
}

void Shelf::RemoveLocked(Lanes::iterator lane) {
  const GrantName grant = lane->first;
  kept_.erase(grant);
  for (const Entry& entry : lane->second.blocks) Pass(entry.block.handle);
  Mark mark = MarkOf(grant, lane->second);
  mark.removed = true;
  last_marks_.push_back(mark);
  std::erase(rotation_, lane);
  std::erase(tails_, lane);
  dirty_.erase(grant);
  unasked_.erase(grant);
  lanes_.erase(lane);
  News();
}

void Shelf::SetLease(TimePoint deliver_until) {
  std::lock_guard lock(mutex_);
  const bool was_over = clock_.Now() > deliver_until_;
  deliver_until_ = deliver_until;
  if (was_over) News();
}

void Shelf::EndEpoch(Epoch epoch, uint64_t dropped_rows) {
  std::lock_guard lock(mutex_);
  if (epoch != epoch_ || end_) return;
  totals_.dropped_rows += dropped_rows;
  end_ = true;
  News();
}

void Shelf::Fail(Status status) {
  std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
  News();
}

void Shelf::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  if (!lanes_.empty()) asked_tag_ = log_.tag();  // they are given back where the loop is
  const bool ended = ring_.ended;                // the last words say so
  EndRing();
  ring_.ended = ended;
  while (!lanes_.empty()) RemoveLocked(lanes_.begin());
  News();
}

void Shelf::BeginEpoch(Epoch epoch) {
  bool told = false;
  {
    std::lock_guard lock(mutex_);
    told = HasProgress();
    ClaimLocked();
    AskLocked();
    epoch_ = epoch;
    log_.BeginEpoch(epoch);
    totals_.epoch_batches = 0;
    limit_ = steps_ = kNoLimit;
    end_ = false;
    EndRing();
    while (!lanes_.empty()) RemoveLocked(lanes_.begin());
    told = told || !HasProgress();
  }
  if (!told && on_progress_) on_progress_();
}

Mark Shelf::MarkOf(const GrantName& grant, const Lane& lane) const {
  Mark mark;
  mark.grant = grant;
  mark.received = lane.received;
  const auto kept = kept_.find(grant);
  mark.asked = kept == kept_.end() ? lane.asked : kept->second;
  mark.left_rows = lane.left;
  mark.ready_groups = lane.left / group_;
  mark.done = lane.end.has_value() && lane.left == 0 && mark.asked == *lane.end;
  return mark;
}

bool Shelf::HasProgress() const { return ring_moved_ || !dirty_.empty() || !last_marks_.empty() || !passed_.empty() || (waiting_ && !waiting_told_); }

Progress Shelf::TakeProgress() {
  std::lock_guard lock(mutex_);
  Progress progress;
  progress.epoch = epoch_;
  for (const GrantName& grant : dirty_) {
    if (auto lane = lanes_.find(grant); lane != lanes_.end()) progress.marks.push_back(MarkOf(grant, lane->second));
  }
  for (const Mark& mark : progress.marks) {
    if (mark.done) lanes_.erase(mark.grant);
  }
  dirty_.clear();
  progress.marks.insert(progress.marks.end(), last_marks_.begin(), last_marks_.end());
  last_marks_.clear();
  progress.passed = std::exchange(passed_, {});
  progress.waiting = waiting_told_ = waiting_;
  if (std::exchange(ring_moved_, false)) progress.ring = ring_;
  progress.totals = totals_;
  progress.totals.tag = kept_.empty() ? asked_tag_ : kept_tag_;
  progress.ready_batches = ReadyBatches();
  return progress;
}

ShelfTotals Shelf::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

Result<DeliveryLog::Point> Shelf::Delivered(std::optional<uint64_t> tag) const {
  std::lock_guard lock(mutex_);
  return log_.At(tag.value_or(log_.tag() - not_handed_out_));
}

BatchTag Shelf::tag() const {
  std::lock_guard lock(mutex_);
  return {log_.generation(), log_.tag()};
}

bool Shelf::Ended() const {
  std::lock_guard lock(mutex_);
  return closed_ || AtEnd();
}

bool Shelf::WaitForNews(uint64_t seen, TimePoint until) {
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + std::max(until - clock_.Now(), Duration{0});
  return news_.wait_until(lock, deadline, [&] { return version_ != seen; });
}

}  // namespace penstock
