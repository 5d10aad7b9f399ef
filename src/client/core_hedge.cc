// A lane that its loop waits for, and that is behind its peers, is opened on a second worker at the same cursor; the first with rows serves it
// (protocol.md 5). The second gets no credit, so it says what it has and sends nothing: a hedge takes no memory here.
#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "client/core.h"

namespace penstock {

// After each event: whether the hedge is still of use, and whether one is due.
void ClientCore::HedgeIfBehind() {
  if (!kGuarded) return;
  if (hedge_) {
    const auto at = lanes_.find(hedge_->lane);
    const bool went = at == lanes_.end() || at->second.leaving || at->second.turn != Turn::kReads || at->second.state == LaneState::kEnded;
    if (went || at->second.quiet_since != hedge_->quiet_since) return DropHedge(true);
    if (at->second.state != LaneState::kOpen) TakeHedge();
    return;
  }
  if (!loop_waits_) return;
  for (auto at = lanes_.begin(); at != lanes_.end() && !hedge_; ++at) {
    const auto due = HedgeDue(at->second);
    if (due && *due <= now_) Hedge(at);
  }
}

// From when on the lane is behind; nullopt where nothing waits for it, or nobody else may serve it.
std::optional<TimePoint> ClientCore::HedgeDue(const Lane& lane) const {
  const bool waited_for = loop_waits_ && (strict() ? lane.waited : lane.mark.ready_groups == 0 && lane.credit.needs == 0);
  if (lane.state != LaneState::kOpen || !waited_for) return std::nullopt;
  // A range is of a serial lane: whoever serves it makes all before it, too.
  if (lane.pinned != WorkerId{} || lane.to != kLaneEnd || job_.layout.purity == Purity::kImpure) return std::nullopt;
  const auto limit = (lane.begun ? next_words_ : first_words_).Limit();
  return limit ? std::optional(lane.quiet_since + *limit) : std::nullopt;
}

void ClientCore::Hedge(Lanes::iterator at) {
  const Lane& lane = at->second;
  for (const WorkerId worker : workers_.Order(job_.job, at->first.lane, lane.pinned, now_)) {
    if (worker == lane.worker || lane.tried.contains(worker) || lane.no_hedge.contains(worker)) continue;
    const WorkerBook::Link link = workers_.Find(worker)->link;
    if (link == WorkerBook::Link::kConnecting) continue;
    if (link == WorkerBook::Link::kNone) {
      workers_.SetLink(worker, WorkerBook::Link::kConnecting);
      return Do(action::ConnectWorker{workers_.Find(worker)->info});
    }
    const LaneStream stream{++options_.streams->last};
    hedge_ = HedgeOut{at->first, worker, stream, strict() ? lane.needed : lane.arrived, now_, lane.quiet_since};
    return Do(action::SendWorker{worker, stream, OpenOf(at, hedge_->from, 0)});
  }
}

void ClientCore::DropHedge(bool tell) {
  const HedgeOut hedge = *std::exchange(hedge_, std::nullopt);
  const WorkerBook::Entry* worker = workers_.Find(hedge.worker);
  if (tell && worker != nullptr && worker->link == WorkerBook::Link::kUp) Do(action::SendWorker{hedge.worker, hedge.stream, msg::CloseLane{}});
}

// The lane goes on from the hedge.
void ClientCore::TakeHedge() {
  const HedgeOut hedge = *std::exchange(hedge_, std::nullopt);
  const auto at = lanes_.find(hedge.lane);
  CloseStream(at, true);
  SetStream(at, hedge.worker, hedge.stream);
  at->second.quiet_since = hedge.opened;
  if (strict()) at->second.arrived = at->second.opened_at = hedge.from;
  ++counts_.reopened;
  ++counts_.hedged;
}

// The lane's worker said something. What it sends after it said that it has it tells of the network alone.
void ClientCore::Moved(Lane& lane, bool announced) {
  if (!std::exchange(lane.announced, announced)) (lane.begun ? next_words_ : first_words_).Took(now_ - lane.quiet_since);
  lane.quiet_since = now_;
  lane.no_hedge.clear();
  lane.begun = true;
}

}  // namespace penstock
