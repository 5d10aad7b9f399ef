// Making the lanes work, and sending what they make.
#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "worker/core_state.h"

namespace penstock::worker {
namespace {

constexpr size_t kEndedStreams = 256;  // a session remembers so many for late credit
constexpr size_t kKnownEnds = 4096;    // a job remembers so many

// Where a lane gets through that holds so much and makes such a block: rounded up, and there may be another as large.
uint64_t EnoughMemory(uint64_t state_bytes, uint64_t block_bytes) { return state_bytes + 2 * std::max(block_bytes, state_bytes / 2); }

std::string InWords(const std::string& where) { return where.empty() ? std::string() : " (" + where + ")"; }

}  // namespace

bool WorkerCore::State::Wants(const OpenLane& lane) const {
  if (lane.open.by_group || lane.phase != OpenLane::Phase::kReading || lane.over) return false;
  if (!lane.ready.empty() && !lane.hurried) return false;
  const Run& run = runs_.at(lane.task);
  return !run.stepping && run.retry_at <= now_;
}

// One step at a time a lane, and only one block ahead of what credit lets go, unless it is hurried. Where there is no room it is stepped once
// without: then it says how much it wants, or that there is nothing more to come.
void WorkerCore::State::Work(OpenLane& lane) {
  if (!Wants(lane)) return budget_.LeaveLine(HolderOf(lane.no));
  Run& run = runs_.at(lane.task);
  const LaneNo no = lane.no;
  const uint64_t bytes = run.wants > 0 ? run.wants : lane.reserve;
  if (TakeRoom(lane, run, bytes)) return Step(lane, run, bytes);
  if (Find(no) == nullptr) return;
  if (budget_.ShortOf() > 0) room_freed_ = true;  // Settle makes room for who cannot go on
  if (std::exchange(run.peeked, true)) return;
  budget_.LeaveLine(HolderOf(no));
  Step(lane, run, 0);
}

void WorkerCore::State::Step(OpenLane& lane, Run& run, uint64_t room) {
  run.retry_at = {};
  run.stepping = true;
  run.room = room;
  run.charged = HolderOf(lane.no);
  run.consumer = lane.consumer();
  const uint64_t priority = consumers_.at(run.consumer).bytes;
  Charge(run.consumer, room, 0);
  StepRun(run, room, priority, CodecFor(lane));
}

void WorkerCore::State::StepRun(Run& run, uint64_t room, uint64_t priority, PackCodec codec) {
  if (codec != PackCodec::kNone && !std::exchange(packs_, true)) budget_.Shrink(options_.pack_memory);
  Do(StepLane{run.task, room, priority, codec});
}

PackCodec WorkerCore::State::CodecFor(const OpenLane& lane) const {
  const SessionState& session = sessions_.at(lane.session);
  if (!session.over_tcp) return PackCodec::kNone;
  switch (lane.open.compression) {
    case WireCompression::kLz4: return PackCodec::kLz4;
    case WireCompression::kZstd: return PackCodec::kZstd;
    case WireCompression::kAuto: return session.codec;
    case WireCompression::kNone:
    case WireCompression::kUnknown: break;
  }
  return PackCodec::kNone;
}

// Ranks go in step: where one of them is behind a slow link, the others wait for it.
PackCodec WorkerCore::State::CodecFor(const SharedLane& shared) const {
  for (const LaneNo no : shared.followers) {
    if (const PackCodec codec = CodecFor(lanes_.at(no)); codec != PackCodec::kNone) return codec;
  }
  return PackCodec::kNone;
}

// Reserved for what its operators may come to hold, as those of other lanes did; but not against a row that is there.
void WorkerCore::State::LowerReserve(Run& run, uint64_t bytes) {
  if (bytes + budget_.Reserved(HolderOf(run.task)) <= budget_.capacity()) return;
  run.state_bytes = OwnState(run);
  budget_.Lower(HolderOf(run.task), run.state_bytes);
}

Status WorkerCore::State::RowTooLarge(const Run& run, uint64_t bytes) const {
  const Seq seq = run.cursor.seq;
  const uint64_t held = OwnState(run);
  const std::string row = "the row at seq " + std::to_string(seq) + " takes " + std::to_string(bytes) + " bytes";
  return Status(Code::kTooLarge, ToString(run.key) + ": " + row + ", and its operators hold " + std::to_string(held) + InWords(run.where) +
                                     ", which together never fit this worker's budget of " + std::to_string(budget_.capacity()) +
                                     "; start it with --memory of at least " + std::to_string(EnoughMemory(held, bytes)))
      .With("lane", ToString(run.key))
      .With("seq", static_cast<int64_t>(seq))
      .With("bytes", static_cast<int64_t>(bytes));
}

Status WorkerCore::State::StateTooLarge(const LaneKey& key, uint64_t state_bytes, uint64_t block_target, const std::string& where) const {
  return Status(Code::kTooLarge, ToString(key) + ": its operators hold " + std::to_string(state_bytes) +
                                     " bytes (shuffle buffers, open files, rows of user code)" + InWords(where) +
                                     ", which never fit this worker's budget of " + std::to_string(budget_.capacity()) +
                                     "; start it with --memory of at least " + std::to_string(EnoughMemory(state_bytes, block_target)))
      .With("lane", int64_t{Raw(key.lane)});
}

bool WorkerCore::State::TakeRoom(OpenLane& lane, Run& run, uint64_t bytes) {
  const HolderId holder = HolderOf(lane.no);
  const Job& job = jobs_.at(lane.open.job);
  const auto must = Planted(Bug::kNoReserve) ? Budget::Need::kAhead : Budget::Need::kMust;
  if (budget_.Held(holder) == 0) {
    if (bytes > lane.reserve && NeverFits(run, bytes)) {
      Fail(lane, RowTooLarge(run, bytes));
      return false;
    }
    LowerReserve(run, bytes);
    return budget_.Take(holder, bytes, must);
  }
  // A block of it is still on its way into the socket. Reading ahead is for who reads; who does not gets the rest of a group, of which its loop
  // cannot take a part.
  const bool in_group = lane.rows % job.group_rows != 0;
  if (lane.waits) return budget_.Take(holder, bytes, must);
  const bool will_be_taken = lane.credit > 0 && (consumers_.at(lane.consumer()).reads || in_group);
  if (lane.hurried || will_be_taken) return budget_.Take(holder, bytes, Budget::Need::kAhead);
  budget_.LeaveLine(holder);
  return budget_.TakeReserved(holder, bytes);
}

void WorkerCore::State::Handle(const StepDone& event) {
  const auto found = runs_.find(event.task);
  if (found == runs_.end() || !found->second.stepping) return;
  Run& run = found->second;
  run.stepping = false;
  Charge(run.consumer, 0, run.room);
  budget_.Force(HolderOf(run.task), event.state_bytes);
  run.where = event.where;
  if (const auto bytes = RowThatNeverFits(run, event.outcome)) {
    if (run.room > 0) budget_.Give(run.charged, run.room);
    room_freed_ = true;
    return Fail(lanes_.at(run.lane), RowTooLarge(run, *bytes));
  }
  const bool outgrew = Outgrew(run, event.state_bytes);
  Job& job = jobs_.at(run.job);
  // Lanes that are opened later reserve what this one turned out to hold, if it can go on with that.
  if (!HoldsTooMuch(job, event.state_bytes)) job.state_seen = std::max(job.state_seen, event.state_bytes);
  const BlockToken* block = event.block();
  uint64_t charge = 0;
  for (const BlockToken& made : event.made()) charge += made.charge;
  const uint64_t kept = run.wanted() && !outgrew ? std::min(charge, run.room) : 0;
  if (run.room > kept) budget_.Give(run.charged, run.room - kept);
  room_freed_ = true;
  run.left = run.left && !outgrew;
  if (!run.wanted()) return OnAbandoned(run, event);
  if (outgrew) return OnOutgrown(run, event);
  if (run.groups) return OnGroupStep(run, event);
  if (block != nullptr) {
    OnBlock(run, *block);
  } else if (const auto* blocked = std::get_if<Blocked>(&event.outcome)) {
    OnBlocked(run, *blocked);
  } else if (const auto* over = std::get_if<LaneOver>(&event.outcome)) {
    OnOver(run, *over);
  } else {
    OnStepFailed(run, std::get<Status>(event.outcome));
  }
}

// It is told by its own lane at once: others may give way to it, and it would come to this.
std::optional<uint64_t> WorkerCore::State::RowThatNeverFits(const Run& run, const StepOutcome& outcome) const {
  const auto* blocked = std::get_if<Blocked>(&outcome);
  if (blocked == nullptr || blocked->on != Waits::kBudget || !NeverFits(run, blocked->bytes)) return std::nullopt;
  if (!run.wanted() || run.groups || !lanes_.contains(run.lane)) return std::nullopt;
  if (blocked->bytes <= lanes_.at(run.lane).reserve) return std::nullopt;
  return blocked->bytes;
}

// Its operators hold more than they declared, and the budget is over by more than a block: with all who wait for room, nobody would go on.
bool WorkerCore::State::Outgrew(const Run& run, uint64_t state_bytes) const {
  return state_bytes > run.state_bytes && budget_.committed() > budget_.capacity() + block_target_;
}

// It is opened again where, or when, what it holds fits; if that is never, it is told so.
void WorkerCore::State::OnOutgrown(Run& run, const StepDone& event) {
  for (const BlockToken& block : event.made()) Do(ReleaseBlock{block.handle});
  const Job& job = jobs_.at(run.job);
  const Status busy(Code::kBusy, ToString(run.key) + ": its operators hold " + std::to_string(event.state_bytes) +
                                     " bytes (shuffle buffers, open files, rows of user code), which do not fit this worker's budget of " +
                                     std::to_string(budget_.capacity()) + " beside other lanes now; open it elsewhere or later");
  const bool never = HoldsTooMuch(job, event.state_bytes);
  const Status why = never ? StateTooLarge(run.key, event.state_bytes, job.block_target, event.where) : busy;
  if (run.groups) return FailGroups(SharedKey(*run.groups), why);
  OnStepFailed(run, why);
}

void WorkerCore::State::OnAbandoned(Run& run, const StepDone& event) {
  const auto* over = std::get_if<LaneOver>(&event.outcome);
  for (const BlockToken& block : event.made()) {
    Do(ReleaseBlock{block.handle});
    run.cursor = block.info.end;
  }
  if (over != nullptr) run.cursor = over->end;
  --abandoned_;
  const JobId job = run.job;
  const bool has_more = !std::holds_alternative<Status>(event.outcome) && !(over != nullptr && over->lane_ended);
  if (run.left && has_more) {
    Park(run);
  } else {
    StopRun(run.task);
  }
  ForgetIfDone(job);
}

void WorkerCore::State::OnBlock(Run& run, const BlockToken& block) {
  Job& job = jobs_.at(run.job);
  job.largest = std::max(job.largest, block.charge);
  run.cursor = block.info.end;
  run.moved = now_;
  run.wants = 0;
  run.peeked = false;
  const LaneNo no = run.lane;
  OpenLane& lane = lanes_.at(no);
  if (block.info.end <= lane.open.range.from) return PassOver(lane, block);
  if (lane.ready.empty()) lane.ready_since = now_;
  lane.ready.push_back(block);
  ++ready_blocks_;
  Charge(lane.consumer(), block.info.bytes, 0);
  Flush(lane);
  if (OpenLane* still = Find(no)) Work(*still);
}

// Of rows before the lane's range, which the run was left in.
void WorkerCore::State::PassOver(OpenLane& lane, const BlockToken& block) {
  Do(ReleaseBlock{block.handle});
  budget_.Give(HolderOf(lane.no), block.charge);
  Work(lane);
}

void WorkerCore::State::OnBlocked(Run& run, const Blocked& blocked) {
  OpenLane& lane = lanes_.at(run.lane);
  if (blocked.on == Waits::kInput) {
    run.retry_at = now_ + kInputRetry;
    return WakeAt(run.retry_at);
  }
  // More than it was given, whatever it says: asking for the same again would never end.
  run.wants = std::max(blocked.bytes, run.room + 1);
  jobs_.at(run.job).largest = std::max(jobs_.at(run.job).largest, run.wants);
  Work(lane);
}

void WorkerCore::State::OnOver(Run& run, const LaneOver& over) {
  OpenLane& lane = lanes_.at(run.lane);
  run.cursor = over.end;
  run.moved = now_;
  run.lane = {};
  lane.task = {};
  lane.over = {.end = std::max(over.end, lane.open.range.from), .lane_ended = over.lane_ended};  // it may have ended before the range
  if (lane.ranged() && over.lane_ended) {
    auto& ended = jobs_.at(run.job).ended;
    if (ended.size() >= kKnownEnds) ended.erase(ended.begin());
    ended[run.key] = over.end;
  }
  if (lane.ranged() && !over.lane_ended) {
    Park(run);
  } else {
    StopRun(run.task);
  }
  Flush(lane);
}

void WorkerCore::State::OnStepFailed(Run& run, const Status& error) { Fail(lanes_.at(run.lane), error); }

// Sends what credit covers, and says how large the next block is where it does not. Ends the lane after its last.
void WorkerCore::State::Flush(OpenLane& lane) {
  while (!lane.ready.empty()) {
    const BlockToken& block = lane.ready.front();
    if (lane.credit < block.info.bytes) return TellNeed(lane, block.info);
    const bool lent = Lend(lane, HolderOf(lane.no), block.charge);
    if (!lent && !IsWorthACopy(lane)) return;
    Send(lane, block, lent);
    lane.ready.pop_front();
    lane.ready_since = now_;
  }
  if (lane.over) EndLane(lane);
}

void WorkerCore::State::TellNeed(OpenLane& lane, const BlockInfo& info) {
  if (std::exchange(lane.told, info.end) == info.end) return;
  Do(SendToConsumer{lane.session, lane.stream, msg::Groups{.groups = {{info.first, info.end, info.rows, info.bytes, info.digest}}}});
}

// Who shares memory and does not read is not sent copies ahead: only a lane's first block, and the rest of a group, of which its loop cannot
// take a part.
bool WorkerCore::State::IsWorthACopy(const OpenLane& lane) const {
  const Consumer& consumer = consumers_.at(lane.consumer());
  const bool in_group = lane.rows % jobs_.at(lane.open.job).group_rows != 0;
  return consumer.loan == 0 || consumer.reads || lane.uncredited == 0 || lane.waits || in_group;
}

void WorkerCore::State::Send(OpenLane& lane, const BlockToken& block, bool lent) {
  const HolderId charged = lent ? LoanOf(consumers_.at(lane.consumer())) : HolderOf(lane.no);
  Do(SendBlock{lane.session, lane.stream, block.handle, lent ? Handover::kLend : Handover::kCopy});
  sent_.emplace(block.handle, SentBlock{charged, block.charge, lane.consumer(), lane.no, lent, {}});
  --ready_blocks_;
  lane.credit -= block.info.bytes;
  lane.uncredited += block.info.bytes;
  lane.waits = false;
  lane.open.urgent = false;  // it has what it waited for
  lane.rows += block.info.rows;
  rows_ += block.info.rows;
  bytes_ += block.info.bytes;
}

// Not while a lane waits for room: what is lent comes home then, and is copied until there is enough.
bool WorkerCore::State::Lend(const OpenLane& lane, HolderId from, uint64_t charge) {
  Consumer& consumer = consumers_.at(lane.consumer());
  if (consumer.loan == 0 || !wait_room_.empty()) return false;
  const uint64_t first = kFirstLent * std::max(charge, lane.reserve);
  const uint64_t share = budget_.ahead_share() / std::max(jobs_.at(consumer.job).consumers, 1U);
  if (consumer.lent + charge > (consumer.reads ? std::max(share, first) : first)) return false;
  if (!budget_.MoveAhead(from, LoanOf(consumer), charge)) return false;
  consumer.lent += charge;
  return true;
}

void WorkerCore::State::EndLane(OpenLane& lane) {
  Do(SendToConsumer{lane.session, lane.stream, msg::LaneEnded{lane.over->end, lane.over->lane_ended}});
  auto& ended = sessions_.at(lane.session).ended;
  if (lane.uncredited > 0) {
    ended[lane.stream] = {lane.open.consumer, lane.uncredited};
    lane.uncredited = 0;  // still on the consumer's account
  }
  if (ended.size() > kEndedStreams) {
    const auto& [consumer, bytes] = ended.begin()->second;
    Charge({lane.session, consumer}, 0, bytes);
    ended.erase(ended.begin());
  }
  CloseLane(lane.no);
}

void WorkerCore::State::StopRun(TaskId task) {
  const Run& run = runs_.at(task);
  const auto ranged = ranged_runs_.find({run.job, run.key});
  if (ranged != ranged_runs_.end()) {
    std::erase(ranged->second, task);
    if (ranged->second.empty()) ranged_runs_.erase(ranged);
    runs_moved_ = true;
  }
  Do(StopLane{task});
  budget_.Force(HolderOf(task), 0);
  budget_.Close(HolderOf(task));
  --jobs_.at(run.job).runs;
  runs_.erase(task);
  room_freed_ = true;
}

// Blocks that were never sent are made again where the lane is opened next.
void WorkerCore::State::Discard(OpenLane& lane) {
  for (const BlockToken& block : lane.ready) {
    Do(ReleaseBlock{block.handle});
    budget_.Give(HolderOf(lane.no), block.charge);
    Charge(lane.consumer(), 0, block.info.bytes);
    --ready_blocks_;
  }
  lane.ready.clear();
}

// Those in line for room, as far as it goes; and room for the one that cannot go on without.
void WorkerCore::State::ServeLine() {
  while (const auto next = budget_.Next()) {
    const auto run = IsOfGroups(*next) ? runs_.find(TaskId{Raw(*next) / 4}) : runs_.end();
    OpenLane* lane = IsOfGroups(*next) ? nullptr : Find(LaneNo{Raw(*next) / 4});
    if (lane != nullptr) {
      Work(*lane);
    } else if (run != runs_.end() && run->second.groups && !run->second.stepping && run->second.retry_at <= now_) {
      StepGroups(run->second);
    } else {
      budget_.LeaveLine(*next);
    }
  }
  const uint64_t lacking = budget_.ShortOf();
  if (lacking == 0) return LetLargeGiveWay();
  MakeRoom(lacking + budget_.capacity() - budget_.committed(), WhoseStep(*budget_.FirstMust()), Pressing::kStep);
}

// One block larger than a reserve is out at a time, and another step waits for that. Where its consumer does not take it, for it has no memory for it
// or wants another first, the lane is made again later. Who has memory has given credit by then.
void WorkerCore::State::LetLargeGiveWay() {
  const auto holder = budget_.InTheWay();
  if (!holder) return;
  if (IsOfGroups(*holder)) return LetLargeGroupGiveWay(TaskId{Raw(*holder) / 4});
  OpenLane* lane = Find(LaneNo{Raw(*holder) / 4});
  if (lane == nullptr || lane->ready.empty()) return;
  const TimePoint patience = lane->ready_since + options_.group_patience;
  if (now_ < patience) return WakeAt(patience);
  Refuse(*lane, Status(Code::kBusy, "gave way to a lane whose block is as large, and whose consumer waits for it; open it elsewhere or later"));
}

// The lane that a step is for; of one by group, that of any follower.
const OpenLane* WorkerCore::State::WhoseStep(HolderId holder) {
  if (!IsOfGroups(holder)) return Find(LaneNo{Raw(holder) / 4});
  const Run& run = runs_.at(TaskId{Raw(holder) / 4});
  const std::set<LaneNo>& followers = shared_.at(*run.groups).followers;
  return followers.empty() ? nullptr : Find(*followers.begin());
}

}  // namespace penstock::worker
