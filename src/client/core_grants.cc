// What ClientCore is granted and what becomes of it: replies of the dispatcher, marks of the shelf.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/planted.h"
#include "client/core.h"

namespace penstock {
namespace {

GrantName NameOf(const msg::Grant& grant) { return {grant.range.lane, grant.range.from, grant.fence}; }

}  // namespace

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
  if (!reply.workers.empty()) TakeWorkers(reply.workers, reply.workers_version);  // else they are as before
  // Before anything that it grants is delivered.
  if (reply.first_tag > 0 && std::exchange(first_tag_, reply.first_tag) != reply.first_tag) Do(action::ShelfCount{first_tag_});
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
  lane.end = grant.range.end();
  lane.pinned = grant.worker;
  lane.arrived = Delivered(name, grant.range.from);
  if (lane.arrived >= lane.end) return Finish(name, lane.arrived, false);
  lane.mark.grant = name;
  lane.mark.received = lane.mark.asked = lane.arrived;
  Do(action::ShelfAdd{name, lane.arrived, epoch_, lane.end});
  lanes_.emplace(name, std::move(lane));
}

// Where this reader goes on in a lane that it had before. A lease that ran out gives rows back from an older mark, at a higher fence: what the
// loop has it is not given again.
Cursor ClientCore::Delivered(const GrantName& grant, Cursor from) const {
  const auto follow = [&](const GrantName& earlier, Cursor received) {
    if (earlier.lane == grant.lane && earlier.from <= from) from = std::max(from, received);
  };
  const GrantName first{grant.lane, {}, Fence{}};
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

// Before END: what is missing to the number of steps is padded first. Steps are final: a reply without them was sent before they were known.
void ClientCore::TakeSteps(const msg::BeatReply& reply) {
  const bool overtaken = steps_ != kNoLimit && reply.steps == kNoLimit;
  if (reply.epoch != epoch_ || overtaken || (reply.limit == limit_ && reply.steps == steps_)) return;
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
  loop_pace_.Saw(now_, totals_.rows);
  lanes_pace_.Saw(now_, counts_.lanes_done);
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

}  // namespace penstock
