// The workers' side of ClientCore: where lanes are opened, and what becomes of them.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/constants.h"
#include "client/core.h"

namespace penstock {
namespace {

constexpr Duration kFirstReopenPause = std::chrono::milliseconds(20);
constexpr Duration kLongestReopenPause = std::chrono::seconds(1);

// Worth another worker; anything else is the data's or the plan's fault, and the same everywhere.
bool GoesElsewhere(Code code) {
  return code == Code::kUnavailable || code == Code::kBusy || code == Code::kDeadline || code == Code::kNotFound || code == Code::kStale ||
         code == Code::kCancelled;
}

// A file, and not a plan or a job that a worker may yet learn of.
bool MissesFile(const Status& error) { return error.code() == Code::kNotFound && !error.detail("file").empty(); }

}  // namespace

void ClientCore::TakeWorkers(const std::vector<msg::WorkerInfo>& workers, uint64_t version) {
  workers_version_ = version;
  workers_.Update(workers);
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    const WorkerBook::Entry* entry = workers_.Find(lane->second.worker);
    // A worker may have been the last one when it began to drain.
    if (lane->second.state == LaneState::kOpen && entry != nullptr && entry->info.draining) Reopen(lane);
  }
}

void ClientCore::Apply(const event::WorkerUp& up) {
  workers_.SetLink(up.worker, WorkerBook::Link::kUp);
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    if (lane->second.state == LaneState::kConnecting && lane->second.worker == up.worker) OpenOn(lane, up.worker);
  }
}

void ClientCore::Apply(const event::WorkerDown& down) {
  const std::string name = workers_.Name(down.worker);
  workers_.Lost(down.worker, now_);
  if (hedge_ && hedge_->worker == down.worker) DropHedge(false);
  for (auto at = lanes_.begin(); at != lanes_.end(); ++at) {
    Lane& lane = at->second;
    if (lane.worker != down.worker || (lane.state != LaneState::kOpen && lane.state != LaneState::kConnecting)) continue;
    CloseStream(at, false);
    lane.state = LaneState::kSpare;
    lane.last_error = Status(down.why).Prefixed(name);
  }
}

void ClientCore::Apply(const event::WorkerDraining& draining) {
  workers_.SetDraining(draining.worker);
  if (hedge_ && hedge_->worker == draining.worker) DropHedge(true);
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    if (lane->second.state == LaneState::kOpen && lane->second.worker == draining.worker) Reopen(lane);
  }
}

// Goes on elsewhere after the last whole block, if there is an elsewhere.
void ClientCore::Reopen(Lanes::iterator lane) {
  if (lane->second.pinned != WorkerId{} || !workers_.Any(lane->second.pinned)) return;
  CloseStream(lane, true);
  lane->second.state = LaneState::kSpare;
}

// ---- opening

void ClientCore::OpenLanes() {
  uint32_t active = 0;
  std::vector<Lanes::iterator> waiting;
  for (auto at = lanes_.begin(); at != lanes_.end(); ++at) {
    Lane& lane = at->second;
    if (lane.leaving || lane.turn == Turn::kGivesWay || lane.state == LaneState::kEnded) continue;
    if (lane.turn == Turn::kWaits && lane.waits_since < totals_.batches) lane.turn = Turn::kReads;
    if (lane.state == LaneState::kBackoff && lane.retry_at <= now_) lane.state = LaneState::kSpare;
    if (lane.state == LaneState::kSpare) {
      waiting.push_back(at);
    } else {
      ++active;
    }
  }
  // Lanes that were open before come first: their rows are waited for. What gave way comes when nothing else moves.
  std::stable_sort(waiting.begin(), waiting.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const Lane& lane) { return lane.turn == Turn::kWaits ? 2 : lane.opened_before ? 0 : 1; };
    return rank(a->second) < rank(b->second);
  });
  for (auto at = waiting.begin(); at != waiting.end() && active < OpenTarget(); ++at) {
    if ((*at)->second.turn == Turn::kWaits && active > 0) break;
    Place(*at);
    if ((*at)->second.state != LaneState::kSpare) ++active;
  }
}

void ClientCore::Place(Lanes::iterator at) {
  Lane& lane = at->second;
  const std::vector<WorkerId> order = workers_.Order(job_.job, at->first.lane, lane.pinned, now_);
  for (const WorkerId worker : order) {
    if (lane.tried.contains(worker)) continue;
    lane.worker = worker;
    const WorkerBook::Link link = workers_.Find(worker)->link;
    if (link == WorkerBook::Link::kUp) return OpenOn(at, worker);
    lane.state = LaneState::kConnecting;
    if (link == WorkerBook::Link::kConnecting) return;
    workers_.SetLink(worker, WorkerBook::Link::kConnecting);
    Do(action::ConnectWorker{workers_.Find(worker)->info});
    return;
  }
  if (lane.tried.empty()) return;  // nobody to ask: the next list or retry brings one
  lane.tried.clear();
  lane.state = LaneState::kBackoff;
  lane.retry_at = now_ + std::min(kLongestReopenPause, kFirstReopenPause * (1 << std::min(lane.attempts++, 6u)));
}

void ClientCore::OpenOn(Lanes::iterator at, WorkerId worker) {
  Lane& lane = at->second;
  if (std::exchange(lane.opened_before, true)) ++counts_.reopened;
  SetStream(at, worker, LaneStream{++options_.streams->last});
  lane.credit.outstanding = strict() ? 0 : CreditFor(lane, Committed());
  lane.urgent = loop_waits_ && (!strict() || lane.waited);
  lane.told_waits = strict() && lane.urgent;
  if (strict()) lane.arrived = lane.opened_at = ToldFrom(lane, worker);
  Do(action::SendWorker{worker, lane.stream, OpenOf(at, strict() ? lane.arrived : ReplayFrom(lane), lane.credit.outstanding)});
}

// The newest block comes again, where there is room for it: it shows whether this worker makes the same rows.
Cursor ClientCore::ReplayFrom(const Lane& lane) const {
  const bool comparable = lane.last.first < lane.last.end && lane.last.end == lane.arrived && job_.layout.purity == Purity::kPure;
  return comparable && Committed() + 2 * largest_block_ <= options_.memory ? lane.last.first : lane.arrived;
}

msg::Open ClientCore::OpenOf(Lanes::iterator at, Cursor from, uint64_t credit) const {
  const Lane& lane = at->second;
  msg::Open open;
  open.job = job_.job;
  open.generation = job_.generation;
  open.range = {at->first.lane, from, lane.to};
  open.fence = at->first.fence;
  open.consumer = job_.consumer;
  open.credit = credit;
  open.urgent = loop_waits_ && (!strict() || lane.waited);
  open.by_group = strict();
  open.compression = options_.compression;
  return open;
}

// The lane is served by this stream, which has been given nothing yet.
void ClientCore::SetStream(Lanes::iterator at, WorkerId worker, LaneStream stream) {
  Lane& lane = at->second;
  lane.state = LaneState::kOpen;
  lane.worker = worker;
  lane.stream = stream;
  streams_[stream] = at->first;
  lane.turn = Turn::kReads;
  lane.credit.outstanding = lane.credit.needs = 0;
  lane.told_waits = lane.begun = lane.announced = false;
  lane.no_hedge.clear();
  lane.quiet_since = now_;
  lane.passed = {};
  lane.told_bytes = 0;
  lane.wanted.clear();
  Do(action::ShelfOpen{at->first, true});
}

void ClientCore::CloseStream(Lanes::iterator at, bool tell) {
  Lane& lane = at->second;
  if (lane.state != LaneState::kOpen) return;
  streams_.erase(lane.stream);
  lane.credit.outstanding = lane.credit.needs = lane.credit.unreturned = 0;
  lane.state = LaneState::kSpare;
  if (tell) Do(action::SendWorker{lane.worker, lane.stream, msg::CloseLane{}});
  Do(action::ShelfOpen{at->first, false});
}

void ClientCore::CloseStreams() {
  if (hedge_) DropHedge(true);
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) CloseStream(lane, true);
}

ClientCore::Lanes::iterator ClientCore::ByStream(LaneStream stream) {
  const auto name = streams_.find(stream);
  return name == streams_.end() ? lanes_.end() : lanes_.find(name->second);
}

// ---- what a worker says of a lane

void ClientCore::Apply(const event::LaneSays& says) {
  if (hedge_ && hedge_->stream == says.stream) {
    const bool serves = std::holds_alternative<msg::Groups>(says.what) || std::holds_alternative<msg::LaneEnded>(says.what);
    const auto hedged = lanes_.find(hedge_->lane);
    if (!serves && hedged != lanes_.end()) hedged->second.no_hedge.insert(hedge_->worker);
    if (!serves || hedged == lanes_.end()) return DropHedge(serves);
    TakeHedge();
  }
  const auto lane = ByStream(says.stream);
  if (lane == lanes_.end()) return;
  if (const auto* groups = std::get_if<msg::Groups>(&says.what)) return strict() ? GroupsTold(lane, *groups) : BlockWaits(lane, *groups);
  if (const auto* ended = std::get_if<msg::LaneEnded>(&says.what)) return LaneOver(lane, *ended);
  const auto* failed = std::get_if<msg::LaneFailed>(&says.what);
  Status error = failed != nullptr ? failed->error : std::get<msg::Refused>(says.what).error;
  CloseStream(lane, false);
  LaneTrouble(lane, std::move(error));
}

void ClientCore::LaneOver(Lanes::iterator at, const msg::LaneEnded& ended) {
  Lane& lane = at->second;
  if (lane.credit.unreturned > 0) Do(action::SendWorker{lane.worker, lane.stream, msg::Credit{lane.credit.unreturned, {}}});
  CloseStream(at, false);
  if (ended.end < lane.arrived || (!ended.lane_ended && ended.end.seq < lane.to)) {
    return LaneTrouble(at, Status(Code::kInternal, ToString(at->first.lane) + " was said to end at row " + std::to_string(ended.end.seq) +
                                                       ", and it goes on to " + std::to_string(std::max(lane.arrived.seq, lane.to))));
  }
  lane.state = LaneState::kEnded;
  lane.arrived = ended.end;
  // What is left of its last source row was delivered before, or is another's: this grant does not say what becomes of the lane.
  lane.lane_ended = ended.lane_ended && ended.end <= lane.end;
  Do(action::ShelfEnd{at->first, std::min(ended.end, lane.end), lane.lane_ended});
}

void ClientCore::LaneTrouble(Lanes::iterator at, Status error) {
  Lane& lane = at->second;
  lane.tried.insert(lane.worker);
  lane.last_error = Status(error).Prefixed(workers_.Name(lane.worker));
  const bool misses_file = MissesFile(error);
  if (misses_file) lane.misses_file.insert(lane.worker);
  if (GoesElsewhere(error.code()) && !misses_file) return;
  // The same elsewhere? One other worker is asked, so that one bad machine does not end a job; for a file, all: it may be some machines' only.
  const std::set<WorkerId>& asked = misses_file ? lane.misses_file : lane.tried;
  const std::vector<WorkerId> order = workers_.Order(job_.job, at->first.lane, lane.pinned, now_);
  const bool others = std::any_of(order.begin(), order.end(), [&](WorkerId worker) { return !asked.contains(worker); });
  if (others && (misses_file || lane.permanent.ok())) {
    if (!misses_file) lane.permanent = std::move(error);
    return;
  }
  const bool names_lane = !error.detail("lane").empty();
  const bool names_worker = !error.detail("worker").empty();
  Status said = std::move(error);
  if (!names_lane) said = std::move(said).Prefixed(ToString(at->first.lane)).With("lane", int64_t{Raw(at->first.lane.lane)});
  if (!names_worker) said = std::move(said).With("worker", workers_.Name(lane.worker));
  FailReader(std::move(said));
}

// ---- words

std::string ClientCore::WaitingFor() const {
  if (phase_ == Phase::kJoining && waiting_for_.empty()) {
    return "the dispatcher has not answered yet: a worker has to list the inputs first; `penstock status` shows who is there";
  }
  if (phase_ == Phase::kJoining || (restore_ && !waiting_for_.empty())) return waiting_for_;
  if (starved_since_) return "room for the next batch: the loop holds " + std::to_string(released_bytes_) + " bytes of others";
  if (ring_) {
    const auto waits_for = ring_->WaitsFor();
    const auto lane = waits_for ? lanes_.find(RingLane(*waits_for)) : lanes_.end();
    if (lane != lanes_.end()) return WordsOf(lane->first, lane->second);
  }
  const Lanes::value_type* unplaced = nullptr;
  for (const auto& item : lanes_) {
    const Lane& lane = item.second;
    if (lane.leaving || lane.state == LaneState::kEnded || lane.mark.ready_groups > 0) continue;
    if (lane.state == LaneState::kOpen || lane.state == LaneState::kConnecting) return WordsOf(item.first, lane);
    unplaced = &item;
  }
  if (unplaced != nullptr) return WordsOf(unplaced->first, unplaced->second);
  if (!dispatcher_up_) return waiting_for_.empty() ? "the dispatcher" : waiting_for_;
  return waiting_for_.empty() ? "a grant from the dispatcher" : waiting_for_;
}

// What a lane waits for.
std::string ClientCore::WordsOf(const GrantName& name, const Lane& lane) const {
  const std::string what = ToString(name.lane);
  if (lane.state == LaneState::kOpen) return what + " from " + workers_.Name(lane.worker);
  if (lane.state == LaneState::kConnecting) return workers_.Name(lane.worker) + " to take " + what;
  const std::string why = lane.last_error.ok() ? "" : " (" + lane.last_error.message() + ")";
  if (lane.state == LaneState::kBackoff) return "a worker that takes " + what + why;
  return (workers_.Any(lane.pinned) ? "a worker for " + what : "a worker to be there") + why;
}

}  // namespace penstock
