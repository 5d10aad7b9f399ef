// The loop's side of the shelf: what makes a batch, checked and marked at the moment of delivery.
#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "base/planted.h"
#include "client/shelf.h"

namespace penstock {

Shelf::Taken Shelf::Next() {
  bool tell = false;
  Taken taken;
  {
    std::lock_guard lock(mutex_);
    const bool told = HasProgress();
    taken = NextLocked();
    CountWait(std::holds_alternative<Wait>(taken));
    waiting_ = std::holds_alternative<Wait>(taken) && (MayDeliver() || !AnyReady());
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
  if (!waits && waits_since_) totals_.waited += clock_.Now() - *waits_since_;
  if (!waits) waits_since_.reset();
  if (waits && !waits_since_) waits_since_ = clock_.Now();
}

void Shelf::AskLocked() {
  asked_tag_ = log_.tag();
  if (ring_.asked != ring_.received) {
    ring_.asked = ring_.received;
    ring_moved_ = true;
  }
  const std::set<GrantName> delivered = std::exchange(unasked_, {});
  for (const GrantName& grant : delivered) {
    auto lane = lanes_.find(grant);
    if (lane == lanes_.end()) continue;
    lane->second.asked = lane->second.received;
    Touched(grant);
  }
}

void Shelf::HandsOutRows() {
  std::lock_guard lock(mutex_);
  hands_out_rows_ = true;
}

void Shelf::HandedOutRow() {
  uint64_t left = not_handed_out_.load(std::memory_order_relaxed);
  while (left > 0 && !not_handed_out_.compare_exchange_weak(left, left - 1)) {  // a job that is rebuilt meanwhile counts all of the run
  }
}

void Shelf::Unreceive(uint64_t rows) {
  std::lock_guard lock(mutex_);
  not_handed_out_ = 0;
  if (ring_before_ && rows > 0) return UnreceiveWhole();
  bool held = true;
  for (const LastTaken& taken : last_) held = held && lanes_.contains(taken.grant);
  if (held && !last_.empty()) log_.TakeBack(batch_ == 0 ? rows : 1);
  for (auto taken = last_.rbegin(); taken != last_.rend() && rows > 0; ++taken) {
    const uint64_t back = std::min(rows, taken->rows);
    rows -= back;
    auto lane = lanes_.find(taken->grant);
    if (lane != lanes_.end()) {
      lane->second.received = taken->block.cursor(taken->row + taken->rows - back);
      lane->second.left += back;  // so that the grant does not pass for delivered to its end
    } else {
      totals_.dropped_rows += back;  // the grant has gone to another, behind these rows
    }
  }
}

Shelf::Taken Shelf::NextLocked() {
  ClaimLocked();
  if (pads_) KeepLast();
  AskLocked();
  last_.clear();
  not_handed_out_ = 0;
  ring_before_.reset();
  if (closed_) return ReaderClosed();
  const bool may = MayDeliver();
  std::vector<Slice> batch = may ? TryBatch() : std::vector<Slice>();
  // Where short batches are dropped, but there is none to repeat, it comes all the same: the others wait for this step.
  if (batch.empty() && may && Short() && (!drop_remainder_ || totals_.epoch_batches == 0)) batch = TakeLoose(batch_);
  if (!batch.empty()) {
    LetGoOfLast();
    ++totals_.batches;
    ++totals_.epoch_batches;
    for (const Slice& slice : batch) totals_.rows += slice.rows;
    LogBatch(batch);
    return batch;
  }
  if (!failure_.ok()) return failure_;
  if (may && Short() && totals_.epoch_batches > 0) {  // without any there is none to repeat
    ++totals_.epoch_batches;
    ++totals_.repeated;
    log_.Close();  // a step without rows of its own
    kept_tag_ = asked_tag_;
    return Again{};
  }
  if (StepsDone()) DropRest();
  if (AtEnd()) {
    if (!std::exchange(ring_.ended, true)) ring_moved_ = true;
    log_.EndEpoch();
    LetGoOfLast();
    return EpochEnd{};
  }
  return Wait{Leased() ? Wait::For::kData : Wait::For::kLease, version_};
}

bool Shelf::Leased() const { return !kGuarded || clock_.Now() <= deliver_until_ || Planted(Bug::kLeaseUnchecked); }
bool Shelf::MayDeliver() const { return Leased() && totals_.epoch_batches < limit_; }

void Shelf::LogBatch(const std::vector<Slice>& batch) {
  if (last_.empty()) return log_.Close(ring_.received);
  if (batch_ > 0) return log_.Close();
  if (hands_out_rows_) not_handed_out_ = batch.front().rows - 1;
  // A run is rows of one block, and the loop may stop at any of them.
  const LastTaken& run = last_.front();
  log_.Close(batch.front().rows, [block = run.block, first = run.row](uint64_t row) { return block.cursor(first + row); });
}

bool Shelf::AtEnd() const {
  if (StepsDone()) return true;
  return end_ && whole_.empty() &&
         std::all_of(lanes_.begin(), lanes_.end(), [](const auto& item) { return item.second.end && item.second.left == 0; });
}

std::vector<Slice> Shelf::TryBatch() {
  if (!whole_.empty()) return TakeWhole();
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
    const Lanes::iterator lane = rotation_[in_order_ ? i : 0];
    if (!in_order_) ToTheBack(lane);
    if (lane->second.left == 0) continue;
    const Entry& entry = lane->second.blocks.front();
    TakeRows(lane, entry.block.info.rows - entry.next_row, run);
  }
  return run;
}

// `mix` full groups. No lane gives a second one while another that is open may still give its first.
std::vector<Slice> Shelf::TryGroups() {
  std::vector<std::pair<Lanes::iterator, uint64_t>> takes;
  uint32_t found = 0;
  bool others_may_give = false;
  for (const Lanes::iterator lane : rotation_) {
    if (lane->second.left >= group_) {
      takes.emplace_back(lane, 1);
      if (++found == mix_) break;
    } else if (lane->second.open) {
      others_may_give = true;
    }
  }
  if (found < mix_ && others_may_give) return {};
  for (bool more = true; found < mix_ && more;) {
    more = false;
    for (auto& [lane, groups] : takes) {
      if (found == mix_ || lane->second.left < (groups + 1) * group_) continue;
      ++groups;
      ++found;
      more = true;
    }
  }
  if (found < mix_) return {};
  std::vector<Slice> batch;
  for (const auto& [lane, groups] : takes) {
    if (!in_order_) ToTheBack(lane);
    TakeRows(lane, groups * group_, batch);
  }
  return batch;
}

void Shelf::ToTheBack(Lanes::iterator lane) {
  std::erase(rotation_, lane);
  rotation_.push_back(lane);
}

bool Shelf::AllEnded() const {
  return std::all_of(rotation_.begin(), rotation_.end(), [](Lanes::const_iterator lane) { return lane->second.end.has_value(); });
}

// Rows of tails; where no lane goes on, what is left of full groups counts as such.
std::vector<Slice> Shelf::TryTails() {
  uint64_t loose = 0;
  for (const Lanes::const_iterator lane : tails_) loose += lane->second.left;
  if (loose < batch_ && AllEnded()) {
    for (const Lanes::const_iterator lane : rotation_) loose += lane->second.left;
  }
  return loose < batch_ ? std::vector<Slice>() : TakeLoose(batch_);
}

std::vector<Slice> Shelf::TakeLoose(uint64_t rows) {
  std::vector<Lanes::iterator> order(tails_.begin(), tails_.end());
  if (AllEnded()) order.insert(order.end(), rotation_.begin(), rotation_.end());
  std::vector<Slice> batch;
  for (const Lanes::iterator lane : order) {
    const uint64_t take = std::min(rows, lane->second.left);
    if (take > 0) TakeRows(lane, take, batch);
    rows -= take;
  }
  return batch;
}

void Shelf::DropRest() {
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    totals_.dropped_rows += lane->second.left;
    if (lane->second.end) {
      log_.AddDropped(lane->first.lane, lane->second.received, *lane->second.end);
      lane->second.received = *lane->second.end;
    }
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
    Slice slice{lane->first, entry.block.handle, entry.next_row, take, entry.block.cursor(entry.next_row), entry.block.cursor(entry.next_row + take)};
    log_.Add(lane->first.lane, l.received, slice.end);
    l.received = slice.end;
    last_.push_back({lane->first, entry.block, slice.row, take});
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
