// Strict: lanes by group. The ring says what to have open and what to ask for; placing and reopening are core_lanes.cc's.
#include <algorithm>
#include <utility>

#include "client/core.h"
#include "plan/position.h"

namespace penstock {
namespace {

// Where a state says that the ring stands; nullopt where it says nothing.
Result<std::optional<RingPosition>> RingOf(const std::string& state) {
  if (state.empty()) return std::optional<RingPosition>();
  PENSTOCK_ASSIGN(const Position position, ParsePosition(state));
  return position.ring;
}

}  // namespace

// ---- beginning

void ClientCore::SetRingStart(const msg::Joined& joined) {
  const auto base = RingOf(joined.base);
  const auto position = RingOf(joined.position);
  if (!base.ok()) return FailReader(base.status());
  if (!position.ok()) return FailReader(position.status());
  const RingPosition from = base->value_or(RingPosition{.epoch = joined.epoch});
  ring_start_ = position->value_or(from);
  // A job that was restored elsewhere has gone on to later epochs since.
  if (ring_start_->epoch < epoch_) ring_start_ = RingPosition{.epoch = epoch_};
  const uint32_t mix = std::max(job_.layout.mix, 1u);
  ring_first_ = from.epoch == ring_start_->epoch ? from.turn / mix : 0;
}

// Nothing is granted and nothing revoked: the ring is shared by rule.
void ClientCore::TakeRingReply(const msg::BeatReply& reply) {
  RenewLease(reply);
  if (!reply.started || ring_ || !ring_start_) return;
  if (ring_start_->epoch <= epoch_) return BeginRing();
  // Nothing of this epoch is left: it was restored, or started anew, at its end.
  if (!std::exchange(epoch_ended_, true)) Do(action::ShelfEndEpoch{epoch_});
}

void ClientCore::BeginRing() {
  const Layout& layout = job_.layout;
  const uint32_t consumers = std::max(job_.consumers, 1u);
  const RingShape shape{.lanes = layout.lanes,
                        .group_rows = std::max<uint64_t>(layout.group_rows(), 1),
                        .mix = layout.batch == 0 ? 1 : std::max(layout.mix, 1u),
                        .places = job_.places == 0 ? consumers : job_.places};
  const RingPart part{.index = job_.index, .consumers = consumers, .even = job_.even, .drop_remainder = layout.drop_remainder};
  ring_.emplace(shape, part, ring_first_, *ring_start_);
}

// A new generation begins where its base says.
void ClientCore::RestartRing(const msg::Joined& joined) {
  if (ring_) {
    for (const Handle handle : ring_->LetGo()) LetGo(handle);
  }
  ring_.reset();
  ring_mark_ = {};
  SetRingStart(joined);
}

// The loop goes on to the next epoch, or left this one early.
void ClientCore::NextRing() {
  for (auto lane = lanes_.begin(); lane != lanes_.end(); lane = lanes_.erase(lane)) CloseStream(lane, true);
  ring_mark_.ended = false;
  ring_mark_.batches = ring_mark_.ready = 0;
  ring_start_ = RingPosition{.epoch = epoch_};
  ring_first_ = 0;
  if (!ring_) return;
  for (const Handle handle : ring_->LetGo()) LetGo(handle);
  BeginRing();
}

// Where the loop was when it asked last: one that is started anew goes on there.
std::string ClientCore::RingPositionText() const {
  if (!ring_start_) return "";
  Position position;
  position.job = job_.job_name;
  position.manifest = job_.manifest_hash;
  position.mode = Mode::kStrict;
  position.seed = options_.join.seed;
  position.dataset = options_.join.dataset;
  position.generation = job_.generation;
  position.consumers = job_.consumers;
  position.index = job_.index;
  position.batch = job_.layout.batch;
  position.epoch = epoch_;
  position.delivered.epochs_done = epoch_;
  const bool asked_here = ring_mark_.asked != nullptr && ring_mark_.asked->epoch >= epoch_;
  position.ring = ring_mark_.ended ? RingPosition{.epoch = Epoch{Raw(epoch_) + 1}} : asked_here ? *ring_mark_.asked : *ring_start_;
  return ToJson(position);
}

// ---- after each event

void ClientCore::FollowRing() {
  if (!ring_) return;
  ring_->Walk();
  const bool has_all = ring_->popped() == ring_mark_.batches;
  if (has_all) {  // not before: a tail of a batch that was dropped may lie in one that is on the shelf
    for (const Handle handle : ring_->TakeDiscarded()) LetGo(handle);
  }
  ring_->Want(counts_.held_bytes, options_.memory, has_all && released_bytes_ == 0);
  if (StarvesByItself(loop_waits_ && has_all && ring_->LacksRoom())) FailForHeld();
  if (!Reads()) return;
  DeliverWhole();
  const std::vector<RingReader::Need> needs = ring_->Needs();
  KeepRingLanes(needs);
  PlaceRingLanes(needs);
  AskForGroups();
  TellWaits(needs);
}

void ClientCore::KeepRingLanes(const std::vector<RingReader::Need>& needs) {
  std::set<LaneId> needed;
  for (const RingReader::Need& need : needs) needed.insert(need.lane);
  for (auto at = lanes_.begin(); at != lanes_.end();) {
    if (needed.contains(at->first.lane.lane)) {
      ++at;
      continue;
    }
    CloseStream(at, true);
    ++counts_.lanes_done;
    at = lanes_.erase(at);
  }
}

void ClientCore::PlaceRingLanes(const std::vector<RingReader::Need>& needs) {
  for (const RingReader::Need& need : needs) {
    const auto at = lanes_.try_emplace(RingLane(need.lane)).first;
    Lane& lane = at->second;
    lane.waited = need.waited;
    lane.needed = need.from;
    while (!lane.told.empty() && lane.told.begin()->second.end < need.from) lane.told.erase(lane.told.begin());
    const bool waited_now = need.waited && loop_waits_ && !lane.urgent;
    if (lane.state == LaneState::kBackoff && lane.retry_at <= now_) lane.state = LaneState::kSpare;
    // What pads an epoch is another's, and was passed.
    const bool passed = need.from < lane.opened_at || (need.from < lane.passed && !lane.wanted.contains(need.from));
    if (lane.state == LaneState::kOpen && passed) CloseStream(at, true);
    if (lane.state == LaneState::kOpen) continue;
    lane.arrived = lane.opened_at = need.from;
    if (lane.state == LaneState::kSpare) Place(at);
    // A worker without room refuses what is opened ahead, and makes room for what is waited for: worth saying at once.
    if (lane.state == LaneState::kBackoff && waited_now) Place(at);
  }
}

// Each stream is told what changed: groups that are wanted now, and what was walked over.
void ClientCore::AskForGroups() {
  for (auto& [name, lane] : lanes_) {
    if (lane.state != LaneState::kOpen) continue;
    const msg::Take all = ring_->TakeOf(name.lane.lane);
    msg::Take take{.want = {}, .passed = all.passed};
    for (const Cursor& cursor : all.want) {
      if (lane.wanted.insert(cursor).second) take.want.push_back(cursor);
    }
    if (take.want.empty() && take.passed <= lane.passed) continue;
    lane.passed = take.passed;
    Do(action::SendWorker{lane.worker, lane.stream, std::move(take)});
  }
}

// A worker whose memory is full of what is ahead makes room for what is waited for. An open that is urgent has said so.
void ClientCore::TellWaits(const std::vector<RingReader::Need>& needs) {
  if (!loop_waits_) return;
  for (const RingReader::Need& need : needs) {
    if (!need.waited) continue;
    Lane& lane = lanes_.at(RingLane(need.lane));
    if (lane.state != LaneState::kOpen || std::exchange(lane.told_waits, true)) continue;
    Do(action::SendWorker{lane.worker, lane.stream, msg::Credit{.bytes = 0, .waits = true}});
  }
}

void ClientCore::DeliverWhole() {
  while (auto batch = ring_->Pop()) {
    Do(action::ShelfWhole{std::move(*batch)});
    loop_waits_ = false;  // it will say so again if this was not enough
  }
  if (!ring_->at_end() || std::exchange(epoch_ended_, true)) return;
  Do(action::ShelfEndEpoch{epoch_, ring_->dropped_rows()});
}

// ---- what a worker says

// Words are in order on one stream; `arrived` is how far this one has told.
void ClientCore::GroupsTold(Lanes::iterator at, const msg::Groups& groups) {
  Lane& lane = at->second;
  const LaneId id = at->first.lane.lane;
  lane.attempts = 0;
  lane.tried.clear();
  lane.told_waits = false;
  Moved(lane, true);
  for (const msg::Group& group : groups.groups) {
    if (const LastBlock* before = ToldOtherwise(lane, group)) return FailForReplay(at, *before);
    if (Status told = ring_->Tell(id, group); !told.ok()) return RingTrouble(at, std::move(told));
    lane.told_bytes = std::max(lane.told_bytes, group.bytes);
    lane.arrived = group.end;
  }
  if (!groups.ended) return;
  if (const auto beyond = lane.told.lower_bound(lane.arrived); beyond != lane.told.end()) return FailForReplay(at, beyond->second);
  if (Status told = ring_->TellEnd(id, lane.arrived); !told.ok()) return RingTrouble(at, std::move(told));
}

// What was told of these rows before, by any worker, where it was something else; else they are remembered. Groups are cut alike by all, so those
// that overlap are one.
const ClientCore::LastBlock* ClientCore::ToldOtherwise(Lane& lane, const msg::Group& group) {
  if (group.digest == 0 || job_.layout.purity != Purity::kPure) return nullptr;
  auto known = lane.told.upper_bound(group.first);
  if (known != lane.told.end() && known->first < group.end) return &known->second;
  if (known == lane.told.begin() || std::prev(known)->second.end <= group.first) {
    lane.told.emplace_hint(known, group.first, LastBlock{group.first, group.end, group.digest, lane.worker});
    return nullptr;
  }
  const LastBlock& before = std::prev(known)->second;
  return before.first == group.first && before.end == group.end && before.digest == group.digest ? nullptr : &before;
}

// Where a stream begins to tell: of a group that another worker has told of, where there is one, for it shows whether this one makes the same rows.
Cursor ClientCore::ToldFrom(const Lane& lane, WorkerId worker) {
  const auto next = lane.told.lower_bound(lane.arrived);
  if (next != lane.told.end() || next == lane.told.begin()) return lane.arrived;
  const LastBlock& last = std::prev(next)->second;
  return last.end == lane.arrived && last.worker != worker ? last.first : lane.arrived;
}

void ClientCore::GroupArrived(Lanes::iterator at, const ShelfBlock& block) {
  at->second.wanted.erase(block.info.first);
  at->second.told_waits = false;
  Moved(at->second, false);
  const Result<bool> kept = ring_->Arrived(at->first.lane.lane, block);
  if (!kept.ok() || !*kept) LetGo(block.handle);
  if (!kept.ok()) return RingTrouble(at, kept.status());
}

void ClientCore::RingTrouble(Lanes::iterator at, Status error) {
  CloseStream(at, true);
  LaneTrouble(at, std::move(error));
}

}  // namespace penstock
