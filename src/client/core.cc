// The dispatcher's side of ClientCore: join, beats, grants, marks, lease, epochs.
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

GrantName NameOf(const msg::Grant& grant) { return {grant.range.lane, grant.range.from.seq, grant.fence}; }

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
  TakeWorkers(joined.workers);
  if (strict()) SetRingStart(joined);
  beat_now_ = true;
}

void ClientCore::Apply(const msg::Failed& failed) {
  const bool lost = phase_ == Phase::kReading && failed.error.code() == Code::kNotFound && !options_.plan.empty();
  if (lost && rebuild_ == RebuildStep::kNone) return Rebuild();
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

// ---- replies

void ClientCore::Apply(const msg::BeatReply& reply) {
  const bool late = reply.serial < answered_ && !Planted(Bug::kLateReplyBelieved);
  if (phase_ != Phase::kReading || late || reply.serial > serial_) return;
  if (reply.generation < job_.generation || rebuild_ != RebuildStep::kNone) return;
  if (reply.generation != job_.generation) {
    if (restore_ && restore_->sent) return;  // its own answer is on the way
    return FailReader(Status(Code::kStale, "job '" + job_.job_name + "' was restored (generation " + std::to_string(Raw(reply.generation)) +
                                               ", this reader has " + std::to_string(Raw(job_.generation)) +
                                               "); make a new reader to go on from the restored position"));
  }
  answered_ = reply.serial;
  waiting_for_ = reply.waiting_for;
  if (!reply.workers.empty()) TakeWorkers(reply.workers);  // else they are as before
  if (strict()) return TakeRingReply(reply);
  AcknowledgeFinishes(reply);
  TakeGrants(reply);
  AnswerRevokes(reply);
  // After the removals: a lease renews only what is still its own.
  RenewLease(reply);
  TakeSteps(reply);
  if (reply.end && reply.epoch == epoch_ && !epoch_ended_) {
    epoch_ended_ = true;
    Do(action::ShelfEndEpoch{epoch_});
  }
}

void ClientCore::AcknowledgeFinishes(const msg::BeatReply& reply) {
  std::set<GrantName> listed;
  for (const msg::Grant& grant : reply.grants) listed.insert(NameOf(grant));
  for (const msg::Grant& grant : reply.revoke) listed.insert(NameOf(grant));
  // Once the lease was over the grant may have been taken away before its Finish came: its rows may come again.
  const bool revived = now_ > lease_until_;
  std::erase_if(finishes_, [&](const auto& item) {
    const auto& [name, finish] = item;
    const bool heard = finish.carried <= reply.serial && !listed.contains(name);
    const bool settled = finish.carried != 0 && (heard || Planted(Bug::kFinishSaidOnce));
    if (settled && (revived || finish.lease_over)) gone_[name] = finish.finish.upto;
    return settled;
  });
}

void ClientCore::TakeGrants(const msg::BeatReply& reply) {
  std::set<GrantName> listed;
  for (const msg::Grant& grant : reply.revoke) listed.insert(NameOf(grant));
  const std::set<GrantName> revoked = listed;
  for (const msg::Grant& grant : reply.grants) {
    const GrantName name = NameOf(grant);
    listed.insert(name);
    // What a reply to an earlier epoch's beat grants is of no use any more: the next reply revokes it.
    if (reply.epoch == epoch_ && !revoked.contains(name) && !lanes_.contains(name) && !finishes_.contains(name)) AddGrant(grant);
  }
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    if (listed.contains(lane->first) || lane->second.dropped || Planted(Bug::kFenceUnchecked)) continue;
    lane->second.dropped = true;
    if (!lane->second.leaving) RemoveLane(lane);
  }
}

void ClientCore::AddGrant(const msg::Grant& grant) {
  const GrantName name = NameOf(grant);
  Lane lane;
  lane.to = grant.range.to;
  lane.pinned = grant.worker;
  lane.arrived = Delivered(name, grant.range.from);
  if (lane.arrived.seq >= lane.to) return Finish(name, lane.arrived, false);
  lane.mark.grant = name;
  lane.mark.received = lane.mark.asked = lane.arrived;
  Do(action::ShelfAdd{name, lane.arrived, epoch_});
  lanes_.emplace(name, std::move(lane));
}

// Where this reader goes on in a lane that it had before. A lease that ran out gives rows back from an older mark, at a higher fence: what the
// loop has it is not given again.
Cursor ClientCore::Delivered(const GrantName& grant, Cursor from) const {
  const auto follow = [&](const GrantName& earlier, Cursor received) {
    if (earlier.lane == grant.lane && earlier.from <= from.seq) from = std::max(from, received);
  };
  const GrantName first{grant.lane, 0, Fence{}};
  for (auto at = gone_.lower_bound(first); at != gone_.end() && at->first.lane == grant.lane; ++at) follow(at->first, at->second);
  for (auto at = lanes_.lower_bound(first); at != lanes_.end() && at->first.lane == grant.lane; ++at) follow(at->first, at->second.mark.received);
  for (auto at = finishes_.lower_bound(first); at != finishes_.end() && at->first.lane == grant.lane; ++at) follow(at->first, at->second.finish.upto);
  return from;
}

void ClientCore::AnswerRevokes(const msg::BeatReply& reply) {
  for (const msg::Grant& grant : reply.revoke) {
    const GrantName name = NameOf(grant);
    if (finishes_.contains(name)) continue;
    if (auto lane = lanes_.find(name); lane != lanes_.end()) {
      if (!lane->second.leaving) RemoveLane(lane);
      continue;
    }
    const auto known = gone_.find(name);
    Finish(name, known == gone_.end() ? grant.range.from : known->second, false);
  }
}

void ClientCore::RenewLease(const msg::BeatReply& reply) {
  const auto sent = sent_.find(reply.serial);
  if (sent == sent_.end()) return;
  const TimePoint until = sent->second + std::chrono::milliseconds(reply.lease_ms);
  sent_.erase(sent_.begin(), sent);
  if (until <= lease_until_) return;
  lease_until_ = until;
  Do(action::ShelfLease{until});
}

// Before END: what is missing to the number of steps is padded first.
void ClientCore::TakeSteps(const msg::BeatReply& reply) {
  if (reply.epoch != epoch_ || (reply.limit == limit_ && reply.steps == steps_)) return;
  limit_ = reply.limit;
  steps_ = reply.steps;
  Do(action::ShelfSteps{epoch_, limit_, steps_});
}

// Off the shelf at once; what becomes of it is decided when the shelf says where it stood.
void ClientCore::RemoveLane(Lanes::iterator lane) {
  CloseStream(lane, true);
  lane->second.leaving = true;
  Do(action::ShelfRemove{lane->first});
}

// ---- marks

void ClientCore::Apply(const Progress& progress) {
  // What a loop gives back by going on is told with its new epoch, or it would be granted to it again.
  if (progress.epoch > epoch_ && Reads()) Apply(event::StartEpoch{progress.epoch});
  loop_waits_ = progress.waiting;
  totals_ = progress.totals;
  ready_batches_ = progress.ready_batches;
  if (progress.ring) ring_mark_ = *progress.ring;
  for (const Mark& mark : progress.marks) ApplyMark(mark);
  for (const Handle handle : progress.passed) LetGo(handle);
}

void ClientCore::ApplyMark(const Mark& mark) {
  auto at = lanes_.find(mark.grant);
  if (at == lanes_.end()) return;
  Lane& lane = at->second;
  lane.mark = mark;
  const bool is_tail = lane.state == LaneState::kEnded && mark.left_rows > 0 && mark.ready_groups == 0;
  // Many lanes may wait for one joined batch: they must not each hold a block for a few rows.
  if (is_tail && !mark.removed && !std::exchange(lane.shrunk, true)) thin_tails_.insert(mark.grant);
  if (!mark.done && !mark.removed) return;
  if (lane.turn == Turn::kGivesWay && !lane.leaving && mark.asked == mark.received) return BeginAgain(at, mark);
  CloseStream(at, true);
  const bool whole = lane.state == LaneState::kEnded && mark.left_rows == 0;
  if (lane.dropped) {
    gone_[mark.grant] = mark.received;
  } else {
    Finish(mark.grant, mark.received, whole && lane.lane_ended);
  }
  if (mark.done) ++counts_.lanes_done;
  lanes_.erase(at);
}

void ClientCore::Finish(const GrantName& grant, Cursor upto, bool ended) {
  finishes_.try_emplace(grant, FinishOut{{grant.lane, grant.from, grant.fence, upto, ended}, 0, now_ > lease_until_});
  ++finishes_made_;
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

void ClientCore::Apply(const event::Close&) {
  // How far the loop came, a leave says of lanes only.
  if (strict() && Reads()) SendBeat(CurrentNews());
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

// ---- beats

uint32_t ClientCore::OpenTarget() const { return std::max(kOpenLanes, job_.layout.batch == 0 ? 1u : job_.layout.mix); }

ClientCore::News ClientCore::CurrentNews() const {
  News news;
  news.epoch = epoch_;
  news.finishes = finishes_made_;
  if (strict()) {
    news.idle = ring_mark_.ended;
    return news;
  }
  uint32_t live = 0;
  uint64_t left = 0;
  for (const auto& [name, lane] : lanes_) {
    if (lane.leaving) continue;
    if (lane.state != LaneState::kEnded) ++live;
    left += lane.mark.left_rows;
  }
  const uint32_t target = OpenTarget() + kSpareGrants;
  news.want = epoch_ended_ || live >= target ? 0 : target - live;
  const uint64_t whole = std::max<uint64_t>(job_.layout.batch, 1);
  news.idle = live == 0 && left < whole;
  news.tail_rows = news.idle ? left : 0;
  news.mark = limit_ == kNoLimit ? 0 : totals_.epoch_batches + ready_batches_;
  return news;
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
  beat.want = news.want;
  beat.idle = news.idle;
  beat.tail_rows = news.tail_rows;
  beat.rows = totals_.rows;
  beat.bytes = arrived_bytes_;
  beat.wait_ns = static_cast<uint64_t>(totals_.waited.count());
  beat.ready_batches = ready_batches_;
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

// ---- time

TimePoint ClientCore::NextWake() const {
  TimePoint wake = now_ + kHeartbeatEvery;
  const auto earlier = [&](TimePoint at) { wake = std::min(wake, std::max(at, now_)); };
  if (phase_ == Phase::kJoining) {
    if (dispatcher_up_) earlier(join_sent_ ? *join_sent_ + kSilence : join_at_);
    return wake;
  }
  if (dispatcher_up_) earlier(last_beat_ + kHeartbeatEvery);
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
    bool operator()(const action::JoinedJob& a) const { return shelf.Configure(a.joined.layout, a.joined.epoch, a.joined.generation), true; }
    bool operator()(const action::ShelfAdd& a) const { return shelf.Add(a.grant, a.from, a.reading), true; }
    bool operator()(const action::ShelfOpen& a) const { return shelf.SetOpen(a.grant, a.open), true; }
    bool operator()(const action::ShelfPut& a) const { return shelf.Put(a.grant, a.block), true; }
    bool operator()(const action::ShelfEnd& a) const { return shelf.End(a.grant, a.end, a.lane_ended), true; }
    bool operator()(const action::ShelfRemove& a) const { return shelf.Remove(a.grant), true; }
    bool operator()(const action::ShelfLease& a) const { return shelf.SetLease(a.until), true; }
    bool operator()(const action::ShelfSteps& a) const { return shelf.SetSteps(a.epoch, a.limit, a.steps), true; }
    bool operator()(const action::ShelfEndEpoch& a) const { return shelf.EndEpoch(a.epoch, a.dropped_rows), true; }
    bool operator()(const action::Fail& a) const { return shelf.Fail(a.status), true; }
    bool operator()(const action::ShelfWhole& a) const { return shelf.PutBatch(a.batch), true; }
    bool operator()(const action::Restored& a) const { return shelf.Restart(a.joined.layout, a.joined.epoch, a.joined.generation, a.rebuilt), true; }
    bool operator()(const action::RestoreFailed&) const { return false; }
    bool operator()(const action::SendRestore&) const { return false; }
    bool operator()(const action::ShrinkTail&) const { return false; }
    bool operator()(const action::SendDispatcher&) const { return false; }
    bool operator()(const action::ConnectWorker&) const { return false; }
    bool operator()(const action::CloseWorker&) const { return false; }
    bool operator()(const action::SendWorker&) const { return false; }
    bool operator()(const action::Release&) const { return false; }
    bool operator()(const action::SetTimer&) const { return false; }
  };
  return std::visit(Visitor{shelf}, action);
}

}  // namespace penstock
