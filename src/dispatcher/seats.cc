// Who reads: how a consumer gets its seat, takes over that of one before it, or waits (docs/design/positions.md, "A rank that is started anew").
#include <utility>

#include "base/constants.h"
#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"
#include "dispatcher/terms.h"

namespace penstock::dispatcher {
namespace {

// One that is dead, or of an earlier start of all ranks.
bool MayTakeOver(const Consumer& before, uint64_t attempt) { return before.expired || attempt > before.attempt; }

Status IndexTaken(const Job& job, const Consumer& by) {
  return Status(Code::kExists, Named(job) + " already has a consumer with index " + std::to_string(by.index) + ", " + by.name +
                                   ": give each consumer its own index, or stop that one")
      .With("consumer", by.name);
}

// A join that was on its way when its consumer left, or came twice. Whoever it let in again would say what was so long ago, and its seat would
// wait for one that is gone.
bool HasLeft(const Job& job, const msg::Join& join) {
  const auto seat = join.consumers > 0 ? job.vacated.find(join.index) : job.vacated.end();
  return seat != job.vacated.end() && seat->second.left == ConsumerId{join.incarnation};
}

Status StartedAnew(const Job& job, uint32_t index) {
  return Status(Code::kStale, "consumer " + std::to_string(index) + " of " + Named(job) +
                                  " was started anew, and the one before it has delivered rows: load the state that was saved with the model "
                                  "(load_state_dict), or say on_restart=\"continue\" (go on after what that one asked for last; a few rows may come "
                                  "twice), or on_restart=\"restart\" (all consumers begin the job again)")
      .With("job", job.name);
}

// Declared consumers read the same epochs: one that comes when others have read the first finds its end, not another pass.
Epoch FirstEpoch(const Job& job, const msg::Join& join) {
  if (join.consumers == 0 || job.delivered.contains(join.index)) return job.first_open;
  const auto base = job.base.empty() ? Result<Position>(Position{}) : ParsePosition(job.base);
  return base.ok() ? std::min(base->delivered.epochs_done, job.first_open) : job.first_open;
}

// One of those that the job was made for, which never had its seat.
bool NeverCame(const Job& job, const Consumer& consumer) {
  return job.consumers > 0 && consumer.declared == job.consumers && !job.seated.contains(consumer.index);
}

void GoOnFrom(const auto& before, Consumer& consumer) {
  consumer.epoch = before.epoch;
  consumer.position = before.position;
}

// Steps are the seat's, whoever has it. `same_epoch`: it goes on where the one before it was, with the batch in whose midst that was lost.
void CountOnFrom(const auto& before, bool same_epoch, Consumer& consumer) {
  const Steps& came = before.came;
  consumer.ended = same_epoch && before.ended;
  consumer.before = consumer.came = same_epoch ? Steps{came.asked(), came.tag, came.began} : Steps{0, came.tag, came.tag};
}

// That of one who left. In strict it came with its epoch and position when it was admitted.
void TakeVacantSeat(Job& job, Consumer& consumer, Changes& changes) {
  const auto seat = job.vacated.extract(consumer.index);
  if (seat.empty()) return;
  CountOnFrom(seat.mapped(), seat.mapped().epoch == consumer.epoch, consumer);
  // It gave back what it held: an epoch that is still open is there to be read, though that one was told its END. In strict END is its own word.
  if (job.mode != Mode::kStrict) consumer.ended = false;
  changes.job = true;
}

}  // namespace

void DispatcherCore::Impl::JoinReady(const PendingJoin& pending, Job& job) {
  const msg::Join& join = pending.join;
  auto member = job.members.find(ConsumerId{join.incarnation});
  if (member != job.members.end()) {
    member->second.session = pending.session;
    return SendJoined(pending.session, pending.request, job, member->second);
  }
  if (HasLeft(job, join)) {
    return Fail(pending.session, pending.request, Status(Code::kStale, join.name + " has left " + Named(job) + ": open a new reader"));
  }
  if (Status status = CheckTerms(job, join); !status.ok()) return Fail(pending.session, pending.request, status);
  const Consumer* before = join.consumers > 0 && join.consumers == job.consumers ? job.Seated(join.index) : nullptr;
  if (before != nullptr && join.attempt < before->attempt) {
    return Fail(pending.session, pending.request,
                Status(Code::kStale, "attempt " + std::to_string(join.attempt) + " of consumer " + std::to_string(join.index) + " of " + Named(job) +
                                         " comes after attempt " + std::to_string(before->attempt) + " has taken its seat: stop it"));
  }
  if (before != nullptr && !MayTakeOver(*before, join.attempt) && before->session != SessionId{}) {
    return Fail(pending.session, pending.request, IndexTaken(job, *before));
  }
  Admit(pending, job);
}

void DispatcherCore::Impl::Admit(const PendingJoin& pending, Job& job) {
  const msg::Join& join = pending.join;
  Consumer consumer;
  consumer.id = ConsumerId{join.incarnation};
  consumer.index = join.index;
  consumer.name = join.name;
  consumer.epoch = FirstEpoch(job, join);
  consumer.heard = now_;
  consumer.session = pending.session;
  consumer.undecided = true;
  consumer.declared = join.consumers;
  consumer.attempt = join.attempt;
  consumer.places = join.places;
  consumer.on_restart = join.on_restart;
  if (const Consumer* before = join.consumers > 0 ? job.Seated(join.index) : nullptr; before != nullptr) {
    if (job.holds()) GoOnFrom(*before, consumer);
  } else if (const auto seat = job.vacated.find(join.index); seat != job.vacated.end() && job.mode == Mode::kStrict) {
    GoOnFrom(seat->second, consumer);
  }
  Changes changes;
  changes.members.insert(consumer.id);
  Consumer& stored = job.members.insert_or_assign(consumer.id, std::move(consumer)).first->second;
  const bool fresh = !join.rebuild && !job.finished() && stored.declared == job.consumers && !job.delivered.contains(stored.index);
  if (fresh) TakeSeat(job, stored, changes);
  dispatcher::Settle(job, now_, changes);
  Record(job, changes);
  Log(Recalled(job) ? "consumer.late_join" : "consumer.join",
      {{"job", job.name}, {"consumer", stored.name}, {"index", stored.index}, {"of", stored.declared}, {"attempt", stored.attempt}});
  SendJoined(pending.session, pending.request, job, stored);
  SendNews(job);
}

// It reads without having restored.
Status DispatcherCore::Impl::Begin(Job& job, Consumer& consumer, Changes& changes) {
  if (RestoredByOthers(job)) return NotAsRestored(job);
  const std::optional<std::string> outcome = OutcomeOf(job.name);
  // One that comes when the others have read all of it finds empty epochs, as it would in the middle of the last one.
  const bool late = NeverCame(job, consumer) && !outcome;
  if (job.finished() && !late) return JobFinished(job, outcome.value_or(kOutcomeFinished));
  if (consumer.declared != job.consumers) return OtherConsumers(job, consumer.declared);
  if (job.delivered.contains(consumer.index) && job.consumers > 0 && consumer.on_restart != OnRestart::kContinue) {
    return StartedAnew(job, consumer.index);
  }
  consumer.begun = true;
  const Consumer* before = job.consumers > 0 ? job.Seated(consumer.index) : nullptr;
  if (before != nullptr && !MayTakeOver(*before, consumer.attempt) && before->session != SessionId{}) return IndexTaken(job, *before);
  TakeSeat(job, consumer, changes);
  return {};
}

// At once where it is free; that of one whose connection is gone when its lease has ended.
void DispatcherCore::Impl::TakeSeat(Job& job, Consumer& consumer, Changes& changes) {
  Consumer* before = job.consumers > 0 ? job.Seated(consumer.index) : nullptr;
  if (before != nullptr && !MayTakeOver(*before, consumer.attempt)) return;
  consumer.undecided = consumer.begun = false;
  changes.members.insert(consumer.id);
  if (job.consumers > 0) changes.job = job.seated.insert(consumer.index).second || changes.job;
  if (before == nullptr) return TakeVacantSeat(job, consumer, changes);
  for (auto& [epoch, state] : job.open) {
    if (!job.holds() || before->epoch != consumer.epoch) continue;
    if (const auto repeated = state.MoveAll(before->id, consumer.id)) {
      changes.epochs.insert(epoch);
      CountRepeated(job, *repeated, changes);
    }
  }
  const bool same_epoch = job.holds() && before->epoch == consumer.epoch;
  CountOnFrom(*before, same_epoch, consumer);
  if (same_epoch) consumer.lanes_had = before->lanes_had;
  Log("consumer.replace", {{"job", job.name}, {"consumer", consumer.name}, {"index", consumer.index}, {"before", before->name}});
  RemoveMember(job, before->id, !before->expired, changes);
}

void DispatcherCore::Impl::SendJoined(SessionId session, RequestId request, const Job& job, const Consumer& consumer) {
  msg::Joined joined;
  joined.job = job.id;
  joined.consumer = consumer.id;
  joined.generation = job.generation;
  joined.epoch = consumer.epoch;
  joined.epochs = job.epochs;
  joined.mode = job.mode;
  joined.lease_ms = static_cast<uint32_t>(std::chrono::milliseconds(kClientLease).count());
  joined.layout = job.inputs.layout;
  joined.manifest_hash = job.inputs.manifest_hash;
  joined.workers = WorkerList();
  joined.workers_version = workers_version_;
  joined.job_name = job.name;
  joined.index = consumer.index;
  joined.consumers = consumer.declared;
  joined.places = job.mode == Mode::kStrict ? job.places : 0;
  joined.even = job.evens();
  joined.undecided = consumer.undecided;
  joined.base = job.base;
  joined.position = consumer.position;
  Reply(session, request, std::move(joined));
}

}  // namespace penstock::dispatcher
