// What ClientCore says to the dispatcher, and when.
#include <algorithm>
#include <chrono>
#include <vector>

#include "base/constants.h"
#include "client/core.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kReadAheadFor{1};           // of the loop's time
constexpr std::chrono::milliseconds kGrantsAheadFor{100};  // of which a beat, its commit and its answer take a small part
constexpr uint64_t kMostSpareGrants = 64;

}  // namespace

uint32_t ClientCore::OpenTarget() const { return std::max(kOpenLanes, job_.layout.batch == 0 ? 1u : job_.layout.mix); }

// More where lanes are so short that their ends come faster than the dispatcher's answers.
uint32_t ClientCore::SpareTarget() const {
  return static_cast<uint32_t>(std::clamp<uint64_t>(lanes_pace_.In(kGrantsAheadFor), kSpareGrants, kMostSpareGrants));
}

ClientCore::News ClientCore::CurrentNews() const {
  News news;
  news.epoch = epoch_;
  news.finishes = finishes_made_;
  if (strict()) {
    news.idle = ring_mark_.ended;
    return news;
  }
  uint32_t live = 0;
  uint32_t ended = 0;  // with rows that the loop has not had
  uint64_t left = 0;
  for (const auto& [name, lane] : lanes_) {
    if (lane.leaving) continue;
    if (lane.state != LaneState::kEnded) ++live;
    if (lane.state == LaneState::kEnded && lane.mark.left_rows > 0) ++ended;
    left += lane.mark.left_rows;
  }
  const uint64_t whole = std::max<uint64_t>(job_.layout.batch, 1);
  const uint32_t target = OpenTarget() + SpareTarget();
  const uint32_t has = live + (IsPlenty(left) ? ended : 0);
  news.want = epoch_ended_ || has >= target ? 0 : target - has;
  news.idle = live == 0 && left < whole;
  news.tail_rows = news.idle ? left : 0;
  news.mark = limit_ == kNoLimit ? 0 : totals_.epoch_batches + ready_batches_;
  return news;
}

// What the loop will not come to soon is for others who share the job, also for those who come later.
bool ClientCore::IsPlenty(uint64_t rows) const {
  constexpr uint64_t kLeastBatches = 4;
  const uint64_t least = kLeastBatches * std::max<uint64_t>(job_.layout.batch, 64);
  return rows >= std::max(least, loop_pace_.In(kReadAheadFor));
}

void ClientCore::BeatIfDue() {
  if (!dispatcher_up_) return;
  const bool late = now_ >= last_beat_ + kHeartbeatEvery;
  if (!beat_now_ && !late) {
    // What leaves will say where it stood in a moment: one beat for both.
    const bool leaving = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& item) { return item.second.leaving; });
    if (leaving || answered_ < serial_ || CurrentNews() == said_) return;
  }
  SendBeat(CurrentNews());
}

void ClientCore::SendBeat(const News& news) {
  ++serial_;
  beat_now_ = false;
  last_beat_ = now_;
  said_ = news;
  sent_[serial_] = now_;
  Do(action::SendDispatcher{MakeBeat(news)});
}

msg::Beat ClientCore::MakeBeat(const News& news) {
  msg::Beat beat;
  beat.job = job_.job;
  beat.consumer = job_.consumer;
  beat.generation = job_.generation;
  beat.serial = serial_;
  beat.epoch = epoch_;
  beat.holds = Holds();
  for (auto& [name, finish] : finishes_) {
    if (finish.carried == 0) finish.carried = serial_;
    beat.finished.push_back(finish.finish);
  }
  beat.begun = !job_.undecided || (begun_ && !restore_);
  beat.batches = totals_.epoch_batches;
  beat.tag = totals_.tag;
  beat.want = news.want;
  beat.idle = news.idle;
  beat.tail_rows = news.tail_rows;
  beat.rows = totals_.rows;
  beat.bytes = arrived_bytes_;
  beat.wire_bytes = counts_.wire_bytes;
  beat.wait_ns = static_cast<uint64_t>(totals_.waited.count());
  beat.ready_batches = ready_batches_;
  beat.workers_version = workers_version_;
  if (strict()) {
    beat.batches = ring_mark_.batches;
    beat.ready_batches = ring_mark_.ready;
    beat.position = RingPositionText();
  }
  return beat;
}

std::vector<msg::Hold> ClientCore::Holds() const {
  std::vector<msg::Hold> holds;
  for (const auto& [name, lane] : lanes_) {
    if (lane.dropped || strict()) continue;  // the ring is shared by rule
    const bool open = lane.state == LaneState::kOpen || lane.state == LaneState::kConnecting || lane.state == LaneState::kBackoff;
    holds.push_back({name.lane, name.from, name.fence, lane.mark.asked, open, lane.mark.left_rows, lane.state == LaneState::kEnded});
  }
  return holds;
}

}  // namespace penstock
