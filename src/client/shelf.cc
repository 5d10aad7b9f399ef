#include "client/shelf.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

Cursor CursorOf(const ShelfBlock& block, uint64_t row) {
  if (row == block.info.rows) return block.info.end;
  if (!block.cursors.empty()) return block.cursors[row];
  return row == 0 ? block.info.first : Cursor{block.info.first.seq + row, 0};
}

// The first row at or after `from`.
uint64_t RowAt(const ShelfBlock& block, Cursor from) {
  uint64_t low = 0;
  uint64_t high = block.info.rows;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (CursorOf(block, middle) < from) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

Shelf::Shelf(const Clock& clock, std::function<void()> on_progress) : clock_(clock), on_progress_(std::move(on_progress)) {}

void Shelf::Configure(const Layout& layout, Epoch epoch) {
  std::lock_guard lock(mutex_);
  batch_ = layout.batch;
  group_ = std::max<uint64_t>(layout.group_rows(), 1);
  mix_ = layout.batch == 0 ? 1 : std::max(layout.mix, 1u);
  drop_remainder_ = layout.drop_remainder;
  epoch_ = epoch;
  News();
}

void Shelf::News() {
  waiting_ = waiting_told_ = false;
  ++version_;
  news_.notify_all();
}

void Shelf::Add(const GrantName& grant, Cursor from) {
  std::lock_guard lock(mutex_);
  Lane lane;
  lane.shelved = lane.received = lane.asked = from;
  if (closed_ || grant.lane.epoch != epoch_) {
    Mark mark = MarkOf(grant, lane);
    mark.removed = true;
    last_marks_.push_back(mark);
    return;
  }
  if (lanes_.emplace(grant, std::move(lane)).second) rotation_.push_back(grant);
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
  const uint64_t skip = lane == lanes_.end() ? block.info.rows : RowAt(block, lane->second.shelved);
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

void Shelf::End(const GrantName& grant, Cursor end) {
  std::lock_guard lock(mutex_);
  auto lane = lanes_.find(grant);
  if (lane == lanes_.end() || lane->second.end) return;
  lane->second.end = end;
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
    l.received = *l.end;
    if (!unasked_.contains(grant)) l.asked = *l.end;
  }
  if (l.left < group_) {
    if (std::erase(rotation_, grant) > 0 && l.left > 0) tails_.push_back(grant);
    if (l.left == 0) std::erase(tails_, grant);
  }
}

void Shelf::Remove(const GrantName& grant) {
  std::lock_guard lock(mutex_);
  if (auto lane = lanes_.find(grant); lane != lanes_.end()) RemoveLocked(lane);
}

void Shelf::RemoveLocked(Lanes::iterator lane) {
  const GrantName grant = lane->first;
  for (const Entry& entry : lane->second.blocks) Pass(entry.block.handle);
  Mark mark = MarkOf(grant, lane->second);
  mark.removed = true;
  last_marks_.push_back(mark);
  std::erase(rotation_, grant);
  std::erase(tails_, grant);
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

void Shelf::EndEpoch(Epoch epoch) {
  std::lock_guard lock(mutex_);
  if (epoch != epoch_ || end_) return;
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
    end_ = false;
    for (auto lane = lanes_.begin(); lane != lanes_.end();) {
      const auto next = std::next(lane);
      if (lane->first.lane.epoch != epoch) RemoveLocked(lane);
      lane = next;
    }
    told = told || !HasProgress();
  }
  if (!told && on_progress_) on_progress_();
}

Mark Shelf::MarkOf(const GrantName& grant, const Lane& lane) const {
  Mark mark;
  mark.grant = grant;
  mark.received = lane.received;
  mark.asked = lane.asked;
  mark.left_rows = lane.left;
  mark.ready_groups = lane.left / group_;
  mark.done = lane.end.has_value() && lane.left == 0 && lane.asked == *lane.end;
  return mark;
}

bool Shelf::HasProgress() const { return !dirty_.empty() || !last_marks_.empty() || !passed_.empty() || (waiting_ && !waiting_told_); }

Progress Shelf::TakeProgress() {
  std::lock_guard lock(mutex_);
  Progress progress;
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
  progress.totals = totals_;
  return progress;
}

ShelfTotals Shelf::totals() const {
  std::lock_guard lock(mutex_);
  return totals_;
}

bool Shelf::WaitForNews(uint64_t seen, TimePoint until) {
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + std::max(until - clock_.Now(), Duration{0});
  return news_.wait_until(lock, deadline, [&] { return version_ != seen; });
}

// ---- delivery

Shelf::Taken Shelf::Next() {
  bool tell = false;
  Taken taken;
  {
    std::lock_guard lock(mutex_);
    const bool told = HasProgress();
    taken = NextLocked();
    CountWait(std::holds_alternative<Wait>(taken));
    tell = !told && HasProgress();
  }
  if (tell && on_progress_) on_progress_();
  return taken;
}

void Shelf::Claimed() {
  bool tell = false;
  {
    std::lock_guard lock(mutex_);
    const bool told = HasProgress();
    ClaimLocked();
    tell = !told && HasProgress();
  }
  if (tell && on_progress_) on_progress_();
}

void Shelf::ClaimLocked() {
  passed_.insert(passed_.end(), unclaimed_.begin(), unclaimed_.end());
  unclaimed_.clear();
  in_hand_.clear();
}

void Shelf::Pass(Handle handle) { (in_hand_.contains(handle) ? unclaimed_ : passed_).push_back(handle); }

void Shelf::CountWait(bool waits) {
  waiting_ = waits;
  if (!waits && waits_since_) totals_.waited += clock_.Now() - *waits_since_;
  if (!waits) waits_since_.reset();
  if (waits && !waits_since_) waits_since_ = clock_.Now();
}

void Shelf::AskLocked() {
  const std::set<GrantName> delivered = std::exchange(unasked_, {});
  for (const GrantName& grant : delivered) {
    auto lane = lanes_.find(grant);
    if (lane == lanes_.end()) continue;
    lane->second.asked = lane->second.received;
    Touched(grant);
  }
}

Shelf::Taken Shelf::NextLocked() {
  ClaimLocked();
  AskLocked();
  if (closed_) return Status(Code::kCancelled, "the reader was closed; make a new one to go on reading");
  const bool leased = clock_.Now() <= deliver_until_;
  std::vector<Slice> batch = leased ? TryBatch() : std::vector<Slice>();
  if (!batch.empty()) {
    ++totals_.batches;
    for (const Slice& slice : batch) totals_.rows += slice.rows;
    return batch;
  }
  if (!failure_.ok()) return failure_;
  if (AtEnd()) return EpochEnd{};
  return Wait{leased ? Wait::For::kData : Wait::For::kLease, version_};
}

bool Shelf::AtEnd() const {
  return end_ && std::all_of(lanes_.begin(), lanes_.end(), [](const auto& item) { return item.second.end && item.second.left == 0; });
}

std::vector<Slice> Shelf::TryBatch() {
  if (batch_ == 0) return TryRun();
  std::vector<Slice> batch = TryGroups();
  if (batch.empty()) batch = TryTails();
  if (batch.empty() && end_ && failure_.ok() && AllEnded()) {
    if (drop_remainder_) {
      DropRest();
    } else {
      batch = TakeLoose(batch_);
    }
  }
  return batch;
}

// Rows one by one: a whole block of the next lane at once.
std::vector<Slice> Shelf::TryRun() {
  std::vector<Slice> run;
  for (size_t i = 0; i < rotation_.size() && run.empty(); ++i) {
    const GrantName grant = rotation_.front();
    rotation_.pop_front();
    rotation_.push_back(grant);
    auto lane = lanes_.find(grant);
    if (lane->second.left == 0) continue;
    const Entry& entry = lane->second.blocks.front();
    TakeRows(lane, entry.block.info.rows - entry.next_row, run);
  }
  return run;
}

// `mix` full groups. No lane gives a second one while another that is open may still give its first.
std::vector<Slice> Shelf::TryGroups() {
  std::vector<std::pair<GrantName, uint64_t>> takes;
  uint32_t found = 0;
  bool others_may_give = false;
  for (const GrantName& grant : rotation_) {
    const Lane& lane = lanes_.find(grant)->second;
    if (lane.left >= group_ && found < mix_) {
      takes.emplace_back(grant, 1);
      ++found;
    } else if (lane.left < group_ && lane.open) {
      others_may_give = true;
    }
  }
  if (found < mix_ && others_may_give) return {};
  for (bool more = true; found < mix_ && more;) {
    more = false;
    for (auto& [grant, groups] : takes) {
      if (found == mix_ || lanes_.find(grant)->second.left < (groups + 1) * group_) continue;
      ++groups;
      ++found;
      more = true;
    }
  }
  if (found < mix_) return {};
  std::vector<Slice> batch;
  for (const auto& [grant, groups] : takes) {
    std::erase(rotation_, grant);
    rotation_.push_back(grant);
    TakeRows(lanes_.find(grant), groups * group_, batch);
  }
  return batch;
}

bool Shelf::AllEnded() const {
  return std::all_of(rotation_.begin(), rotation_.end(), [this](const GrantName& grant) { return lanes_.find(grant)->second.end.has_value(); });
}

// Rows of tails; where no lane goes on, what is left of full groups counts as such.
std::vector<Slice> Shelf::TryTails() {
  uint64_t loose = 0;
  for (const GrantName& grant : tails_) loose += lanes_.find(grant)->second.left;
  if (loose < batch_ && AllEnded()) {
    for (const GrantName& grant : rotation_) loose += lanes_.find(grant)->second.left;
  }
  return loose < batch_ ? std::vector<Slice>() : TakeLoose(batch_);
}

std::vector<Slice> Shelf::TakeLoose(uint64_t rows) {
  std::vector<GrantName> order(tails_.begin(), tails_.end());
  if (AllEnded()) order.insert(order.end(), rotation_.begin(), rotation_.end());
  std::vector<Slice> batch;
  for (const GrantName& grant : order) {
    auto lane = lanes_.find(grant);
    const uint64_t take = std::min(rows, lane->second.left);
    if (take > 0) TakeRows(lane, take, batch);
    rows -= take;
  }
  return batch;
}

void Shelf::DropRest() {
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    totals_.dropped_rows += lane->second.left;
    for (const Entry& entry : lane->second.blocks) Pass(entry.block.handle);
    lane->second.blocks.clear();
    lane->second.left = 0;
    Settle(lane);
  }
}

void Shelf::TakeRows(Lanes::iterator lane, uint64_t rows, std::vector<Slice>& out) {
  Lane& l = lane->second;
  l.left -= rows;
  while (rows > 0) {
    Entry& entry = l.blocks.front();
    const uint64_t take = std::min(rows, entry.block.info.rows - entry.next_row);
    Slice slice{lane->first, entry.block.handle, entry.next_row, take, CursorOf(entry.block, entry.next_row), CursorOf(entry.block, entry.next_row + take)};
    l.received = slice.end;
    out.push_back(slice);
    in_hand_.insert(slice.handle);
    entry.next_row += take;
    rows -= take;
    if (entry.next_row == entry.block.info.rows) {
      Pass(entry.block.handle);
      l.blocks.pop_front();
    }
  }
  unasked_.insert(lane->first);
  Settle(lane);
}

}  // namespace penstock
