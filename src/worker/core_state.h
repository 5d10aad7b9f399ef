// The inside of WorkerCore: its tables and the moves on them. core.cc takes events and keeps in touch with the dispatcher; core_opens.cc decides
// which lanes come in and which give way; core_runs.cc makes the lanes work and sends their blocks;
// core_groups.cc does both for lanes that several consumers follow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/budget.h"
#include "worker/core.h"

namespace penstock::worker {

enum class LaneNo : uint64_t {};  // an open lane of this worker; 0 is none

inline constexpr uint64_t kFirstLent = 2;  // blocks, to a consumer that has let go of none: its loop may hold one while it waits for the next

// What one reader on one session does here.
struct Consumer {
  JobId job{};  // of its lanes
  uint32_t lanes = 0;
  uint64_t bytes = 0;      // ready or sent, and no credit came back yet; rooms of steps under way included
  bool reads = false;      // it lets go of blocks, or waits for one
  TimePoint read_at{};     // when it last did
  uint64_t loan = 0;       // names the holder of what it is lent; 0: it has no lane that lends
  uint64_t lent = 0;       // bytes, also of lanes that are closed
  TimePoint idle_since{};  // without lanes
};
using ConsumerKey = std::pair<SessionId, ConsumerId>;

// A lane that a consumer has open.
struct OpenLane {
  enum class Phase : uint8_t { kJob, kRoom, kRange, kReading };  // waits for the job's plan, memory, another run; or has its run
  LaneNo no{};
  SessionId session{};
  StreamId stream{};
  msg::Open open{};
  Phase phase = Phase::kJob;
  TimePoint since{};  // in this phase
  TimePoint opened_at{};
  TaskId task{};            // kReading
  uint64_t credit = 0;      // bytes that may be sent
  uint64_t uncredited = 0;  // sent, and no credit came back
  bool waits = false;       // its loop said so, and no block was sent since; by group: and none was told of
  bool hurried = false;     // its range is made to the end without waiting for its consumer: another waits for what comes after
  uint64_t rows = 0;        // sent
  uint64_t reserve = 0;     // of a block, when it began to read
  std::deque<BlockToken> ready{};
  TimePoint ready_since{};         // the first of them
  std::optional<LaneOver> over{};  // all is produced
  Cursor told{};                   // what was told of: a block that waits for credit, or groups
  // Of a lane by group.
  bool end_told = false;    // and the end
  Cursor passed{};          // what is before it, and not in `want`, is not wanted
  std::set<Cursor> want{};  // to send, once they are there

  ConsumerKey consumer() const { return {session, open.consumer}; }
  bool ranged() const { return open.range.to != kLaneEnd; }
};

// Bounded, so that no peer can make it wrap.
inline uint64_t AddCredit(uint64_t credit, uint64_t bytes) { return std::min(uint64_t{1} << 60, credit) + std::min(uint64_t{1} << 60, bytes); }

// What names a lane by group: those who take no packed blocks do not share with those who do.
using SharedKey = std::tuple<JobId, Generation, LaneKey, bool>;

inline bool TakesPacked(WireCompression compression) { return compression != WireCompression::kUnknown && compression != WireCompression::kNone; }

constexpr auto kInputRetry = std::chrono::milliseconds(1);  // a run whose file is not read yet asks again

// A lane's rows being made.
struct Run {
  TaskId task{};
  JobId job{};
  LaneKey key{};
  Cursor cursor{};  // after the last block
  Seq to = kLaneEnd;
  LaneNo lane{};  // for whom; none: parked, or abandoned with a step still out
  bool stepping = false;
  uint64_t state_bytes = 0;  // reserved for its operators when it began
  HolderId charged{};        // who pays for the step's room
  ConsumerKey consumer{};    // for whom the step is
  uint64_t room = 0;
  uint64_t wants = 0;   // an allocation that the last room did not cover
  std::string where{};  // it was when it wanted that, or held much
  bool peeked = false;  // stepped without room since its last block
  TimePoint moved{};
  TimePoint retry_at{};               // after waiting for input
  std::optional<SharedKey> groups{};  // for whom, where lanes are by group
  TimePoint blocked_at{};             // since when a loop waits for it, and it for room
  bool left = false;                  // by its consumer, within its range: what comes behind that may go on with it

  bool wanted() const { return lane != LaneNo{} || groups.has_value(); }
  bool parked() const { return !wanted() && !stepping; }
};

struct KeptGroup {
  BlockToken block;
  TaskId made_by{};  // and charged to
};

// A lane that several consumers follow, group by group (docs/design/strict.md).
struct SharedLane {
  std::map<Cursor, KeptGroup> kept;  // by where they begin
  std::vector<TaskId> runs;          // more than one only where a follower began behind the others
  std::set<LaneNo> followers;
  std::optional<Cursor> end;  // of the lane
};

struct Job {
  bool known = false;
  bool fetching = false;
  bool finished = false;  // to be forgotten when nothing of it is left
  Generation generation{};
  uint64_t group_rows = 1;
  uint64_t state_bytes = 0;  // of a lane's operators, as declared
  uint64_t state_seen = 0;   // as a lane turned out to hold that could go on
  uint64_t block_target = 0;
  uint64_t largest = 0;    // allocation seen
  uint32_t lanes = 0;      // open
  uint32_t consumers = 0;  // that have lanes open
  uint32_t runs = 0;
  std::map<LaneKey, Cursor> ended;  // of lanes read in ranges: where they end
};

struct SessionState {
  bool shares_memory = false;
  bool over_tcp = false;
  PackCodec codec = PackCodec::kNone;  // for compression=auto
  std::map<StreamId, LaneNo> lanes;
  std::map<StreamId, std::pair<ConsumerId, uint64_t>> ended;  // credit still comes for them: whose they were, bytes
};

struct SentBlock {
  HolderId charged{};
  uint64_t charge = 0;
  ConsumerKey consumer;
  LaneNo lane{};
  bool lent = false;
  TaskId made_by{};  // of a group
};

class WorkerCore::State {
 public:
  explicit State(CoreOptions options);
  void On(TimePoint now, const Event& event, Actions& out);
  CoreStats stats() const;

 private:
  // core.cc: events
  void Handle(const SessionOpened& event);
  void Handle(const LinkJudged& event);
  void Handle(const SessionClosed& event);
  void Handle(const ConsumerSaid& event);
  void Handle(const JobKnown& event);
  void Handle(const JobFailed& event);
  void Handle(const StepDone& event);
  void Handle(const BlockFreed& event);
  void Handle(const DispatcherUp& event);
  void Handle(const DispatcherDown& event);
  void Handle(const DispatcherSaid& event);
  void Handle(const DrainAsked& event);
  void Handle(const TimerFired& event);
  void OnCredit(SessionId session, StreamId stream, const msg::Credit& credit);
  std::vector<LaneNo> WaitingForJob(JobId job) const;
  void StartsReading(const ConsumerKey& key);
  void NoticeSleepers();
  void WorkForReaders();
  void OnBeatReply(const msg::WorkerBeatReply& reply);
  void SendHello();
  void SendBeat();
  uint32_t LanesToTell() const;
  void Drain();
  void ExitIfDrained();
  void ForgetIfDone(JobId job);
  void WakeAt(TimePoint at);
  void WakeForWaiting();
  void Settle();

  // core_opens.cc: which lanes come in, and which give way
  void OnOpen(SessionId session, StreamId stream, const msg::Open& open);
  void Fetch(JobId id, Job& job);
  void Admit(OpenLane& lane);
  bool CheckFits(OpenLane& lane, const Job& job);
  bool AnsweredByKnownEnd(OpenLane& lane, const Job& job);
  Run* RunBefore(const OpenLane& lane);
  bool WaitsForRun(OpenLane& lane);
  bool WaitsForEarlier(OpenLane& lane);
  void Hurry(LaneNo no);
  Run* ParkedFor(const OpenLane& lane);
  Run* OverdueBefore(const OpenLane& lane);
  void Begin(OpenLane& lane, Run* parked);
  bool IsNeeded(const OpenLane& lane) const;
  void WaitForRoom(OpenLane& lane, uint64_t bytes);
  // For a lane that its consumer has no other but; one that a loop waits for; a step that cannot be made otherwise.
  enum class Pressing : uint8_t { kOnly, kWaitedFor, kStep };
  void MakeRoom(uint64_t bytes, const OpenLane* whose, Pressing pressing);
  bool DropOldestParked();
  OpenLane* NextToGiveWay(const OpenLane* whose, Pressing pressing);
  void AdmitAll(const std::set<LaneNo>& waiting);
  void Enter(OpenLane& lane, OpenLane::Phase phase);
  void Refuse(OpenLane& lane, Status why);
  void Fail(OpenLane& lane, Status why);
  enum class ItsRun : uint8_t { kMayGoOn, kIsBroken };
  void CloseLane(LaneNo no, ItsRun its_run = ItsRun::kMayGoOn);
  void Leave(Run& run);
  void Park(Run& run);
  void JoinConsumer(const OpenLane& lane);
  void LeaveConsumer(const OpenLane& lane);
  void ForgetIdleConsumers();
  uint64_t ReserveOf(const Job& job) const;
  uint64_t StateReserveOf(const Job& job) const;

  // core_runs.cc: making and sending blocks
  PackCodec CodecFor(const OpenLane& lane) const;
  PackCodec CodecFor(const SharedLane& shared) const;
  void StepRun(Run& run, uint64_t room, uint64_t priority, PackCodec codec);
  bool Wants(const OpenLane& lane) const;
  void Work(OpenLane& lane);
  bool TakeRoom(OpenLane& lane, Run& run, uint64_t bytes);
  void Step(OpenLane& lane, Run& run, uint64_t room);
  uint64_t OwnState(const Run& run) const { return std::max(jobs_.at(run.job).state_bytes, budget_.Held(HolderOf(run.task))); }
  bool NeverFits(const Run& run, uint64_t bytes) const { return bytes + OwnState(run) > budget_.capacity(); }
  bool HoldsTooMuch(const Job& job, uint64_t state_bytes) const { return state_bytes + job.block_target > budget_.capacity(); }
  void LowerReserve(Run& run, uint64_t bytes);
  uint64_t StateCap() const { return budget_.capacity() - std::min(block_target_, budget_.capacity()); }  // of a lane beside one block
  std::optional<uint64_t> RowThatNeverFits(const Run& run, const StepOutcome& outcome) const;
  bool Outgrew(const Run& run, uint64_t state_bytes) const;
  void OnOutgrown(Run& run, const StepDone& event);
  Status RowTooLarge(const Run& run, uint64_t bytes) const;
  Status StateTooLarge(const LaneKey& key, uint64_t state_bytes, uint64_t block_target, const std::string& where) const;
  void OnBlock(Run& run, const BlockToken& block);
  void PassOver(OpenLane& lane, const BlockToken& block);
  void OnBlocked(Run& run, const Blocked& blocked);
  void OnOver(Run& run, const LaneOver& over);
  void OnStepFailed(Run& run, const Status& error);
  void OnAbandoned(Run& run, const StepDone& event);
  void Flush(OpenLane& lane);
  void TellNeed(OpenLane& lane, const BlockInfo& info);
  bool IsWorthACopy(const OpenLane& lane) const;
  void Send(OpenLane& lane, const BlockToken& block, bool lent);
  bool Lend(const OpenLane& lane, HolderId from, uint64_t charge);
  void EndLane(OpenLane& lane);
  void StopRun(TaskId task);
  void Discard(OpenLane& lane);
  void ServeLine();
  void LetLargeGiveWay();
  const OpenLane* WhoseStep(HolderId holder);

  // core_groups.cc: lanes by group
  static SharedKey SharedKeyOf(const OpenLane& lane) {
    return {lane.open.job, lane.open.generation, lane.open.range.lane, TakesPacked(lane.open.compression)};
  }
  Cursor Reach(const SharedLane& shared, Cursor from) const;
  bool Served(const SharedLane& shared, Cursor from) const;
  void AdmitFollower(OpenLane& lane);
  void OnTake(OpenLane& lane, const msg::Take& take);
  void TellGroups(const SharedLane& shared, OpenLane& lane);
  void SendWanted(SharedLane& shared, OpenLane& lane);
  bool AnotherWants(const SharedLane& shared, const OpenLane& lane, Cursor group) const;
  void DropPassed(SharedLane& shared);
  std::map<Cursor, KeptGroup>::iterator LetGo(SharedLane& shared, std::map<Cursor, KeptGroup>::iterator at);
  void LeaveShared(const OpenLane& lane);
  void StartGroups(SharedLane& shared, const OpenLane& lane, Cursor from);
  bool IsNeeded(const SharedLane& shared, const Run& run) const;
  void WorkGroups(const SharedKey& key);
  void StepGroups(Run& run);
  void StepGroup(Run& run, uint64_t room);
  void OnGroupStep(Run& run, const StepDone& event);
  void KeepGroup(Run& run, const BlockToken& block);
  void ShareGroups(SharedLane& shared);
  void OnGroupBlocked(Run& run, const Blocked& blocked);
  void EndGroups(TaskId task);
  void FailGroups(const SharedKey& key, const Status& error);
  bool IsWaitedFor(const Run& run) const;
  void LetGoOfUnasked(SharedLane& shared);
  void LetLargeGroupGiveWay(TaskId made_by);
  void MakeRoomForGroups();

  void OpenLoan(const OpenLane& lane);
  void Charge(const ConsumerKey& consumer, uint64_t more, uint64_t less);
  void SawReading(const ConsumerKey& consumer, bool let_go);

  OpenLane* Find(LaneNo no);
  // Who is charged: an open lane for its block on the way, a run for its operators' state, a consumer for what it is lent;
  // a run that several follow for the groups it keeps.
  static HolderId HolderOf(LaneNo no) { return HolderId{Raw(no) * 4}; }
  static HolderId HolderOf(TaskId task) { return HolderId{Raw(task) * 4 + 1}; }
  static HolderId GroupsOf(TaskId task) { return HolderId{Raw(task) * 4 + 3}; }
  static bool IsOfGroups(HolderId holder) { return Raw(holder) % 4 == 3; }
  static HolderId LoanOf(const Consumer& consumer) { return HolderId{consumer.loan * 4 + 2}; }
  template <class A>
  void Do(A action) {
    out_->push_back(std::move(action));
  }

  CoreOptions options_;
  uint64_t block_cap_;
  uint64_t block_target_;
  Budget budget_;
  TimePoint now_;
  Actions* out_ = nullptr;

  uint64_t next_lane_ = 1;
  uint64_t next_task_ = 1;
  uint64_t next_loan_ = 1;
  std::map<LaneNo, OpenLane> lanes_;  // in the order they were opened
  std::set<LaneNo> wait_room_;
  std::set<LaneNo> wait_range_;
  std::map<TaskId, Run> runs_;
  std::map<std::pair<JobId, LaneKey>, std::vector<TaskId>> ranged_runs_;
  std::map<SharedKey, SharedLane> shared_;
  std::unordered_map<JobId, Job> jobs_;
  std::unordered_map<SessionId, SessionState> sessions_;
  std::map<ConsumerKey, Consumer> consumers_;
  std::unordered_map<BlockHandle, SentBlock> sent_;
  uint64_t ready_blocks_ = 0;
  uint32_t abandoned_ = 0;  // runs whose lane is gone and whose last step is still out
  std::set<ConsumerKey> began_reading_;
  bool room_freed_ = false;  // what happened in this event that others wait for
  bool runs_moved_ = false;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
  bool packs_ = false;  // the memory for it is taken

  bool dispatcher_up_ = false;
  std::optional<WorkerId> worker_;
  TimePoint beat_at_;
  uint32_t most_lanes_ = 0;  // that were open at one time since the last beat…
  uint32_t told_lanes_ = 0;  // …and what that said
  std::optional<TimePoint> drain_until_;
  bool exiting_ = false;
  std::optional<TimePoint> wake_at_;
};

}  // namespace penstock::worker
