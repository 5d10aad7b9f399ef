// Which lanes come in, which wait, and which give way.
#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "worker/core_state.h"

namespace penstock::worker {
namespace {

constexpr size_t kMostLanesASession = 4096;  // each is state here, whether it reads or waits

}  // namespace

void WorkerCore::State::OnOpen(SessionId session, StreamId stream, const msg::Open& open) {
  const SessionState& opens = sessions_.at(session);
  if (opens.lanes.size() >= kMostLanesASession && !opens.lanes.contains(stream)) {
    const std::string cap = std::to_string(kMostLanesASession);
    return Do(SendToConsumer{
        session, stream,
        msg::Refused{
            Status(Code::kBusy, "a consumer may have " + cap + " lanes open on a worker, and has them; close some, or open this one on another")}});
  }
  const LaneNo no{next_lane_++};
  if (!sessions_.at(session).lanes.try_emplace(stream, no).second) return;  // the stream is in use: said twice
  sessions_.at(session).ended.erase(stream);
  OpenLane& lane = lanes_[no];
  lane = {.no = no, .session = session, .stream = stream, .open = open, .since = now_, .opened_at = now_};
  lane.credit = AddCredit(0, open.credit);
  Job& job = jobs_[open.job];
  ++job.lanes;
  JoinConsumer(lane);
  most_lanes_ = std::max(most_lanes_, static_cast<uint32_t>(lanes_.size()));
  if (told_lanes_ == 0) SendBeat();  // a worker that serves is not shown as one that does not for a second
  if (open.urgent) StartsReading(lane.consumer());
  if (drain_until_) return Refuse(lane, Status(Code::kUnavailable, "this worker is draining; open the lane on another"));
  if (!job.known) return Fetch(open.job, job);
  Admit(lane);
}

void WorkerCore::State::Fetch(JobId id, Job& job) {
  if (!std::exchange(job.fetching, true)) Do(FetchJob{id});
}

// Everything that may keep the lane from reading, in order. Comes again whenever that may have changed.
void WorkerCore::State::Admit(OpenLane& lane) {
  Job& job = jobs_.at(lane.open.job);
  if (lane.open.generation < job.generation) {
    return Refuse(lane, Status(Code::kStale, "the job was restored: this lane was opened in generation " + std::to_string(Raw(lane.open.generation)) +
                                                 ", it is at " + std::to_string(Raw(job.generation)) + " now"));
  }
  // Which one is current the dispatcher says, not a consumer.
  if (lane.open.generation > job.generation) {
    Enter(lane, OpenLane::Phase::kJob);
    return Fetch(lane.open.job, job);
  }
  if (lane.open.by_group) {
    if (CheckFits(lane, job)) AdmitFollower(lane);
    return;
  }
  if (AnsweredByKnownEnd(lane, job) || !CheckFits(lane, job)) return;
  Run* parked = ParkedFor(lane);
  if (parked == nullptr && WaitsForRun(lane)) return;
  if (parked == nullptr) parked = OverdueBefore(lane);
  const uint64_t bytes = ReserveOf(job) + (parked == nullptr ? StateReserveOf(job) : 0);
  const bool first_in_line = wait_room_.empty() || *wait_room_.begin() >= lane.no;
  if (first_in_line) {
    while (!budget_.Fits(bytes) && parked == nullptr && DropOldestParked()) {
    }
    if (budget_.Fits(bytes)) return Begin(lane, parked);
  }
  WaitForRoom(lane, bytes);
}

// By what they declared: what another lane turned out to hold says nothing of this one.
bool WorkerCore::State::CheckFits(OpenLane& lane, const Job& job) {
  if (!HoldsTooMuch(job, job.state_bytes)) return true;
  Refuse(lane, StateTooLarge(lane.open.range.lane, job.state_bytes, job.block_target, {}));
  return false;
}

bool WorkerCore::State::AnsweredByKnownEnd(OpenLane& lane, const Job& job) {
  const auto end = job.ended.find(lane.open.range.lane);
  if (end == job.ended.end() || lane.open.range.from < end->second) return false;
  lane.over = LaneOver{.end = lane.open.range.from, .lane_ended = true};
  EndLane(lane);
  return true;
}

// The run of this lane that stands where the open begins, or was left within the range before it: what is between them is made and passed over.
Run* WorkerCore::State::ParkedFor(const OpenLane& lane) {
  const auto found = ranged_runs_.find({lane.open.job, lane.open.range.lane});
  if (!lane.ranged() || found == ranged_runs_.end()) return nullptr;
  const Cursor from = lane.open.range.from;
  for (const TaskId task : found->second) {
    Run& run = runs_.at(task);
    const bool left_before = run.left && run.cursor < from && from == Cursor{run.to, 0};
    if (run.parked() && (run.cursor == from || left_before)) return &run;
  }
  return nullptr;
}

// A parked run that nobody took in time. It is sooner there than one that begins anew.
Run* WorkerCore::State::OverdueBefore(const OpenLane& lane) {
  Run* const before = RunBefore(lane);
  return before != nullptr && before->parked() ? before : nullptr;
}

// The run that is nearest on its way to where the open begins.
Run* WorkerCore::State::RunBefore(const OpenLane& lane) {
  const auto found = ranged_runs_.find({lane.open.job, lane.open.range.lane});
  if (!lane.ranged() || found == ranged_runs_.end()) return nullptr;
  Run* nearest = nullptr;
  for (const TaskId task : found->second) {
    Run& run = runs_.at(task);
    const bool stops_there = run.parked() || run.to <= lane.open.range.from.seq;
    if (!stops_there || run.cursor > lane.open.range.from) continue;
    if (nearest == nullptr || nearest->cursor < run.cursor) nearest = &run;
  }
  return nearest;
}

// A loop that waits does so only for a run that moves; a step may take as long as its code does.
bool WorkerCore::State::WaitsForRun(OpenLane& lane) {
  const bool loop_waits = lane.waits || lane.open.urgent;
  if (const Run* run = RunBefore(lane); run != nullptr && loop_waits) Hurry(run->lane);
  const Run* run = RunBefore(lane);
  if (run == nullptr) return WaitsForEarlier(lane);
  const TimePoint patience = (run->stepping ? now_ : run->moved) + options_.range_patience;
  if (loop_waits && patience <= now_) return false;
  Enter(lane, OpenLane::Phase::kRange);
  if (loop_waits) WakeAt(patience);
  return true;
}

// Consumers that start together are granted ranges in order, and come here in any. A run for each would hold its own state of the operators, and
// make again what another makes.
bool WorkerCore::State::WaitsForEarlier(OpenLane& lane) {
  const TimePoint patience = lane.opened_at + options_.start_patience;
  const bool may_come = lane.ranged() && lane.open.range.from.seq > 0 && now_ < patience;
  const bool has_come = std::ranges::any_of(wait_range_, [&](LaneNo no) {
    const msg::Open& other = lanes_.at(no).open;
    return other.job == lane.open.job && other.range.lane == lane.open.range.lane && other.range.from < lane.open.range.from;
  });
  if (!may_come && !has_come) return false;
  Enter(lane, OpenLane::Phase::kRange);
  if (may_come) WakeAt(patience);
  return true;
}

// Another consumer's loop waits for what comes after this lane's range, whether this one's reads or not.
void WorkerCore::State::Hurry(LaneNo no) {
  OpenLane* lane = Find(no);
  if (lane == nullptr || std::exchange(lane->hurried, true)) return;
  Work(*lane);
}

void WorkerCore::State::Begin(OpenLane& lane, Run* run) {
  Job& job = jobs_.at(lane.open.job);
  const GroupId group{Raw(lane.open.job)};
  lane.reserve = ReserveOf(job);
  budget_.Open(HolderOf(lane.no), group, Planted(Bug::kNoReserve) ? 0 : lane.reserve);  // Admit saw that all of it fits
  OpenLoan(lane);
  const msg::Range& range = lane.open.range;
  if (run != nullptr) {
    Do(ExtendLane{run->task, range.to});
  } else {
    const TaskId task{next_task_++};
    run = &runs_[task];
    *run = {.task = task, .job = lane.open.job, .key = range.lane, .cursor = range.from};
    run->state_bytes = StateReserveOf(job);
    ++job.runs;
    budget_.Open(HolderOf(task), group, run->state_bytes);
    if (lane.ranged()) {
      ranged_runs_[{run->job, run->key}].push_back(task);
      runs_moved_ = true;
    }
    Do(StartLane{.task = task,
                 .job = run->job,
                 .lane = range.lane,
                 .from = range.from,
                 .to = range.to,
                 .block_target = job.block_target,
                 .block_cap = block_cap_,
                 .state_cap = StateCap(),
                 .in_place = !sessions_.at(lane.session).shares_memory && CodecFor(lane) == PackCodec::kNone});
  }
  run->to = range.to;
  run->lane = lane.no;
  run->moved = now_;
  run->left = false;
  Enter(lane, OpenLane::Phase::kReading);
  lane.task = run->task;
  Work(lane);
}

void WorkerCore::State::OpenLoan(const OpenLane& lane) {
  Consumer& consumer = consumers_.at(lane.consumer());
  if (consumer.loan != 0 || !sessions_.at(lane.session).shares_memory) return;
  consumer.loan = next_loan_++;
  budget_.Open(LoanOf(consumer), GroupId{Raw(lane.open.job)}, 0);
}

// Its consumer waits for it, or has nothing else here.
bool WorkerCore::State::IsNeeded(const OpenLane& lane) const { return lane.open.urgent || consumers_.at(lane.consumer()).lanes == 1; }

void WorkerCore::State::WaitForRoom(OpenLane& lane, uint64_t bytes) {
  if (!IsNeeded(lane)) {
    return Refuse(lane, Status(Code::kBusy, "no room for a lane opened ahead in this worker's budget of " + std::to_string(budget_.capacity()) +
                                                " bytes; open it elsewhere or later"));
  }
  if (lane.phase != OpenLane::Phase::kRoom) {
    Enter(lane, OpenLane::Phase::kRoom);
    WakeAt(now_ + options_.room_patience);
  }
  if (*wait_room_.begin() == lane.no) MakeRoom(bytes, &lane, lane.open.urgent ? Pressing::kWaitedFor : Pressing::kOnly);
}

// Lanes opened ahead give way. Where the last step of one is still out its room comes later: then nobody else is asked before that.
void WorkerCore::State::MakeRoom(uint64_t bytes, const OpenLane* whose, Pressing pressing) {
  while (!budget_.Fits(bytes)) {
    if (DropOldestParked()) continue;
    if (abandoned_ > 0) return;
    OpenLane* victim = NextToGiveWay(whose, pressing);
    if (victim == nullptr) return;
    Refuse(*victim, Status(Code::kBusy, "gave way to a lane that another consumer waits for; open it elsewhere or later"));
  }
}

bool WorkerCore::State::DropOldestParked() {
  const Run* oldest = nullptr;
  for (const auto& [task, run] : runs_) {
    if (run.parked() && (oldest == nullptr || run.moved < oldest->moved)) oldest = &run;
  }
  if (oldest == nullptr) return false;
  StopRun(oldest->task);
  return true;
}

// One that is not waited for first; then of a consumer that does not read, of the one with most lanes, the newest. Nobody loses its only lane but
// who does not read, or follows it group by group and waits for another. To a step that nothing else makes room for any other gives way: where all
// are waited for, and each needs more than its reserve, one has to come first.
OpenLane* WorkerCore::State::NextToGiveWay(const OpenLane* whose, Pressing pressing) {
  OpenLane* best = nullptr;
  std::tuple<bool, bool, bool, uint32_t> best_rank{};
  for (auto& [no, lane] : lanes_) {
    const bool by_group = lane.open.by_group;
    const bool same = whose != nullptr && (no == whose->no || (by_group && whose->open.by_group && SharedKeyOf(lane) == SharedKeyOf(*whose)));
    if (same || lane.phase != OpenLane::Phase::kReading) continue;
    const bool waited_for = lane.open.urgent || (by_group && lane.waits);
    const Consumer& consumer = consumers_.at(lane.consumer());
    const bool only = consumer.lanes < 2 && (pressing == Pressing::kOnly || (consumer.reads && !by_group));
    if ((waited_for || only) && pressing != Pressing::kStep) continue;
    const std::tuple<bool, bool, bool, uint32_t> rank{!only, !waited_for, !consumer.reads, consumer.lanes};
    if (best != nullptr && rank < best_rank) continue;
    best = &lane;
    best_rank = rank;
  }
  return best;
}

void WorkerCore::State::AdmitAll(const std::set<LaneNo>& waiting) {
  const std::vector<LaneNo> copy(waiting.begin(), waiting.end());
  for (const LaneNo no : copy) {
    if (OpenLane* lane = Find(no)) Admit(*lane);
  }
}

void WorkerCore::State::Enter(OpenLane& lane, OpenLane::Phase phase) {
  wait_room_.erase(lane.no);
  wait_range_.erase(lane.no);
  if (lane.phase != phase) lane.since = now_;
  lane.phase = phase;
  if (phase == OpenLane::Phase::kRoom) wait_room_.insert(lane.no);
  if (phase == OpenLane::Phase::kRange) wait_range_.insert(lane.no);
}

void WorkerCore::State::Refuse(OpenLane& lane, Status why) {
  Do(SendToConsumer{lane.session, lane.stream, msg::Refused{std::move(why)}});
  CloseLane(lane.no);
}

void WorkerCore::State::Fail(OpenLane& lane, Status why) {
  Do(SendToConsumer{lane.session, lane.stream, msg::LaneFailed{std::move(why)}});
  CloseLane(lane.no, ItsRun::kIsBroken);
}

void WorkerCore::State::CloseLane(LaneNo no, ItsRun its_run) {
  OpenLane& lane = lanes_.at(no);
  const JobId job = lane.open.job;
  Discard(lane);
  if (lane.open.by_group) LeaveShared(lane);
  if (lane.task != TaskId{}) {
    Run& run = runs_.at(lane.task);
    run.lane = {};
    run.left = lane.ranged() && its_run == ItsRun::kMayGoOn;
    Leave(run);
  }
  Charge(lane.consumer(), 0, lane.uncredited);
  LeaveConsumer(lane);
  sessions_.at(lane.session).lanes.erase(lane.stream);
  wait_room_.erase(no);
  wait_range_.erase(no);
  budget_.Close(HolderOf(no));
  --jobs_.at(job).lanes;
  lanes_.erase(no);
  room_freed_ = true;
  ForgetIfDone(job);
}

// Others may have the ranges behind the one that it was for, and would wait for all before them to be made again: so where it may go on it is parked,
// once its step is done.
void WorkerCore::State::Leave(Run& run) {
  if (run.stepping) {
    ++abandoned_;
    if (!run.left) std::erase(ranged_runs_[{run.job, run.key}], run.task);
  } else if (run.left) {
    Park(run);
  } else {
    StopRun(run.task);
  }
}

// Until an open goes on with it, or nobody did for a while.
void WorkerCore::State::Park(Run& run) {
  run.moved = now_;
  runs_moved_ = true;
  WakeAt(now_ + options_.park_for);
}

void WorkerCore::State::JoinConsumer(const OpenLane& lane) {
  Consumer& consumer = consumers_[lane.consumer()];
  if (consumer.lanes++ > 0) return;
  consumer.job = lane.open.job;
  ++jobs_.at(consumer.job).consumers;
}

void WorkerCore::State::LeaveConsumer(const OpenLane& lane) {
  Consumer& consumer = consumers_.at(lane.consumer());
  if (--consumer.lanes > 0) return;
  consumer.idle_since = now_;
  if (const auto job = jobs_.find(consumer.job); job != jobs_.end()) --job->second.consumers;
  if (consumer.loan == 0) return;
  budget_.Close(LoanOf(consumer));
  consumer.loan = 0;
}

// A session lives as long as its process, and readers come and go on it.
void WorkerCore::State::ForgetIdleConsumers() {
  std::erase_if(consumers_, [this](const auto& item) {
    const Consumer& consumer = item.second;
    const TimePoint heard = std::max(consumer.idle_since, consumer.read_at);
    if (consumer.lanes > 0 || consumer.lent > 0 || heard + options_.park_for > now_) return false;
    const ConsumerKey& key = item.first;
    std::erase_if(sessions_.at(key.first).ended, [&](const auto& stream) { return stream.second.first == key.second; });
    return true;
  });
}

// What one lane turned out to hold, others may come to hold too; and where that leaves no room for a block, they still get theirs.
uint64_t WorkerCore::State::StateReserveOf(const Job& job) const {
  const uint64_t beside_a_block = budget_.capacity() - std::min(job.block_target, budget_.capacity());
  return std::max(job.state_bytes, std::min(job.state_seen, beside_a_block));
}

// At most a quarter of what operators leave, so that several lanes fit together.
uint64_t WorkerCore::State::ReserveOf(const Job& job) const {
  const uint64_t left = budget_.capacity() - std::min(StateReserveOf(job), budget_.capacity());
  return std::min({std::max(job.block_target, job.largest), block_cap_ + block_cap_ / 4, left / 4});
}

}  // namespace penstock::worker
