// Joining: a job is made by the first join that names it, and starts when a worker has listed its inputs.
#include <algorithm>
#include <functional>
#include <utility>

#include "base/constants.h"
#include "base/name.h"
#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"
#include "dispatcher/terms.h"
#include "plan/limits.h"

namespace penstock::dispatcher {
namespace {

constexpr auto kListDeadline = std::chrono::seconds(60);

// What the protocol has and this version does not: a line goes when the feature comes.
struct NotYet {
  bool (*asked)(const msg::Join& join);
  const char* what;
  const char* instead;
};
constexpr NotYet kNotYet[] = {
    {[](const msg::Join& join) { return join.mode == Mode::kSharded; }, "mode sharded", "mode shared"},
};

bool WorthAnotherWorker(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadline || code == Code::kCancelled || code == Code::kBusy;
}

}  // namespace

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::Join& join) {
  if (Status status = CheckJoin(join); !status.ok()) return Fail(session, request, status);
  const PendingJoin pending{session, request, join, {}};
  if (Job* job = FindJob(join)) {
    if (!MakesWay(*job, join)) return JoinReady(pending, *job);
    Log("job.replace", {{"job", job->name}, {"dataset", job->dataset}, {"why", "it was never read, and another of its name comes"}});
    Forget(jobs_.find(job->id));
  }
  if (Listing* listing = FindListing(join)) {
    if (Status status = CheckTerms(listing->job, join); !status.ok()) return Fail(session, request, status);
    joins_.push_back(pending);
    joins_.back().job = listing->job.id;
    return;
  }
  StartListing(session, request, join);
}

Status DispatcherCore::Impl::CheckJoin(const msg::Join& join) const {
  if (!join.job_name.empty()) PENSTOCK_TRY(CheckName("the job's name", join.job_name));
  if (!join.name.empty()) PENSTOCK_TRY(CheckName("the consumer's name", join.name));
  for (const NotYet& row : kNotYet) {
    if (row.asked(join)) {
      return Status(Code::kInvalid, std::string(row.what) + " is not available in this version: use " + row.instead);
    }
  }
  if (join.consumers > kMostConsumers) {
    return Status(Code::kInvalid,
                  std::to_string(join.consumers) + " consumers are more than the " + std::to_string(kMostConsumers) + " that a job may have");
  }
  if (join.consumers > 0 && join.index >= join.consumers) {
    return Status(Code::kInvalid, "consumer index " + std::to_string(join.index) + " is not below the declared number of consumers, " +
                                      std::to_string(join.consumers));
  }
  if (join.mode == Mode::kStrict && join.consumers == 0) {
    return Status(Code::kInvalid,
                  "mode strict deals batches to consumers by their index: declare their number and this one's index, or use mode shared");
  }
  const bool even = join.even == Even::kDrop || join.even == Even::kPad;
  if (even && join.mode == Mode::kShared && join.on_death == OnDeath::kRedeliver) {
    return Status(Code::kInvalid, std::string("even=") + (join.even == Even::kPad ? "pad" : "drop") +
                                      " ends all consumers at one step, and on_death=redeliver lets them go on without one, which then comes back to "
                                      "another step than theirs: use on_death=hold, or even=uneven");
  }
  if (!datasets_.contains(join.dataset)) {
    return Status(Code::kNotFound, "no dataset " + join.dataset + " is registered here: register it first");
  }
  return {};
}

// A name has one job that is read. Whoever joins a name that is over may restore it, and nobody knows yet who will: those who come with other terms
// do not keep each other from it.
Job* DispatcherCore::Impl::FindJob(const msg::Join& join) {
  for (auto& [id, job] : jobs_) {
    const bool same = join.job_name.empty() ? job.anonymous && job.members.contains(ConsumerId{join.incarnation}) : job.name == join.job_name;
    if (same && !Recalled(job)) return &job;
  }
  const auto recalled = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& item) {
    return item.second.name == join.job_name && Recalled(item.second) && CheckTerms(item.second, join).ok();
  });
  return recalled == jobs_.end() ? nullptr : &recalled->second;
}

DispatcherCore::Impl::Listing* DispatcherCore::Impl::FindListing(const msg::Join& join) {
  for (auto& [id, listing] : listings_) {
    const bool same = !join.job_name.empty() && listing.job.name == join.job_name;
    if (same && (!Recalled(listing.job) || CheckTerms(listing.job, join).ok())) return &listing;
    for (const PendingJoin& pending : joins_) {
      if (listing.job.anonymous && pending.job == id && pending.join.incarnation == join.incarnation) return &listing;
    }
  }
  return nullptr;
}

// The term makes the id unique over restarts, without a counter in the store; the cluster, among dispatchers that follow each other at one
// address: a worker that outlives one must not take a job of the next for one that it knows.
JobId DispatcherCore::Impl::JobNumbered(uint32_t number) const {
  return JobId{(Raw(options_.term) << 32 | number) ^ std::hash<std::string>{}(options_.cluster)};
}

bool DispatcherCore::Impl::MadeByThisStart(JobId job) const {
  const auto number = static_cast<uint32_t>(Raw(job) ^ Raw(JobNumbered(0)));
  return number != 0 && number <= jobs_made_ && JobNumbered(number) == job;
}

void DispatcherCore::Impl::StartListing(SessionId session, RequestId request, const msg::Join& join) {
  const JobId id = JobNumbered(++jobs_made_);
  Listing listing;
  Job& job = listing.job;
  job.id = id;
  job.anonymous = join.job_name.empty();
  job.name = job.anonymous ? "anonymous-" + std::to_string(Raw(options_.term)) + "-" + std::to_string(jobs_made_) : join.job_name;
  job.dataset = join.dataset;
  job.mode = join.mode;
  job.seed = join.seed;
  job.epochs = join.epochs;
  job.consumers = join.consumers;
  job.even = join.even;
  job.on_death = join.on_death;
  job.places = join.places != 0 ? join.places : join.consumers;
  // A name that was read to its end: there is nothing more to read but what a restored position leaves.
  if (OutcomeOf(join.job_name)) job.first_open = Epoch{join.epochs};
  listing.since = now_;
  joins_.push_back({session, request, join, id});
  AskForInputs(listings_.emplace(id, std::move(listing)).first->second);
}

void DispatcherCore::Impl::AskForInputs(Listing& listing) {
  if (listing.ask.has_value()) return;
  for (const auto& [id, worker] : workers_) {
    if (worker.awaited || worker.info.draining || listing.tried.contains(id)) continue;
    listing.ask = AskId{++asks_made_};
    listing.worker = id;
    const auto first = std::find_if(joins_.begin(), joins_.end(), [&](const PendingJoin& pending) { return pending.job == listing.job.id; });
    const std::string asks = first == joins_.end() ? "" : first->join.name;
    const msg::ListInputs question{listing.job.id, datasets_.at(listing.job.dataset).plan, listing.job.seed, listing.job.name, asks};
    out_->asks.push_back({worker.session, *listing.ask, question, kListDeadline});
    return;
  }
}

void DispatcherCore::Impl::OnInputs(Listing& listing, Result<Message> answer) {
  const JobId id = listing.job.id;
  listing.ask.reset();
  if (answer.ok()) {
    if (const auto* inputs = std::get_if<msg::Inputs>(&*answer)) return OnListed(id, *inputs);
    return FailListing(id, Status(Code::kInternal, "a worker answered a question for inputs with something else"));
  }
  if (!WorthAnotherWorker(answer.status().code())) return FailListing(id, answer.status(), listing.worker);
  listing.tried.insert(listing.worker);
  listing.last_error = answer.status();
  AskForInputs(listing);
}

Status DispatcherCore::Impl::CheckTerms(const Job& job, const msg::Join& join) const {
  if (job.dataset == join.dataset) return CompareTerms(job, join);
  const auto has = datasets_.find(job.dataset);
  const bool known = has != datasets_.end() && options_.difference;
  return OtherDataset(job, join.dataset, known ? options_.difference(has->second.plan, datasets_.at(join.dataset).plan) : "");
}

// Of the last job of this name that is over.
std::optional<std::string> DispatcherCore::Impl::OutcomeOf(const std::string& name) const {
  const auto last =
      std::find_if(tombstones_.rbegin(), tombstones_.rend(), [&](const Tombstone& tombstone) { return !name.empty() && tombstone.name == name; });
  return last == tombstones_.rend() ? std::nullopt : std::optional(last->outcome);
}

void DispatcherCore::Impl::OnListed(JobId id, const msg::Inputs& inputs) {
  Job job = std::move(listings_.at(id).job);
  job.inputs = inputs;
  job.inputs.job = id;
  job.read = now_;
  if (Status status = CheckLayout(job); !status.ok()) {
    listings_.at(id).job = std::move(job);
    return FailListing(id, status);
  }
  listings_.erase(id);
  Job& stored = jobs_.emplace(id, std::move(job)).first->second;
  if (stored.mode == Mode::kReplicated) {
    Changes changes;
    for (const auto& [worker, state] : workers_) {
      if (!state.info.draining) AddReplica(stored, worker, changes);
    }
  }
  Put(JobKey(id), EncodeJob(stored));
  Put(InputsKey(id), EncodeInputs(stored.inputs));
  if (!Recalled(stored)) {
    Log("job.start", {{"job", stored.name},
                      {"dataset", stored.dataset},
                      {"mode", Name(stored.mode)},
                      {"lanes", inputs.layout.lanes},
                      {"epochs", stored.epochs},
                      {"consumers", stored.consumers}});
  }
  std::vector<PendingJoin> waiting;
  std::erase_if(joins_, [&](const PendingJoin& pending) {
    if (pending.job == id) waiting.push_back(pending);
    return pending.job == id;
  });
  for (const PendingJoin& pending : waiting) JoinReady(pending, stored);
}

// `worker`: that refused its inputs; none where the dispatcher did.
void DispatcherCore::Impl::FailListing(JobId id, const Status& error, WorkerId worker) {
  const Job& job = listings_.at(id).job;
  const auto by = workers_.find(worker);
  Log("job.refused",
      {{"job", job.name}, {"dataset", job.dataset}, {"worker", by == workers_.end() ? "" : by->second.info.address}, {"why", error.message()}},
      WorthAnotherWorker(error.code()) ? LogLevel::kDebug : LogLevel::kWarn);  // who waits for a worker asks again and again
  listings_.erase(id);
  std::erase_if(joins_, [&](const PendingJoin& pending) {
    if (pending.job != id) return false;
    Fail(pending.session, pending.request, error);
    return true;
  });
}

void DispatcherCore::Impl::CheckListings() {
  std::vector<std::pair<JobId, Status>> failed;
  for (auto& [id, listing] : listings_) {
    if (listing.ask.has_value()) continue;
    listing.tried.clear();
    AskForInputs(listing);
    if (listing.ask.has_value() || now_ - listing.since < options_.worker_deadline) continue;
    Status error = listing.last_error;
    if (error.ok()) {
      error =
          Status(Code::kUnavailable, "no worker is there to list the inputs of the dataset; start one with `penstock worker --dispatcher ADDRESS`");
      if (Recalled(listing.job)) {
        error = Status(Code::kUnavailable, JobFinished(listing.job, *OutcomeOf(listing.job.name)).message() + ", for which " + error.message());
      }
    }
    failed.emplace_back(id, std::move(error));
  }
  for (const auto& [id, error] : failed) FailListing(id, error);
  const auto orphaned = [&](const auto& item) {
    return std::none_of(joins_.begin(), joins_.end(), [&](const PendingJoin& pending) { return pending.job == item.first; });
  };
  std::erase_if(listings_, orphaned);
}

}  // namespace penstock::dispatcher
