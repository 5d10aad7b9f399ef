// The inside of DispatcherCore, spread over core.cc (events, writes), restore.cc, datasets.cc, joins.cc, seats.cc, beats.cc, jobs.cc,
// restores.cc, gathers.cc, workers.cc and status.cc.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dispatcher/core.h"
#include "dispatcher/settle.h"
#include "dispatcher/state.h"
#include "plan/position.h"

namespace penstock::dispatcher {

class DispatcherCore::Impl {
 public:
  explicit Impl(CoreOptions options) : options_(std::move(options)), workers_version_((Raw(options_.term) << 32) + 1) {}

  Status Restore(TimePoint now, const Snapshot& stored);
  void On(TimePoint now, const Event& event, Actions& out);
  Snapshot TakeSnapshot() const;
  const CoreCounts& counts() const { return counts_; }
  bool Quiet() const;
  JobCounts CountJobs() const;
  std::string JobName(JobId job) const;

 private:
  struct PendingJoin {
    SessionId session{};
    RequestId request{};
    msg::Join join;
    JobId job{};  // a listing
  };
  // A job before its inputs are known.
  struct Listing {
    Job job;
    TimePoint since;
    std::optional<AskId> ask;
    WorkerId worker{};         // who was asked
    std::set<WorkerId> tried;  // and failed
    Status last_error;
  };

  // One member's word in a restore.
  struct Recruit {
    SessionId session{};
    RequestId request{};
    msg::Restore restore;
    std::optional<Position> state;
  };
  // Those who restore a job together. Not stored: they say it again.
  struct Cohort {
    uint64_t attempt = 0;
    uint32_t consumers = 0;
    bool rebuild = false;
    TimePoint since;
    std::map<ConsumerId, Recruit> recruits;
  };
  // A position that is being saved. Not stored: whoever asked asks again.
  struct Gather {
    JobId job{};
    SessionId session{};
    RequestId request{};
    ConsumerId asker{};
    uint64_t tag = 0;
    TimePoint until;                            // the slowest consumer comes to the step, and answers
    History done{};                             // when the question came
    std::vector<Position> now{};                // of those who have answered…
    std::vector<Position> at{};                 // …and at the step
    std::map<ConsumerId, SessionId> waiting{};  // who has not, and where it was asked
  };

  // core.cc
  void Handle(const PeerMessage& event);
  void Handle(const SessionClosed& event);
  void Handle(const Answered& event);
  void Handle(const TimerFired&);
  void ForgiveSilence();
  void CollectUnused();
  void Reply(SessionId session, RequestId request, Message message);
  void Fail(SessionId session, RequestId request, Status error);
  void Log(std::string_view event, LogFields fields, LogLevel level = LogLevel::kInfo);
  void Put(std::string key, std::optional<std::string> value);
  void Settle(Job& job);
  void Record(Job& job, const Changes& changes);
  static void NoteStored(Job& job, Consumer& consumer);
  void SendNews(Job& job);
  void Flush();

  // restore.cc
  Status RestoreOne(const std::string& key, const std::string& value);
  Status RestoreMember(Job& job, const std::string& value);
  void AwaitWorkers();

  // datasets.cc
  void OnMessage(SessionId session, RequestId request, const msg::Register& message);
  void OnMessage(SessionId session, RequestId request, const msg::GetDataset& message);
  void CollectDatasets();

  // joins.cc
  void OnMessage(SessionId session, RequestId request, const msg::Join& message);
  Status CheckJoin(const msg::Join& join) const;
  Job* FindJob(const msg::Join& join);
  Listing* FindListing(const msg::Join& join);
  JobId JobNumbered(uint32_t number) const;
  bool MadeByThisStart(JobId job) const;
  void StartListing(SessionId session, RequestId request, const msg::Join& join);
  void AskForInputs(Listing& listing);
  void OnInputs(Listing& listing, Result<Message> answer);
  void OnListed(JobId id, const msg::Inputs& inputs);
  void FailListing(JobId id, const Status& error, WorkerId worker = {});
  Status CheckTerms(const Job& job, const msg::Join& join) const;
  std::optional<std::string> OutcomeOf(const std::string& name) const;
  std::string WaitsFor(const Job& job, const Consumer& consumer) const;
  void CheckListings();

  // seats.cc
  void JoinReady(const PendingJoin& pending, Job& job);
  void Admit(const PendingJoin& pending, Job& job);
  Status Begin(Job& job, Consumer& consumer, Changes& changes);
  Status CheckKnown(const Job& job, const Consumer& consumer) const;
  void TakeSeat(Job& job, Consumer& consumer, Changes& changes);
  void SendJoined(SessionId session, RequestId request, const Job& job, const Consumer& consumer);

  // beats.cc
  void OnMessage(SessionId session, RequestId request, const msg::Beat& beat);
  void OnMessage(SessionId session, RequestId request, const msg::Leave& leave);
  void ApplyBeat(Job& job, Consumer& consumer, const msg::Beat& beat, Changes& changes);
  void NoteDelivered(Job& job, const Consumer& consumer, const msg::Beat& beat, Changes& changes);
  void NoteFigures(Job& job, Consumer& consumer, const Figures& had);
  void CountGone(Job& job, const Consumer& gone);
  Job* FindReading(JobId id, ConsumerId consumer, SessionId session, RequestId request);
  void ApplyFinishes(Job& job, Consumer& consumer, const std::vector<msg::Finish>& finished, Changes& changes);
  void CountRepeated(Job& job, uint64_t rows, Changes& changes);
  void GiveBackAll(Job& job, ConsumerId consumer, bool doubtful, Changes& changes);
  void TakeAway(Job& job, Consumer& consumer, Changes& changes);
  void ApplyHolds(Job& job, const Consumer& consumer, const std::vector<msg::Hold>& holds);
  void MoveOn(Job& job, Consumer& consumer, Epoch epoch, Changes& changes);
  msg::BeatReply MakeReply(const Job& job, Consumer& consumer);
  void TellWorkers(Consumer& consumer, msg::BeatReply& reply);
  Duration PauseOfWorkerLists() const;
  void ExpireMembers(Job& job);
  void RemoveMember(Job& job, ConsumerId id, bool doubtful, Changes& changes);

  // jobs.cc
  void CollectJobs();
  void CollectUnread();
  bool Recalled(const Job& job) const;
  bool RestoredByOthers(const Job& job) const;
  bool MakesWay(const Job& job, const msg::Join& join) const;
  std::map<JobId, Job>::iterator Forget(std::map<JobId, Job>::iterator job);
  std::map<JobId, Job>::iterator Bury(std::map<JobId, Job>::iterator job, std::string outcome);

  // restores.cc
  void OnMessage(SessionId session, RequestId request, const msg::Restore& restore);
  std::string RowsOf(const Job& job) const;
  bool Enlist(Job& job, Recruit recruit);
  bool Whole(const Cohort& cohort) const;
  void CommitIfWhole(Job& job);
  void Commit(Job& job, const Position& position);
  Consumer NewMember(const Job& job, Epoch saved_in, const Consumer& old, const Recruit& recruit) const;
  void ShutOut(const Job& job, const Consumer& member);
  void FailCohort(const Job& job, const Status& error);
  void CheckCohorts();
  static std::string Missing(const Job& job, const Cohort& cohort);
  Status MissingRecruits(const Job& job, const Cohort& cohort) const;

  // gathers.cc
  void OnMessage(SessionId session, RequestId request, const msg::SavePosition& ask);
  void OnMessage(SessionId session, RequestId request, const msg::PartReply& part);
  Status AddPart(Gather& gather, const Job& job, const std::string& current, const std::string& at_tag) const;
  void ContinueGather(uint64_t number);
  void CheckGathers();
  Status GatherTrouble(const Gather& gather, const Job& job) const;
  void EndGather(uint64_t number, Status error);
  void FailGathersThatWait(const Job& job, const Consumer& gone);
  void FailGathers(JobId job, const Status& error);

  // workers.cc
  void OnMessage(SessionId session, RequestId request, const msg::WorkerHello& message);
  void OnMessage(SessionId session, RequestId request, const msg::WorkerBeat& message);
  void OnMessage(SessionId session, RequestId request, const msg::GetJob& message);
  void AddReplicas(WorkerId worker);
  void AddReplica(Job& job, WorkerId worker, Changes& changes);
  void LoseWorker(WorkerId worker, const std::string& why);
  void ExpireWorkers();
  void TellAllWorkersChanged();
  std::vector<msg::WorkerInfo> WorkerList() const;
  bool AnyWorker() const;

  // status.cc
  void OnMessage(SessionId session, RequestId request, const msg::StatusAsk& message);

  // Whatever else a peer may say is not for a dispatcher.
  template <class Other>
  void OnMessage(SessionId session, RequestId request, const Other&) {
    Fail(session, request, Status(Code::kInvalid, "this message is not for a dispatcher: is the address that of a worker?"));
  }

  CoreOptions options_;
  std::map<std::string, Dataset> datasets_;  // by id
  std::map<JobId, Job> jobs_;
  std::map<JobId, Listing> listings_;
  std::vector<PendingJoin> joins_;
  std::map<JobId, Cohort> cohorts_;
  std::map<uint64_t, Gather> gathers_;
  uint32_t gathers_made_ = 0;  // in this term
  std::map<WorkerId, Worker> workers_;
  uint64_t workers_version_;  // rises with each change of what consumers are told of them; no two terms have the same
  std::deque<Tombstone> tombstones_;
  uint64_t next_tombstone_ = 1;
  uint32_t jobs_made_ = 0;  // in this term
  uint64_t asks_made_ = 0;
  CoreCounts counts_;
  TimePoint collected_;               // when CollectUnused last looked
  std::optional<TimePoint> tick_at_;  // that was wished for, and has not come yet

  // Of the event being handled.
  TimePoint now_;
  Actions* out_ = nullptr;
  std::map<std::string, std::optional<std::string>> writes_;  // the last one of a key counts
};

}  // namespace penstock::dispatcher
