// The life of ClientCore: what goes on at an event, join, epochs, close, time.
#include "client/core.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/constants.h"
#include "base/planted.h"

namespace penstock {
namespace {

constexpr Duration kFirstJoinPause = std::chrono::milliseconds(50);
constexpr Duration kLongestJoinPause = std::chrono::seconds(1);

bool WorthRetrying(Code code) { return code == Code::kUnavailable || code == Code::kBusy || code == Code::kDeadline; }

}  // namespace

ClientCore::ClientCore(ClientCoreOptions options) : options_(std::move(options)) {}

void ClientCore::On(TimePoint now, const ClientEvent& event, ClientActions& out) {
  now_ = now;
  out_ = &out;
  if (phase_ == Phase::kClosed || phase_ == Phase::kFailed) {
    // Memory still comes home, and an error is not the last word: a failed reader is closed, too.
    if (const auto* freed = std::get_if<event::Freed>(&event)) Apply(*freed);
    if (const auto* copied = std::get_if<event::TailCopied>(&event)) Apply(*copied);
    if (const auto* arrived = std::get_if<event::BlockArrived>(&event)) Do(action::Release{arrived->block.handle});
    if (phase_ == Phase::kFailed && std::holds_alternative<event::Close>(event)) Apply(event::Close{});
    if (const auto* progress = std::get_if<Progress>(&event)) Apply(*progress);
    if (std::holds_alternative<event::Restore>(event)) Do(action::RestoreFailed{over_});
    return;
  }
  std::visit([this](const auto& what) { Apply(what); }, event);
  if (std::holds_alternative<event::Settle>(event) && !settles_later_) return;  // something else has come before it
  if (MaySettleLater(event)) {
    if (!std::exchange(settles_later_, true)) Do(action::SettleSoon{});
    return;
  }
  settles_later_ = false;
  Settle();
}

// In strict, words of groups, blocks and memory come many at a time, and what follows from one of them looks at all lanes of the ring.
bool ClientCore::MaySettleLater(const ClientEvent& event) const {
  if (!Reads() || !strict()) return false;
  const auto* says = std::get_if<event::LaneSays>(&event);
  const bool told = says != nullptr && std::holds_alternative<msg::Groups>(says->what);
  return told || std::holds_alternative<event::BlockArrived>(event) || std::holds_alternative<event::Freed>(event);
}

// Does what follows from what came.
void ClientCore::Settle() {
  if (phase_ == Phase::kJoining) JoinIfDue();
  if (phase_ == Phase::kReading) RestoreIfDue();
  if (Reads()) HedgeIfBehind();
  if (Reads() && strict()) FollowRing();
  if (Reads() && !strict()) {
    ShrinkTails();
    OpenLanes();
    FeedLanes();
    TellWaits();
  }
  if (Reads()) BeatIfDue();
  if (phase_ == Phase::kJoining || phase_ == Phase::kReading) SetTimerIfChanged();
}

void ClientCore::Apply(const event::DispatcherUp&) {
  dispatcher_up_ = true;
  join_sent_.reset();
  join_at_ = now_;
  beat_now_ = true;
  if (restore_) *restore_ = {std::move(restore_->state), restore_->rebuild, now_, false};
}

void ClientCore::Apply(const event::DispatcherDown& down) {
  dispatcher_up_ = false;
  join_sent_.reset();
  waiting_for_ = "the dispatcher: " + down.why.message();
}

void ClientCore::JoinIfDue() {
  if (!dispatcher_up_ || now_ < join_at_) return;
  if (join_sent_ && now_ < *join_sent_ + kSilence) return;
  join_sent_ = now_;
  Do(action::SendDispatcher{options_.join});
}

void ClientCore::Apply(const msg::Joined& joined) {
  if (TakeRestored(joined)) return;
  if (phase_ != Phase::kJoining) return;  // a repeated join's second answer
  phase_ = Phase::kReading;
  job_ = joined;
  epoch_ = joined.epoch;
  waiting_for_.clear();
  lease_until_ = join_sent_.value_or(now_) + std::chrono::milliseconds(joined.lease_ms);
  Do(action::JoinedJob{joined});
  Do(action::ShelfLease{lease_until_});
  TakeWorkers(joined.workers, joined.workers_version);
  if (strict()) SetRingStart(joined);
  beat_now_ = true;
}

void ClientCore::Apply(const msg::Failed& failed) {
  if (phase_ == Phase::kReading && failed.error.code() == Code::kNotFound && !options_.plan.empty()) return JobLost();
  if (!WorthRetrying(failed.error.code())) return FailReader(failed.error);
  waiting_for_ = failed.error.message();
  answered_ = serial_;
  if (restore_) restore_->at = now_ + kFirstJoinPause;
  if (phase_ == Phase::kJoining) {
    join_sent_.reset();
    join_at_ = now_ + std::min(kLongestJoinPause, kFirstJoinPause * (1 << std::min(join_attempts_++, 6u)));
  }
}

void ClientCore::FailReader(Status status) {
  phase_ = Phase::kFailed;
  over_ = status;
  CloseStreams();
  Do(action::Fail{std::move(status)});
}

// ---- epochs

void ClientCore::Apply(const event::StartEpoch& start) {
  if (start.epoch <= epoch_) return;
  epoch_ = start.epoch;
  totals_.epoch_batches = ready_batches_ = 0;
  limit_ = steps_ = kNoLimit;
  epoch_ended_ = false;
  gone_.clear();
  if (strict()) return NextRing();
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    CloseStream(lane, true);
    lane->second.leaving = true;
  }
}

// A leave says of lanes only how far the loop came. Where steps count, one that is started anew goes on from there.
void ClientCore::SayHowFar() {
  News news = CurrentNews();
  news.want = 0;
  news.idle = news.idle && strict();  // it is not there for more, nor to be told END
  SendBeat(news);
}

void ClientCore::Apply(const event::Close&) {
  if ((strict() || job_.even != Even::kUneven) && Reads()) SayHowFar();
  if (job_.consumer != ConsumerId{}) {
    msg::Leave leave{job_.job, job_.consumer, {}, {}};
    for (const auto& [name, finish] : finishes_) leave.finished.push_back(finish.finish);
    Do(action::SendDispatcher{std::move(leave)});
  }
  CloseStreams();
  for (const WorkerId worker : workers_.Linked()) Do(action::CloseWorker{worker});
  ring_.reset();
  for (auto& [handle, block] : blocks_) {
    if (!std::exchange(block.released, true)) Do(action::Release{handle});
  }
  lanes_.clear();
  phase_ = Phase::kClosed;
  over_ = ReaderClosed();
  if (std::exchange(restore_, std::nullopt)) Do(action::RestoreFailed{over_});
}

// ---- time

TimePoint ClientCore::NextWake() const {
  TimePoint wake = now_ + kHeartbeatEvery;
  const auto earlier = [&](TimePoint at) { wake = std::min(wake, std::max(at, now_)); };
  if (phase_ == Phase::kJoining) {
    if (dispatcher_up_) earlier(join_sent_ ? *join_sent_ + kSilence : join_at_);
    return wake;
  }
  if (dispatcher_up_ && Reads()) earlier(last_beat_ + kHeartbeatEvery);
  if (dispatcher_up_ && restore_ && !restore_->sent) earlier(restore_->at);
  for (const auto& [name, lane] : lanes_) {
    if (lane.state == LaneState::kBackoff) earlier(lane.retry_at);
    if (const auto due = HedgeDue(lane); due && !hedge_ && *due > now_) earlier(*due);
  }
  if (const auto due = StarvesAt()) earlier(*due);
  // Unreachable workers matter only to lanes that have no place.
  const bool unplaced = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& item) { return item.second.state == LaneState::kSpare; });
  if (const auto retry = workers_.NextRetry(now_); retry && unplaced) earlier(*retry);
  return wake;
}

void ClientCore::SetTimerIfChanged() {
  const TimePoint wake = NextWake();
  if (timer_ && *timer_ <= wake && *timer_ > now_) return;
  timer_ = wake;
  Do(action::SetTimer{wake});
}

bool ApplyToShelf(const ClientAction& action, Shelf& shelf) {
  struct Visitor {
    Shelf& shelf;
    bool operator()(const action::JoinedJob& a) const {
      shelf.SetPads(a.joined.even == Even::kPad);
      return shelf.Configure(a.joined.layout, a.joined.epoch, a.joined.generation, a.joined.consumers), true;
    }
    bool operator()(const action::ShelfAdd& a) const { return shelf.Add(a.grant, a.from, a.reading, a.to), true; }
    bool operator()(const action::ShelfOpen& a) const { return shelf.SetOpen(a.grant, a.open), true; }
    bool operator()(const action::ShelfPut& a) const { return shelf.Put(a.grant, a.block), true; }
    bool operator()(const action::ShelfEnd& a) const { return shelf.End(a.grant, a.end, a.lane_ended), true; }
    bool operator()(const action::ShelfRemove& a) const { return shelf.Remove(a.grant), true; }
    bool operator()(const action::ShelfLease& a) const { return shelf.SetLease(a.until), true; }
    bool operator()(const action::ShelfCount& a) const { return shelf.CountFrom(a.tag), true; }
    bool operator()(const action::ShelfSteps& a) const { return shelf.SetSteps(a.epoch, a.limit, a.steps), true; }
    bool operator()(const action::ShelfEndEpoch& a) const { return shelf.EndEpoch(a.epoch, a.dropped_rows), true; }
    bool operator()(const action::Fail& a) const { return shelf.Fail(a.status), true; }
    bool operator()(const action::ShelfWhole& a) const { return shelf.PutBatch(a.batch), true; }
    bool operator()(const action::Restored& a) const {
      return shelf.Restart(a.joined.layout, a.joined.epoch, a.joined.generation, a.joined.consumers, a.rebuilt), true;
    }
    bool operator()(const action::RestoreFailed&) const { return false; }
    bool operator()(const action::SendRestore&) const { return false; }
    bool operator()(const action::ShrinkTail&) const { return false; }
    bool operator()(const action::SendDispatcher&) const { return false; }
    bool operator()(const action::ConnectWorker&) const { return false; }
    bool operator()(const action::CloseWorker&) const { return false; }
    bool operator()(const action::SendWorker&) const { return false; }
    bool operator()(const action::Release&) const { return false; }
    bool operator()(const action::SettleSoon&) const { return false; }
    bool operator()(const action::SetTimer&) const { return false; }
  };
  return std::visit(Visitor{shelf}, action);
}

}  // namespace penstock
