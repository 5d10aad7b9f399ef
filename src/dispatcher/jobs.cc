// The end of a job: what is left of it, and for how long.
#include <algorithm>
#include <utility>

#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"

namespace penstock::dispatcher {
namespace {

constexpr size_t kTombstones = 1000;
// A job with a name may be come back to: a training that was stopped for the night, say. Not for ever, and not with any number of others.
constexpr auto kUnreadFor = std::chrono::hours(24);
constexpr size_t kUnreadJobs = 1000;

bool Read(const Job& job) {
  return std::any_of(job.members.begin(), job.members.end(), [](const auto& item) { return !item.second.expired; });
}

bool Seated(const Job& job) {
  return std::any_of(job.members.begin(), job.members.end(), [](const auto& item) { return item.second.reads(); });
}

// Those that it was made for have all come; who has no name to find it by does not.
bool NobodyToCome(const Job& job) { return job.anonymous || job.seated.size() >= job.consumers; }

}  // namespace

// A job goes when nobody reads it and nobody can come to it: it has finished for all, or it has no name to be found by. One whose lease ended comes
// back by itself, to a job without a name too: a process that was stopped, a network that was away.
void DispatcherCore::Impl::CollectJobs() {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    Job& job = it->second;
    if (Read(job)) {
      // Who only asks for one that is over does not keep it: it is told so.
      if (!job.finished() || Seated(job)) job.read = now_;
      ++it;
    } else if (Recalled(job)) {
      it = Forget(it);
    } else if (job.finished() && NobodyToCome(job)) {
      it = Bury(it, kOutcomeFinished);
    } else if (job.anonymous && (job.members.empty() || now_ - job.read > kForgetExpired)) {
      it = Bury(it, kOutcomeLeft);
    } else {
      ++it;
    }
  }
}

void DispatcherCore::Impl::CollectUnread() {
  std::vector<std::pair<TimePoint, JobId>> unread;  // the longest unread first
  for (const auto& [id, job] : jobs_) {
    if (!Read(job)) unread.emplace_back(job.read, id);
  }
  std::sort(unread.begin(), unread.end());
  for (size_t i = 0; i < unread.size(); ++i) {
    const bool over = unread.size() - i > kUnreadJobs || now_ - unread[i].first > kUnreadFor;
    if (!over) continue;
    const auto job = jobs_.find(unread[i].second);
    Bury(job, job->second.finished() ? kOutcomeFinished : kOutcomeLeft);
  }
}

JobCounts DispatcherCore::Impl::CountJobs() const {
  JobCounts counts;
  for (const Tombstone& tombstone : tombstones_) ++(tombstone.outcome == kOutcomeFinished ? counts.finished : counts.unfinished);
  for (const auto& [id, job] : jobs_) {
    if (!Recalled(job)) ++(job.finished() ? counts.finished : counts.unfinished);  // that one is counted by its tombstone
  }
  return counts;
}

// One that is over, and is here only because somebody joined it, who may restore a position of it. Nobody did: its tombstone stands, and is all that
// is left of it.
bool DispatcherCore::Impl::Recalled(const Job& job) const {
  return job.finished() && job.generation == Generation{} && !job.anonymous && OutcomeOf(job.name).has_value();
}

// Of the same name, with other terms: of those who joined it when it was over, others were the first to restore it.
bool DispatcherCore::Impl::RestoredByOthers(const Job& job) const {
  return Recalled(job) &&
         std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& item) { return item.second.name == job.name && !Recalled(item.second); });
}

// A start that came to nothing, refused by a worker, say: nobody reads, and no row was delivered. Whoever mends what was wrong comes with other
// terms, and the name is theirs.
bool DispatcherCore::Impl::MakesWay(const Job& job, const msg::Join& join) const {
  const bool begun = Read(job) || !job.base.empty() || job.generation != Generation{} || job.first_open != Epoch{} || !job.delivered.empty() ||
                     OutcomeOf(job.name).has_value();
  if (begun || (job.consumers == join.consumers && CheckTerms(job, join).ok())) return false;
  const auto came_somewhere = [](const VacantSeat& seat) { return seat.ended || seat.epoch != Epoch{} || !seat.position.empty(); };
  return std::all_of(job.open.begin(), job.open.end(), [](const auto& item) { return item.second.Untouched(); }) &&
         std::none_of(job.vacated.begin(), job.vacated.end(), [&](const auto& item) { return came_somewhere(item.second); });
}

std::map<JobId, Job>::iterator DispatcherCore::Impl::Forget(std::map<JobId, Job>::iterator it) {
  const Job& job = it->second;
  Put(JobKey(job.id), std::nullopt);
  Put(InputsKey(job.id), std::nullopt);
  if (!job.base.empty()) Put(BaseKey(job.id), std::nullopt);
  for (const auto& [epoch, state] : job.open) Put(EpochKey(job.id, epoch), std::nullopt);
  for (const auto& [id, member] : job.members) Put(MemberKey(job.id, id), std::nullopt);
  return jobs_.erase(it);
}

std::map<JobId, Job>::iterator DispatcherCore::Impl::Bury(std::map<JobId, Job>::iterator it, std::string outcome) {
  const Job& job = it->second;
  const bool finished = outcome == kOutcomeFinished;
  Log(finished ? "job.finish" : "job.left",
      {{"job", job.name}, {"dataset", job.dataset}, {"generation", job.generation}, {"epoch", job.first_open}, {"repeated_rows", job.redelivered}},
      finished || job.anonymous ? LogLevel::kInfo : LogLevel::kWarn);
  tombstones_.push_back({next_tombstone_++, job.id, job.anonymous ? "" : job.name, job.dataset, std::move(outcome)});
  Put(TombstoneKey(tombstones_.back().ordinal), EncodeTombstone(tombstones_.back()));
  if (tombstones_.size() > kTombstones) {
    Put(TombstoneKey(tombstones_.front().ordinal), std::nullopt);
    tombstones_.pop_front();
  }
  return Forget(it);
}

}  // namespace penstock::dispatcher
