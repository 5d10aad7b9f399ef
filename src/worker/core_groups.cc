// Lanes by group (strict): one production a lane, shared by its followers. A group is kept until it was sent, or passed by all of them.
#include <algorithm>
#include <utility>

#include "worker/core_state.h"

namespace penstock::worker {
namespace {

constexpr size_t kMostWants = size_t{1} << 16;

}  // namespace

// ---- followers

// Where the lane's kept groups lead without a gap.
Cursor WorkerCore::State::Reach(const SharedLane& shared, Cursor from) const {
  for (auto at = shared.kept.find(from); at != shared.kept.end(); at = shared.kept.find(from)) from = at->second.block.info.end;
  return from;
}

bool WorkerCore::State::Served(const SharedLane& shared, Cursor from) const {
  if (shared.end == from) return true;
  return std::any_of(shared.runs.begin(), shared.runs.end(), [&](TaskId task) { return runs_.at(task).cursor <= from; });
}

// Comes again whenever what kept it out may have changed.
void WorkerCore::State::AdmitFollower(OpenLane& lane) {
  const Job& job = jobs_.at(lane.open.job);
  SharedLane& shared = shared_[SharedKeyOf(lane)];
  if (lane.phase == OpenLane::Phase::kJob) {
    lane.told = lane.open.range.from;
    lane.passed = std::max(lane.passed, lane.told);
  }
  if (!Served(shared, Reach(shared, lane.told))) {
    const uint64_t bytes = ReserveOf(job) + job.state_bytes;
    const bool first_in_line = wait_room_.empty() || *wait_room_.begin() >= lane.no;
    while (first_in_line && !budget_.Fits(bytes) && DropOldestParked()) {
    }
    if (!first_in_line || !budget_.Fits(bytes)) return WaitForRoom(lane, bytes);
    StartGroups(shared, lane, Reach(shared, lane.told));
  }
  lane.reserve = ReserveOf(job);
  shared.followers.insert(lane.no);
  OpenLoan(lane);
  Enter(lane, OpenLane::Phase::kReading);
  TellGroups(shared, lane);
  SendWanted(shared, lane);
  WorkGroups(SharedKeyOf(lane));
}

void WorkerCore::State::OnTake(OpenLane& lane, const msg::Take& take) {
  lane.want.insert(take.want.begin(), take.want.end());
  lane.passed = std::max(lane.passed, take.passed);
  if (lane.passed > lane.open.range.from && lane.want.empty()) lane.open.urgent = false;  // it went on: what it waited for was another's
  if (lane.want.size() > kMostWants) return Fail(lane, Status(Code::kInvalid, "more groups were asked for than a lane may have outstanding"));
  if (lane.phase != OpenLane::Phase::kReading) return;
  const SharedKey key = SharedKeyOf(lane);
  SharedLane& shared = shared_.at(key);
  const bool gone = std::any_of(lane.want.begin(), lane.want.end(), [&](Cursor at) { return at < lane.told && !shared.kept.contains(at); });
  if (gone)
    return Refuse(lane, Status(Code::kBusy, ToString(lane.open.range.lane) + ": a group was asked for that is not kept any more; open it again"));
  SendWanted(shared, lane);
  DropPassed(shared);
  WorkGroups(key);
}

void WorkerCore::State::TellGroups(const SharedLane& shared, OpenLane& lane) {
  msg::Groups groups;
  for (auto at = shared.kept.find(lane.told); at != shared.kept.end(); at = shared.kept.find(lane.told)) {
    const BlockInfo& info = at->second.block.info;
    groups.groups.push_back({at->first, info.end, info.rows, info.bytes, info.digest});
    lane.told = info.end;
  }
  groups.ended = shared.end == lane.told && !std::exchange(lane.end_told, shared.end == lane.told);
  if (groups.groups.empty() && !groups.ended) return;
  lane.open.urgent = lane.waits = false;  // it will say so again if this was not enough
  Do(SendToConsumer{lane.session, lane.stream, std::move(groups)});
}

void WorkerCore::State::SendWanted(SharedLane& shared, OpenLane& lane) {
  for (auto want = lane.want.begin(); want != lane.want.end();) {
    const auto at = shared.kept.find(*want);
    if (at == shared.kept.end()) {
      ++want;
      continue;
    }
    want = lane.want.erase(want);
    const KeptGroup group = at->second;
    rows_ += group.block.info.rows;
    bytes_ += group.block.info.bytes;
    lane.open.urgent = lane.waits = false;
    // A tail may be cut between several, and the last batch be given to several (pad): it stays until all have it.
    const bool tail = group.block.info.rows < jobs_.at(lane.open.job).group_rows;
    if (tail || AnotherWants(shared, lane, at->first)) {
      Do(SendCopy{lane.session, lane.stream, group.block.handle});
      continue;
    }
    const bool lent = Lend(lane, GroupsOf(group.made_by), group.block.charge);
    const HolderId charged = lent ? LoanOf(consumers_.at(lane.consumer())) : GroupsOf(group.made_by);
    Do(SendBlock{lane.session, lane.stream, group.block.handle, lent ? Handover::kLend : Handover::kCopy});
    sent_.emplace(group.block.handle, SentBlock{charged, group.block.charge, lane.consumer(), LaneNo{}, lent, group.made_by});
    --ready_blocks_;
    shared.kept.erase(at);
  }
}

bool WorkerCore::State::AnotherWants(const SharedLane& shared, const OpenLane& lane, Cursor group) const {
  return std::any_of(shared.followers.begin(), shared.followers.end(),
                     [&](LaneNo no) { return no != lane.no && lanes_.at(no).want.contains(group); });
}

// What no follower will ask for.
void WorkerCore::State::DropPassed(SharedLane& shared) {
  Cursor passed_by_all{kLaneEnd, 0};
  for (const LaneNo no : shared.followers) passed_by_all = std::min(passed_by_all, lanes_.at(no).passed);
  for (auto at = shared.kept.begin(); at != shared.kept.end() && at->first < passed_by_all;) {
    const bool wanted =
        std::any_of(shared.followers.begin(), shared.followers.end(), [&](LaneNo no) { return lanes_.at(no).want.contains(at->first); });
    at = wanted ? std::next(at) : LetGo(shared, at);
  }
}

std::map<Cursor, KeptGroup>::iterator WorkerCore::State::LetGo(SharedLane& shared, std::map<Cursor, KeptGroup>::iterator at) {
  Do(ReleaseBlock{at->second.block.handle});
  budget_.Give(GroupsOf(at->second.made_by), at->second.block.charge);
  --ready_blocks_;
  room_freed_ = true;
  return shared.kept.erase(at);
}

void WorkerCore::State::LeaveShared(const OpenLane& lane) {
  const SharedKey key = SharedKeyOf(lane);
  const auto found = shared_.find(key);
  if (found == shared_.end()) return;
  found->second.followers.erase(lane.no);
  DropPassed(found->second);
  WorkGroups(key);
}

// ---- production

void WorkerCore::State::StartGroups(SharedLane& shared, const OpenLane& lane, Cursor from) {
  Job& job = jobs_.at(lane.open.job);
  const TaskId task{next_task_++};
  Run& run = runs_[task];
  run = {.task = task, .job = lane.open.job, .key = lane.open.range.lane, .cursor = from};
  run.groups = SharedKeyOf(lane);
  run.moved = now_;
  run.state_bytes = StateReserveOf(job);
  ++job.runs;
  budget_.Open(HolderOf(task), GroupId{Raw(run.job)}, run.state_bytes);
  budget_.Open(GroupsOf(task), GroupId{Raw(run.job)}, ReserveOf(job));
  shared.runs.push_back(task);
  Do(StartLane{.task = task,
               .job = run.job,
               .lane = run.key,
               .from = from,
               .block_target = job.block_target,
               .block_cap = block_cap_,
               .state_cap = StateCap(),
               .by_group = true,
               .in_place = !sessions_.at(lane.session).shares_memory && CodecFor(lane) == PackCodec::kNone});
}

// Some follower waits for what this run makes next, and none that is further on makes it first. Where the groups that others made lead to
// another run, that one goes on.
bool WorkerCore::State::IsNeeded(const SharedLane& shared, const Run& run) const {
  const auto other_at = [&](Cursor low, Cursor high) {
    return std::any_of(shared.runs.begin(), shared.runs.end(), [&](TaskId task) {
      const Run& other = runs_.at(task);
      return task != run.task && other.cursor >= low && other.cursor <= high && (other.cursor != run.cursor || other.task < run.task);
    });
  };
  const Cursor reach = Reach(shared, run.cursor);
  if (shared.end == reach || other_at(run.cursor, reach)) return false;
  return std::any_of(shared.followers.begin(), shared.followers.end(), [&](LaneNo no) {
    const Cursor told = lanes_.at(no).told;
    return told >= run.cursor && !other_at(run.cursor, told);
  });
}

void WorkerCore::State::WorkGroups(const SharedKey& key) {
  const auto found = shared_.find(key);
  if (found == shared_.end()) return;
  for (const TaskId task : std::vector<TaskId>(found->second.runs)) {
    const auto run = runs_.find(task);
    if (run == runs_.end() || run->second.groups != key) continue;  // it ended with its followers: what it has to make never fits
    if (IsNeeded(found->second, run->second)) {
      StepGroups(run->second);
    } else {
      EndGroups(task);
    }
    if (!shared_.contains(key)) return;
  }
  if (found->second.followers.empty() && found->second.runs.empty()) shared_.erase(found);
}

// It may always hold one group; more while others leave room. It asks for what was reserved for it, and not for what lanes that come now reserve:
// groups have turned out larger since, and for the difference it would stand in line behind steps that nobody waits for.
void WorkerCore::State::StepGroups(Run& run) {
  if (run.stepping || run.retry_at > now_) return;
  const HolderId holder = GroupsOf(run.task);
  const uint64_t bytes = run.wants > 0 ? run.wants : budget_.Reserved(holder);
  const bool empty = budget_.Held(holder) == 0;
  if (empty && NeverFits(run, bytes)) {
    return FailGroups(SharedKey(*run.groups), run.wants > 0 ? RowTooLarge(run, bytes) : StateTooLarge(run.key, OwnState(run), bytes, run.where));
  }
  if (empty) LowerReserve(run, bytes);
  if (!budget_.Take(holder, bytes, empty ? Budget::Need::kMust : Budget::Need::kAhead)) {
    if (empty) room_freed_ = true;  // Settle makes room for who cannot go on
    if (!IsWaitedFor(run)) return;
    if (run.blocked_at == TimePoint{}) run.blocked_at = now_;
    return WakeAt(run.blocked_at + options_.group_patience);
  }
  run.blocked_at = {};
  StepGroup(run, bytes);
}

void WorkerCore::State::StepGroup(Run& run, uint64_t room) {
  run.retry_at = {};
  run.stepping = true;
  run.room = room;
  run.charged = GroupsOf(run.task);
  const SharedLane& shared = shared_.at(*run.groups);
  StepRun(run, room, shared.kept.size(), CodecFor(shared));
}

void WorkerCore::State::OnGroupStep(Run& run, const StepDone& event) {
  const SharedKey key = *run.groups;
  SharedLane& shared = shared_.at(key);
  for (const BlockToken& block : event.made()) KeepGroup(run, block);
  if (std::holds_alternative<LaneOver>(event.outcome)) shared.end = run.cursor;  // where its last group ends: what was filtered after it is nobody's
  if (const auto* blocked = std::get_if<Blocked>(&event.outcome)) OnGroupBlocked(run, *blocked);
  // The end comes without room: the tail may lie here for long.
  if (event.block() != nullptr && event.block()->info.rows < jobs_.at(run.job).group_rows) StepGroup(run, 0);
  ShareGroups(shared);
  if (const auto* error = std::get_if<Status>(&event.outcome)) return FailGroups(key, *error);
  WorkGroups(key);
}

void WorkerCore::State::KeepGroup(Run& run, const BlockToken& block) {
  Job& job = jobs_.at(run.job);
  job.largest = std::max(job.largest, block.charge);
  run.cursor = block.info.end;
  run.moved = now_;
  run.wants = 0;
  const bool added = shared_.at(*run.groups).kept.try_emplace(block.info.first, KeptGroup{block, run.task}).second;
  if (added) {
    ++ready_blocks_;
  } else {  // another run has made it, too
    Do(ReleaseBlock{block.handle});
    budget_.Give(GroupsOf(run.task), block.charge);
  }
}

// All hear of a group before anybody gets it: what was sent is not told of any more.
void WorkerCore::State::ShareGroups(SharedLane& shared) {
  for (const LaneNo no : shared.followers) TellGroups(shared, lanes_.at(no));
  for (const LaneNo no : shared.followers) SendWanted(shared, lanes_.at(no));
  DropPassed(shared);
}

void WorkerCore::State::OnGroupBlocked(Run& run, const Blocked& blocked) {
  if (blocked.on == Waits::kInput) {
    run.retry_at = now_ + kInputRetry;
    return WakeAt(run.retry_at);
  }
  run.wants = std::max(blocked.bytes, run.room + 1);
  jobs_.at(run.job).largest = std::max(jobs_.at(run.job).largest, run.wants);
}

// No step of it is needed any more; groups that it made stay as long as they are wanted.
void WorkerCore::State::EndGroups(TaskId task) {
  Run& run = runs_.at(task);
  std::erase(shared_.at(*run.groups).runs, task);
  run.groups.reset();
  budget_.Close(GroupsOf(task));
  if (run.stepping) {
    ++abandoned_;
  } else {
    StopRun(task);
  }
}

void WorkerCore::State::FailGroups(const SharedKey& key, const Status& error) {
  for (const LaneNo no : std::set<LaneNo>(shared_.at(key).followers)) {
    if (OpenLane* lane = Find(no)) Fail(*lane, error);
  }
}

bool WorkerCore::State::IsWaitedFor(const Run& run) const {
  const SharedLane& shared = shared_.at(*run.groups);
  return std::any_of(shared.followers.begin(), shared.followers.end(), [&](LaneNo no) {
    const OpenLane& lane = lanes_.at(no);
    return (lane.waits || lane.open.urgent) && lane.told >= run.cursor;
  });
}

// Followers were told of it: who asks for it opens the lane again there.
void WorkerCore::State::LetGoOfUnasked(SharedLane& shared) {
  for (auto at = shared.kept.begin(); at != shared.kept.end();) {
    const bool asked =
        std::any_of(shared.followers.begin(), shared.followers.end(), [&](LaneNo no) { return lanes_.at(no).want.contains(at->first); });
    at = asked ? std::next(at) : LetGo(shared, at);
  }
}

// Its followers were told of it and ask for another first, which may be the one whose step waits for this.
void WorkerCore::State::LetLargeGroupGiveWay(TaskId made_by) {
  const auto run = runs_.find(made_by);
  const TimePoint patience = run == runs_.end() ? now_ : run->second.moved + options_.group_patience;
  if (now_ < patience) return WakeAt(patience);
  for (auto& [key, shared] : shared_) {
    const bool its = std::any_of(shared.kept.begin(), shared.kept.end(), [&](const auto& item) { return item.second.made_by == made_by; });
    if (its) LetGoOfUnasked(shared);
  }
}

// A run may always make the group that is waited for: nobody goes on without it, and so nobody asks for those that fill the memory.
void WorkerCore::State::MakeRoomForGroups() {
  std::vector<TaskId> waited;
  for (auto& [task, run] : runs_) {
    if (!run.groups || run.blocked_at == TimePoint{}) continue;
    const bool due = run.blocked_at + options_.group_patience <= now_;
    if (due && IsWaitedFor(run)) waited.push_back(task);
    if (due) run.blocked_at = {};
    if (!due) WakeAt(run.blocked_at + options_.group_patience);
  }
  for (const TaskId task : waited) {
    const auto run = runs_.find(task);
    if (run == runs_.end() || !run->second.groups) continue;
    const bool fits_reserve = run->second.wants <= budget_.Reserved(GroupsOf(task));
    for (auto& [key, shared] : shared_) {
      if (!fits_reserve || key == *run->second.groups) LetGoOfUnasked(shared);
    }
    StepGroups(run->second);
  }
}

}  // namespace penstock::worker
