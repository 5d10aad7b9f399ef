// Restoring a job: one act of all its consumers together.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/constants.h"
#include "base/planted.h"
#include "dispatcher/codec.h"
#include "dispatcher/cohorts.h"
#include "dispatcher/core_impl.h"
#include "dispatcher/terms.h"
#include "plan/limits.h"

namespace penstock::dispatcher {
namespace {

constexpr auto kCohortDeadline = std::chrono::seconds(60);   // for all ranks to be started and load their states
constexpr auto kRebuildDeadline = std::chrono::seconds(10);  // for live loops; they come again, and know for whom they wait
constexpr auto kRebuildWindow = kSilence;                    // for live loops that declared no number to find the dispatcher again

std::chrono::seconds DeadlineFor(bool rebuild) { return rebuild ? kRebuildDeadline : kCohortDeadline; }

// It is the job's start.
bool SaysNothing(const Position& part) { return part.tag == 0 && part.delivered == History{} && part.base == History{} && part.epoch == Epoch{}; }

// The dispatcher that knew what the one before it had was lost with that one.
Status StartedAnewUnknown(const Job& job, uint32_t index) {
  return Status(Code::kStale, "consumer " + std::to_string(index) + " of " + Named(job) +
                                  " was started anew when the dispatcher had lost its state, and others still read the job: what the one before it "
                                  "has delivered is known to nobody. Start all consumers anew, with the state that was saved with the model "
                                  "(load_state_dict)")
      .With("job", job.name);
}

// Those of a job that is lost do not beat before it was rebuilt.
bool ReadByOthers(const Job& job, const Consumer& consumer) {
  return std::any_of(job.members.begin(), job.members.end(), [&](const auto& item) {
    const Consumer& other = item.second;
    return other.id != consumer.id && other.reads() && other.serial > 0;
  });
}

}  // namespace

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::Restore& restore) {
  Job* job = FindReading(restore.job, restore.consumer, session, request);
  if (job == nullptr) return;
  Consumer& consumer = job->members.at(restore.consumer);
  consumer.heard = now_;
  consumer.session = session;
  // Whoever is a member of the generation that followed was in its cohort: its answer was lost.
  const bool repeated = restore.generation < job->generation && !Planted(Bug::kRestoreTwice);
  if (repeated) return SendJoined(session, request, *job, consumer);
  if (restore.consumers > kMostConsumers) {
    return Fail(session, request, Status(Code::kInvalid, std::to_string(restore.consumers) + " consumers are more than a job may have"));
  }
  if (restore.consumers > 0 && restore.index >= restore.consumers) {
    return Fail(session, request,
                Status(Code::kInvalid, "consumer index " + std::to_string(restore.index) + " is not below the number of consumers that restore, " +
                                           std::to_string(restore.consumers)));
  }
  Recruit recruit{session, request, restore, std::nullopt};
  if (!restore.state.empty()) {
    Result<Position> state = ParsePosition(restore.state);
    // Not lost, but over, as it was when this consumer joined it before the dispatcher was started anew, and was not told.
    const bool late = state.ok() && restore.rebuild && state->tag == 0 && state->base == History{} && Recalled(*job);
    if (late) return Fail(session, request, JobFinished(*job, *OutcomeOf(job->name)));
    Status status = state.ok() ? CheckState(*job, RowsOf(*job), *state) : state.status();
    if (!status.ok()) return Fail(session, request, std::move(status));
    recruit.state = *std::move(state);
  }
  if (restore.rebuild && recruit.state && SaysNothing(*recruit.state) && ReadByOthers(*job, consumer)) {
    return Fail(session, request, Status(Code::kExists, Named(*job) + " is being read, and is not lost: this consumer has nothing to tell of it"));
  }
  if (Enlist(*job, std::move(recruit))) CommitIfWhole(*job);
}

// Others tell what they have of a job that this dispatcher does not know, and this one was started without a word of what it had.
Status DispatcherCore::Impl::CheckKnown(const Job& job, const Consumer& consumer) const {
  const auto cohort = cohorts_.find(job.id);
  if (cohort == cohorts_.end() || !cohort->second.rebuild || cohort->second.consumers == 0) return {};
  const auto& recruits = cohort->second.recruits;
  const bool was_read =
      std::any_of(recruits.begin(), recruits.end(), [](const auto& item) { return item.second.state && !SaysNothing(*item.second.state); });
  if (!was_read || recruits.contains(consumer.id) || job.seated.size() == job.consumers) return {};
  return StartedAnewUnknown(job, consumer.index);
}

// The fingerprint of what makes its rows.
std::string DispatcherCore::Impl::RowsOf(const Job& job) const {
  if (!options_.rows_of) return job.dataset;
  const Result<std::string> rows = options_.rows_of(datasets_.at(job.dataset).plan);
  return rows.ok() ? *rows : job.dataset;
}

// False: it was sent away.
bool DispatcherCore::Impl::Enlist(Job& job, Recruit recruit) {
  const msg::Restore& word = recruit.restore;
  Cohort& cohort = cohorts_[job.id];
  const bool other = cohort.attempt != word.attempt || cohort.consumers != word.consumers || cohort.rebuild != word.rebuild;
  if (!cohort.recruits.empty() && word.attempt < cohort.attempt) {
    Fail(recruit.session, recruit.request,
         Status(Code::kStale, "attempt " + std::to_string(word.attempt) + " restores " + Named(job) + " after attempt " +
                                  std::to_string(cohort.attempt) + " has begun to: stop it"));
    return false;
  }
  // What a user loads goes before what loops tell of themselves, which may be told to load it, too, in a moment.
  const bool of_one_start = cohort.attempt == word.attempt && cohort.consumers == word.consumers;
  if (!cohort.recruits.empty() && of_one_start && word.rebuild && !cohort.rebuild) {
    Fail(recruit.session, recruit.request,
         Status(Code::kUnavailable, "consumers of " + Named(job) + " restore it: " + Missing(job, cohort) + " do not yet"));
    return false;
  }
  if (!cohort.recruits.empty() && other) {
    const bool again = of_one_start && cohort.rebuild;
    FailCohort(job, Status(again ? Code::kUnavailable : Code::kStale,
                           "a newer start of the consumers of " + Named(job) + " restores it: this one is not of it"));
  }
  Cohort& now = cohorts_[job.id];
  if (now.recruits.empty()) now = {word.attempt, word.consumers, word.rebuild, now_, {}};
  for (auto it = now.recruits.begin(); it != now.recruits.end();) {
    const bool replaced = word.consumers > 0 && it->second.restore.index == word.index && it->first != word.consumer;
    if (replaced) {
      Fail(it->second.session, it->second.request,
           Status(Code::kStale, "another start of consumer " + std::to_string(word.index) + " restores " + Named(job) + " in its place"));
    }
    it = replaced ? now.recruits.erase(it) : std::next(it);
  }
  const ConsumerId id = word.consumer;
  now.recruits.insert_or_assign(id, std::move(recruit));
  return true;
}

bool DispatcherCore::Impl::Whole(const Cohort& cohort) const {
  if (cohort.consumers > 0) return cohort.recruits.size() == cohort.consumers;
  return !cohort.rebuild || now_ - cohort.since > kRebuildWindow;
}

void DispatcherCore::Impl::CommitIfWhole(Job& job) {
  auto cohort = cohorts_.find(job.id);
  if (cohort == cohorts_.end() || cohort->second.recruits.empty()) return;
  if (RestoredByOthers(job)) return FailCohort(job, NotAsRestored(job));
  if (!Whole(cohort->second)) return;
  std::vector<Position> states;
  for (const auto& [id, recruit] : cohort->second.recruits) {
    if (recruit.state.has_value()) states.push_back(*recruit.state);
  }
  Result<Position> position = Assemble(job, RowsOf(job), states, cohort->second.rebuild);
  if (!position.ok()) return FailCohort(job, position.status());
  Commit(job, *position);
}

void DispatcherCore::Impl::Commit(Job& job, const Position& position) {
  const Cohort cohort = std::move(cohorts_.at(job.id));
  cohorts_.erase(job.id);
  Changes changes{.job = true, .epochs = {}, .members = {}};
  for (const auto& [epoch, state] : job.open) changes.epochs.insert(epoch);
  for (const auto& [id, member] : job.members) GiveBackAll(job, id, false, changes);  // counts what they had twice
  job.consumers = cohort.consumers;
  SetTo(job, position);
  for (const auto& [epoch, state] : job.open) changes.epochs.insert(epoch);
  std::map<ConsumerId, Consumer> before = std::exchange(job.members, {});
  for (const auto& [id, recruit] : cohort.recruits) {
    const auto old = before.find(id);
    if (old == before.end()) continue;  // it has left, and is missed when the job starts
    job.members.emplace(id, NewMember(job, position.epoch, old->second, recruit));
    if (job.consumers > 0) job.seated.insert(recruit.restore.index);
    changes.members.insert(id);
  }
  for (auto& [id, member] : before) {
    changes.members.insert(id);
    if (job.members.contains(id)) continue;
    CountGone(job, member);
    ShutOut(job, member);
  }
  FailGathers(job.id, Status(Code::kStale, Named(job) + " was restored while its position was being saved"));
  dispatcher::Settle(job, now_, changes);
  Record(job, changes);
  Put(BaseKey(job.id), job.base);
  Log("job.restore", {{"job", job.name}, {"generation", job.generation}, {"step", position.tag}, {"consumers", job.consumers}});
  for (const auto& [id, recruit] : cohort.recruits) {
    if (auto member = job.members.find(id); member != job.members.end()) SendJoined(recruit.session, recruit.request, job, member->second);
  }
}

Consumer DispatcherCore::Impl::NewMember(const Job& job, Epoch saved_in, const Consumer& old, const Recruit& recruit) const {
  const msg::Restore& word = recruit.restore;
  Consumer member;
  member.id = old.id;
  member.index = word.index;
  member.name = old.name;
  // A position at an epoch's end is that end, not the next one's start; what it says of epochs that the job has not is its last one's end.
  const bool at_end = job.finished() || saved_in < job.first_open;
  member.epoch = job.finished() ? Epoch{job.epochs - 1} : Epoch{Raw(job.first_open) - (at_end ? 1 : 0)};
  member.declared = word.consumers;
  member.attempt = word.attempt;
  member.places = old.places;
  member.on_restart = old.on_restart;
  member.heard = now_;
  member.session = old.session;
  member.had = old.had;
  member.had_before = old.had_before;
  member.ended = at_end;
  if (!word.rebuild || !recruit.state) return member;
  // Its loop goes on where it is, which others need not have come to.
  if (job.epochs == 0 || Raw(recruit.state->epoch) < job.epochs) member.epoch = std::max(member.epoch, recruit.state->epoch);
  member.ended = at_end && member.epoch < job.first_open;
  if (job.mode == Mode::kStrict) member.position = word.state;
  return member;
}

// It learns of the generation at once, and delivers nothing more.
void DispatcherCore::Impl::ShutOut(const Job& job, const Consumer& member) {
  if (member.session == SessionId{} || member.serial == 0) return;
  msg::BeatReply reply;
  reply.serial = member.serial;
  reply.generation = job.generation;
  reply.epoch = member.epoch;
  out_->sends.push_back({member.session, RequestId{}, std::move(reply)});
}

void DispatcherCore::Impl::FailCohort(const Job& job, const Status& error) {
  auto cohort = cohorts_.extract(job.id);
  if (cohort.empty()) return;
  for (const auto& [id, recruit] : cohort.mapped().recruits) Fail(recruit.session, recruit.request, error);
}

void DispatcherCore::Impl::CheckCohorts() {
  std::vector<JobId> ids;
  for (const auto& [id, cohort] : cohorts_) ids.push_back(id);
  for (JobId id : ids) {
    auto job = jobs_.find(id);
    const Cohort& cohort = cohorts_.at(id);
    if (job == jobs_.end() || cohort.recruits.empty()) {
      cohorts_.erase(id);
    } else if (Whole(cohort) || RestoredByOthers(job->second)) {
      CommitIfWhole(job->second);
    } else if (now_ - cohort.since > DeadlineFor(cohort.rebuild)) {
      FailCohort(job->second, MissingRecruits(job->second, cohort));
    }
  }
}

// Indices of those that have not come, with the names of those that are there: "1 (host:4711), 2"; of very many only the first.
std::string DispatcherCore::Impl::Missing(const Job& job, const Cohort& cohort) {
  constexpr size_t kNamed = 10;
  std::set<uint32_t> there;
  for (const auto& [id, recruit] : cohort.recruits) there.insert(recruit.restore.index);
  std::map<uint32_t, std::string_view> names;
  for (const auto& [id, member] : job.members) names.emplace(member.index, member.name);
  std::string missing;
  size_t named = 0;
  for (uint32_t index = 0; index < cohort.consumers && named < kNamed; ++index) {
    if (there.contains(index)) continue;
    const auto name = names.find(index);
    missing += (named++ == 0 ? "" : ", ") + std::to_string(index) + (name == names.end() ? "" : " (" + std::string(name->second) + ")");
  }
  const size_t others = cohort.consumers - there.size() - named;
  return others == 0 ? missing : missing + " and " + std::to_string(others) + " others";
}

Status DispatcherCore::Impl::MissingRecruits(const Job& job, const Cohort& cohort) const {
  return Status(Code::kDeadline, "consumers " + Missing(job, cohort) + " of the " + std::to_string(cohort.consumers) + " that restore " + Named(job) +
                                     ", which did not come within " + std::to_string(DeadlineFor(cohort.rebuild).count()) +
                                     " s; a restore is one act of all consumers")
      .With("job", job.name);
}

// While some restore, the others keep them waiting, whatever each of them waits for besides.
std::string DispatcherCore::Impl::WaitsFor(const Job& job, const Consumer& consumer) const {
  const auto cohort = cohorts_.find(job.id);
  if (cohort == cohorts_.end() || cohort->second.recruits.empty() || cohort->second.consumers == 0)
    return WaitingFor(job, consumer, now_, AnyWorker());
  return "consumers " + Missing(job, cohort->second) + " of " + std::to_string(cohort->second.consumers) +
         " to load their state: a restore is one act of all consumers";
}

}  // namespace penstock::dispatcher
