// What consumers say while they read: beats, leaving; and what their silence means.
#include <algorithm>
#include <utility>

#include "base/constants.h"
#include "base/planted.h"
#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"
#include "dispatcher/readers.h"
#include "dispatcher/terms.h"

namespace penstock::dispatcher {
namespace {

constexpr Duration kPauseOfAnEntry = std::chrono::microseconds(1);
constexpr Duration kShortestPause = std::chrono::milliseconds(10);

// As its own loop counts them.
uint64_t StepsOf(const Consumer& consumer, uint64_t steps) {
  return steps == msg::kNoLimit ? steps : steps - std::min(steps, consumer.before.batches);
}

Status PutAway(std::string_view outcome) {
  if (outcome == kOutcomeFinished) return Status(Code::kFinished, "the job has finished, all its epochs being delivered, and was put away");
  return Status(Code::kStale,
                "the job was put away: all its consumers had left it, or were not heard of for long; open a new reader, and load the state that "
                "was saved last to go on from there");
}

}  // namespace

Job* DispatcherCore::Impl::FindReading(JobId id, ConsumerId consumer, SessionId session, RequestId request) {
  auto job = jobs_.find(id);
  if (job == jobs_.end()) {
    const auto buried = std::find_if(tombstones_.begin(), tombstones_.end(), [&](const Tombstone& t) { return t.job == id; });
    if (buried != tombstones_.end()) {
      Fail(session, request, PutAway(buried->outcome));
    } else if (MadeByThisStart(id)) {
      Fail(session, request, PutAway(kOutcomeLeft));  // not lost: nobody is to begin it again from what it knows
    } else {
      Fail(session, request, Status(Code::kNotFound, "this dispatcher does not know the job: join again"));
    }
    return nullptr;
  }
  if (job->second.members.contains(consumer)) return &job->second;
  Fail(session, request,
       Status(Code::kStale, "this consumer is not a member of job '" + job->second.name +
                                "' any more: its lease ended long ago, or another took its index; join again"));
  return nullptr;
}

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::Beat& beat) {
  Job* job = FindReading(beat.job, beat.consumer, session, request);
  if (job == nullptr) return;
  const bool other_generation = beat.generation != job->generation && !Planted(Bug::kOldGenerationServed);
  if (other_generation) return Fail(session, request, OtherGeneration(*job, beat.generation));
  Consumer& consumer = job->members.at(beat.consumer);
  Changes changes;
  consumer.heard = now_;
  consumer.session = session;
  if (std::exchange(consumer.expired, false)) changes.members.insert(consumer.id);
  Status may_read = CheckKnown(*job, consumer);
  if (may_read.ok() && consumer.undecided && beat.begun) may_read = Begin(*job, consumer, changes);
  if (!may_read.ok()) {
    Log("consumer.refused", {{"job", job->name}, {"consumer", consumer.name}, {"index", consumer.index}, {"why", may_read.message()}});
    Fail(session, request, std::move(may_read));
    RemoveMember(*job, consumer.id, false, changes);
    return Record(*job, changes);
  }
  if (beat.serial > consumer.serial || Planted(Bug::kMarkLowered)) {
    consumer.serial = beat.serial;
    consumer.knows_workers = beat.workers_version;
    if (!consumer.undecided) ApplyBeat(*job, consumer, beat, changes);
  }
  dispatcher::Settle(*job, now_, changes);
  Record(*job, changes);
  consumer.news = false;
  Reply(session, request, MakeReply(*job, consumer));
  SendNews(*job);
}

void DispatcherCore::Impl::ApplyBeat(Job& job, Consumer& consumer, const msg::Beat& beat, Changes& changes) {
  NoteDelivered(job, consumer, beat, changes);
  if (beat.epoch > consumer.epoch) {
    MoveOn(job, consumer, beat.epoch, changes);
    consumer.came.began = std::max(consumer.came.tag, beat.tag);  // nothing of the epoch was granted before this
  }
  ApplyFinishes(job, consumer, beat.finished, changes);
  ApplyHolds(job, consumer, beat.holds);
  consumer.want = beat.want;
  consumer.idle = beat.idle;
  consumer.tail_rows = beat.tail_rows;
  NoteFigures(job, consumer, {beat.rows, beat.bytes, beat.wire_bytes, beat.wait_ns});
  consumer.came.batches = consumer.before.batches + beat.batches;
  consumer.came.tag = std::max(consumer.came.tag, beat.tag);
  consumer.ready_batches = beat.ready_batches;
  if (job.mode != Mode::kStrict) return;
  // An END that was said stays said: one that is started anew after it has nothing left to come to.
  const bool ended = consumer.ended || (beat.idle && beat.epoch == consumer.epoch);
  if (consumer.position == beat.position && consumer.ended == ended) return;
  consumer.position = beat.position;
  consumer.ended = ended;
  changes.members.insert(consumer.id);
}

// A dispatcher that was started anew does not know when its loops had what they had before.
void DispatcherCore::Impl::NoteFigures(Job& job, Consumer& consumer, const Figures& had) {
  if (!consumer.had_before) consumer.had_before = had;
  if (!job.watched_from) job.watched_from = now_;
  job.watched_to = now_;
  consumer.had = had;
}

// Who is started anew at an index that has delivered must say what becomes of that.
void DispatcherCore::Impl::NoteDelivered(Job& job, const Consumer& consumer, const msg::Beat& beat, Changes& changes) {
  if (job.consumers == 0 || job.delivered.contains(consumer.index)) return;
  bool delivered = beat.batches > 0 || beat.epoch > consumer.epoch;
  for (const msg::Hold& hold : beat.holds) delivered = delivered || hold.asked > hold.grant_from;
  for (const msg::Finish& finish : beat.finished) delivered = delivered || finish.upto > finish.grant_from;
  if (!delivered) return;
  job.delivered.insert(consumer.index);
  changes.job = true;
}

// By `break`, or after its END: what it still holds of earlier epochs it shall give back.
void DispatcherCore::Impl::MoveOn(Job& job, Consumer& consumer, Epoch epoch, Changes& changes) {
  if (job.epochs != 0 && Raw(epoch) >= job.epochs) return;
  for (auto& [earlier, state] : job.open) {
    EpochState::Holder* holder = earlier < epoch ? state.Find(consumer.id) : nullptr;
    if (holder == nullptr) continue;
    for (auto& [name, held] : *holder) held.revoked = held.broken = true;
  }
  consumer.came.batches = consumer.before.batches = consumer.ready_batches = consumer.lanes_had = 0;
  consumer.epoch = epoch;
  consumer.ended = false;
  consumer.ending = false;
  changes.members.insert(consumer.id);
}

void DispatcherCore::Impl::ApplyFinishes(Job& job, Consumer& consumer, const std::vector<msg::Finish>& finished, Changes& changes) {
  for (const msg::Finish& finish : finished) {
    auto state = job.open.find(finish.lane.epoch);
    if (state == job.open.end()) continue;
    const std::optional<uint64_t> repeated = state->second.Finish(consumer.id, finish);
    if (!repeated.has_value()) continue;
    const bool unread = !finish.ended && finish.upto <= finish.grant_from;
    if (unread && finish.lane.epoch == consumer.epoch && consumer.lanes_had > 0) --consumer.lanes_had;
    changes.epochs.insert(finish.lane.epoch);
    changes.members.insert(consumer.id);
    CountRepeated(job, *repeated, changes);
  }
}

void DispatcherCore::Impl::CountRepeated(Job& job, uint64_t rows, Changes& changes) {
  if (rows == 0) return;
  job.redelivered += rows;
  counts_.redelivered += rows;
  changes.job = true;
}

void DispatcherCore::Impl::GiveBackAll(Job& job, ConsumerId consumer, bool doubtful, Changes& changes) {
  for (auto& [epoch, state] : job.open) {
    const std::optional<uint64_t> repeated = state.GiveBackAll(consumer, doubtful);
    if (!repeated.has_value()) continue;
    changes.epochs.insert(epoch);
    CountRepeated(job, *repeated, changes);
  }
}

void DispatcherCore::Impl::ApplyHolds(Job& job, const Consumer& consumer, const std::vector<msg::Hold>& holds) {
  for (auto& [epoch, state] : job.open) {
    EpochState::Holder* holder = state.Find(consumer.id);
    if (holder == nullptr) continue;
    for (auto& [name, held] : *holder) held.known = false;
  }
  for (const msg::Hold& hold : holds) {
    auto state = job.open.find(hold.lane.epoch);
    EpochState::Holder* holder = state == job.open.end() ? nullptr : state->second.Find(consumer.id);
    if (holder == nullptr) continue;
    auto it = holder->find({hold.lane, hold.grant_from, hold.fence});
    if (it == holder->end()) continue;
    it->second.known = true;
    it->second.asked = Planted(Bug::kMarkLowered) ? hold.asked : std::max(it->second.asked, hold.asked);
    it->second.open = hold.open;
    it->second.ready_rows = hold.ready_rows;
    it->second.ended = hold.ended;
  }
}

// All workers, told to all consumers: where both are many and workers come and go one after another, each change would cost the product, and those
// who are slow to read would have it pile up here. None in small clusters; never so long that a beat does not end it.
Duration DispatcherCore::Impl::PauseOfWorkerLists() const {
  uint64_t consumers = 0;
  for (const auto& [id, job] : jobs_) consumers += job.members.size();
  const Duration pause = workers_.size() * consumers * kPauseOfAnEntry;
  return pause < kShortestPause ? Duration{0} : std::min(pause, Duration(kHeartbeatEvery) / 2);
}

// A thousand workers in each of a thousand replies, even now and then, would be most of what a dispatcher does: they are told to who does not know
// them. A beat that does not may have crossed what told it; the next one after that says that it was lost.
void DispatcherCore::Impl::TellWorkers(Consumer& consumer, msg::BeatReply& reply) {
  if (consumer.knows_workers == workers_version_) return;
  const std::pair told{consumer.session, workers_version_};
  if (consumer.told == told && consumer.serial <= consumer.told_serial + 1) return;
  if (consumer.told.first == consumer.session && now_ - consumer.told_at < PauseOfWorkerLists()) return;  // the answer to its next beat has it
  consumer.told = told;
  consumer.told_at = now_;
  consumer.told_serial = consumer.serial;
  reply.workers = WorkerList();
  reply.workers_version = workers_version_;
}

msg::BeatReply DispatcherCore::Impl::MakeReply(const Job& job, Consumer& consumer) {
  msg::BeatReply reply;
  reply.serial = consumer.serial;
  reply.generation = job.generation;
  reply.lease_ms = static_cast<uint32_t>(std::chrono::milliseconds(kClientLease).count());
  for (const auto& [epoch, state] : job.open) {
    const EpochState::Holder* holder = consumer.undecided ? nullptr : state.Find(consumer.id);
    if (holder == nullptr) continue;
    for (const auto& [name, held] : *holder) {
      reply.grants.push_back(ToGrant(name, held));
      if (held.revoked) reply.revoke.push_back(ToGrant(name, held));
    }
  }
  reply.epoch = consumer.epoch;
  reply.end = !consumer.undecided && (consumer.ended || consumer.epoch < job.first_open);
  if (const auto limit = job.limits.find(consumer.epoch); limit != job.limits.end()) reply.limit = StepsOf(consumer, limit->second);
  if (const auto steps = job.steps.find(consumer.epoch); steps != job.steps.end()) reply.limit = reply.steps = StepsOf(consumer, steps->second);
  reply.started = job.mode != Mode::kStrict || (job.started && !consumer.undecided);
  reply.epoch_done = consumer.epoch < job.first_open;
  reply.first_tag = consumer.before.tag;
  TellWorkers(consumer, reply);
  reply.waiting_for = WaitsFor(job, consumer);
  return reply;
}

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::Leave& leave) {
  auto job = jobs_.find(leave.job);
  if (job != jobs_.end() && job->second.members.contains(leave.consumer)) {
    Changes changes;
    Consumer& consumer = job->second.members.at(leave.consumer);
    ApplyFinishes(job->second, consumer, leave.finished, changes);
    ApplyHolds(job->second, consumer, leave.holds);
    Log("consumer.leave", {{"job", job->second.name}, {"consumer", consumer.name}, {"index", consumer.index}, {"rows", consumer.had.rows}});
    if (job->second.consumers > 0 && !consumer.undecided) {
      job->second.vacated[consumer.index] = {consumer.name, consumer.epoch, consumer.ended, consumer.position, consumer.came, consumer.id};
      changes.job = true;
    }
    RemoveMember(job->second, leave.consumer, false, changes);
    dispatcher::Settle(job->second, now_, changes);
    Record(job->second, changes);
    SendNews(job->second);
  }
  Reply(session, request, msg::Done{});
}

void DispatcherCore::Impl::CountGone(Job& job, const Consumer& gone) {
  job.gone.Add(gone.had);
  job.gone_watched.Add(gone.watched());
}

void DispatcherCore::Impl::RemoveMember(Job& job, ConsumerId id, bool doubtful, Changes& changes) {
  GiveBackAll(job, id, doubtful, changes);
  changes.members.insert(id);
  const auto gone = job.members.extract(id);
  if (gone.empty()) return;
  CountGone(job, gone.mapped());
  FailGathersThatWait(job, gone.mapped());
}

// END was told to the one who had the last rows: without them it is not at its end, and reads what is left if it comes back.
void DispatcherCore::Impl::TakeAway(Job& job, Consumer& consumer, Changes& changes) {
  if (HeldBy(job, consumer) > 0) consumer.ended = false;
  GiveBackAll(job, consumer.id, true, changes);
}

void DispatcherCore::Impl::ExpireMembers(Job& job) {
  Changes changes;
  std::vector<ConsumerId> forget;
  for (auto& [id, consumer] : job.members) {
    const bool over = now_ - consumer.heard > kDispatcherLease && !Planted(Bug::kLeaseNeverExpires);
    if (over && (consumer.undecided || (consumer.expired && !job.holds() && now_ - consumer.heard > kForgetExpired))) forget.push_back(id);
    if (!over || consumer.expired || consumer.undecided) continue;
    consumer.expired = true;
    consumer.idle = consumer.ending = false;
    consumer.want = 0;
    changes.members.insert(id);
    if (!job.holds()) TakeAway(job, consumer, changes);
    ++counts_.expired;
    Log("consumer.lost",
        {{"job", job.name},
         {"consumer", consumer.name},
         {"index", consumer.index},
         {"rows", consumer.had.rows},
         {"why", "it was silent for its lease"},
         {"then", job.holds() ? "its part of the job waits until it is started anew, or the job is restored"
                              : "its lanes go to others, from what it last said it had delivered"}},
        LogLevel::kWarn);
  }
  for (ConsumerId id : forget) RemoveMember(job, id, false, changes);
  for (auto& [id, consumer] : job.members) {
    // One that lost its connection may be dead, and another may have come for the seat; it gets it when it is back, if nobody has.
    if (consumer.begun && consumer.session != SessionId{}) TakeSeat(job, consumer, changes);
  }
  Record(job, changes);
}

}  // namespace penstock::dispatcher
