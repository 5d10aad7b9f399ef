// Joining: a job is made by the first join that names it, and starts when a worker has listed its inputs.
#include <algorithm>
#include <functional>
#include <utility>

#include "base/constants.h"
#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"

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
    {[](const msg::Join& join) { return join.mode == Mode::kStrict; }, "mode strict", "mode shared"},
    {[](const msg::Join& join) { return join.mode == Mode::kSharded; }, "mode sharded", "mode shared"},
    {[](const msg::Join& join) { return join.even == Even::kDrop; }, "even=drop", "even=uneven"},
    {[](const msg::Join& join) { return join.even == Even::kPad; }, "even=pad", "even=uneven"},
};

std::string Quoted(const Job& job) { return "job '" + job.name + "'"; }

Status Differs(const Job& job, const std::string& what, const std::string& has, const std::string& asked) {
  return Status(Code::kMismatch, Quoted(job) + " has " + what + " " + has + ", this join asks for " + asked + ": use the same, or another job name")
      .With("job", job.name);
}

Status Compare(const Job& job, const msg::Join& join) {
  if (job.dataset != join.dataset) return Differs(job, "dataset", job.dataset, join.dataset);
  if (job.mode != join.mode) return Differs(job, "mode", std::string(Name(job.mode)), std::string(Name(join.mode)));
  if (job.seed != join.seed) return Differs(job, "seed", std::to_string(job.seed), std::to_string(join.seed));
  if (job.epochs != join.epochs) return Differs(job, "epochs", std::to_string(job.epochs), std::to_string(join.epochs));
  if (job.consumers != join.consumers) return Differs(job, "consumers", std::to_string(job.consumers), std::to_string(join.consumers));
  return {};
}

Status Finished(const std::string& name) {
  return Status(Code::kFinished, "job '" + name + "' has finished: its epochs were delivered; read again under another job name").With("job", name);
}

bool WorthAnotherWorker(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadline || code == Code::kCancelled || code == Code::kBusy;
}

}  // namespace

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::Join& join) {
  if (Status status = CheckJoin(join); !status.ok()) return Fail(session, request, status);
  const PendingJoin pending{session, request, join, {}, now_};
  if (Job* job = FindJob(join)) return JoinReady(pending, *job);
  if (Listing* listing = FindListing(join)) {
    if (Status status = Compare(listing->job, join); !status.ok()) return Fail(session, request, status);
    joins_.push_back(pending);
    joins_.back().job = listing->job.id;
    return;
  }
  StartListing(session, request, join);
}

Status DispatcherCore::Impl::CheckJoin(const msg::Join& join) const {
  for (const NotYet& row : kNotYet) {
    if (row.asked(join)) {
      return Status(Code::kInvalid, std::string(row.what) + " is not available in this version: use " + row.instead);
    }
  }
  if (join.consumers > 0 && join.index >= join.consumers) {
    return Status(Code::kInvalid, "consumer index " + std::to_string(join.index) + " is not below the declared number of consumers, " +
                                      std::to_string(join.consumers));
  }
  if (!datasets_.contains(join.dataset)) {
    return Status(Code::kNotFound, "no dataset " + join.dataset + " is registered here: register it first");
  }
  for (const Tombstone& tombstone : tombstones_) {
    if (!join.job_name.empty() && tombstone.name == join.job_name) return Finished(join.job_name);
  }
  return {};
}

Job* DispatcherCore::Impl::FindJob(const msg::Join& join) {
  for (auto& [id, job] : jobs_) {
    const bool same = join.job_name.empty() ? job.anonymous && job.members.contains(ConsumerId{join.incarnation}) : job.name == join.job_name;
    if (same) return &job;
  }
  return nullptr;
}

DispatcherCore::Impl::Listing* DispatcherCore::Impl::FindListing(const msg::Join& join) {
  for (auto& [id, listing] : listings_) {
    if (!join.job_name.empty() && listing.job.name == join.job_name) return &listing;
    for (const PendingJoin& pending : joins_) {
      if (listing.job.anonymous && pending.job == id && pending.join.incarnation == join.incarnation) return &listing;
    }
  }
  return nullptr;
}

void DispatcherCore::Impl::StartListing(SessionId session, RequestId request, const msg::Join& join) {
  // The term makes the id unique over restarts, without a counter in the store; the cluster, among dispatchers that follow each other at one
  // address: a worker that outlives one must not take a job of the next for one that it knows.
  const JobId id{(Raw(options_.term) << 32 | ++jobs_made_) ^ std::hash<std::string>{}(options_.cluster)};
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
  listing.since = now_;
  joins_.push_back({session, request, join, id, now_});
  AskForInputs(listings_.emplace(id, std::move(listing)).first->second);
}

void DispatcherCore::Impl::AskForInputs(Listing& listing) {
  if (listing.ask.has_value()) return;
  for (const auto& [id, worker] : workers_) {
    if (worker.awaited || worker.info.draining || listing.tried.contains(id)) continue;
    listing.ask = AskId{++asks_made_};
    listing.worker = id;
    const msg::ListInputs question{listing.job.id, datasets_.at(listing.job.dataset), listing.job.seed};
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
  if (!WorthAnotherWorker(answer.status().code())) return FailListing(id, answer.status());
  listing.tried.insert(listing.worker);
  listing.last_error = answer.status();
  AskForInputs(listing);
}

void DispatcherCore::Impl::OnListed(JobId id, const msg::Inputs& inputs) {
  Job job = std::move(listings_.at(id).job);
  listings_.erase(id);
  job.inputs = inputs;
  job.inputs.job = id;
  job.since = now_;
  Job& stored = jobs_.emplace(id, std::move(job)).first->second;
  if (stored.mode == Mode::kReplicated) {
    Changes changes;
    for (const auto& [worker, state] : workers_) {
      if (!state.info.draining) AddReplica(stored, worker, changes);
    }
  }
  Put(JobKey(id), EncodeJob(stored));
  Put(InputsKey(id), EncodeInputs(stored.inputs));
  Log(Quoted(stored) + " starts: dataset " + stored.dataset + ", " + std::to_string(inputs.layout.lanes) + " lanes");
  std::vector<PendingJoin> waiting;
  std::erase_if(joins_, [&](const PendingJoin& pending) {
    if (pending.job == id) waiting.push_back(pending);
    return pending.job == id;
  });
  for (const PendingJoin& pending : waiting) JoinReady(pending, stored);
}

void DispatcherCore::Impl::FailListing(JobId id, const Status& error) {
  listings_.erase(id);
  std::erase_if(joins_, [&](const PendingJoin& pending) {
    if (pending.job != id) return false;
    Fail(pending.session, pending.request, error);
    return true;
  });
}

void DispatcherCore::Impl::JoinReady(const PendingJoin& pending, Job& job) {
  auto member = job.members.find(ConsumerId{pending.join.incarnation});
  if (member != job.members.end()) {
    member->second.session = pending.session;
    return SendJoined(pending, job, member->second);
  }
  if (Status status = Compare(job, pending.join); !status.ok()) return Fail(pending.session, pending.request, status);
  if (job.finished()) return Fail(pending.session, pending.request, Finished(job.name));
  if (!SeatTaken(pending, job)) Admit(pending, job);
}

// Two consumers never have one index. Where the first one's connection is gone it may be dead: then the second waits for its lease to end.
bool DispatcherCore::Impl::SeatTaken(const PendingJoin& pending, Job& job) {
  if (job.consumers == 0) return false;
  for (auto& [id, member] : job.members) {
    if (member.index != pending.join.index) continue;
    if (member.expired) {
      Changes changes;
      RemoveMember(job, id, changes);
      Record(job, changes);
      return false;
    }
    if (member.session == SessionId{}) {
      joins_.push_back(pending);
      joins_.back().job = job.id;
    } else {
      Fail(pending.session, pending.request,
           Status(Code::kExists, Quoted(job) + " already has a consumer with index " + std::to_string(member.index) + ", " + member.name +
                                     ": give each consumer its own index, or stop that one")
               .With("consumer", member.name));
    }
    return true;
  }
  return false;
}

void DispatcherCore::Impl::Admit(const PendingJoin& pending, Job& job) {
  Consumer consumer;
  consumer.id = ConsumerId{pending.join.incarnation};
  consumer.index = pending.join.index;
  consumer.name = pending.join.name;
  consumer.epoch = job.first_open;
  consumer.heard = now_;
  consumer.session = pending.session;
  Changes changes;
  changes.members.insert(consumer.id);
  const Consumer& stored = job.members.insert_or_assign(consumer.id, std::move(consumer)).first->second;
  dispatcher::Settle(job, now_, changes);
  Record(job, changes);
  Log(stored.name + " joined " + Quoted(job));
  SendJoined(pending, job, stored);
  SendNews(job);
}

void DispatcherCore::Impl::SendJoined(const PendingJoin& pending, const Job& job, const Consumer& consumer) {
  Reply(pending.session, pending.request,
        msg::Joined{.job = job.id,
                    .consumer = consumer.id,
                    .generation = job.generation,
                    .epoch = consumer.epoch,
                    .epochs = job.epochs,
                    .mode = job.mode,
                    .lease_ms = static_cast<uint32_t>(std::chrono::milliseconds(kClientLease).count()),
                    .layout = job.inputs.layout,
                    .manifest_hash = job.inputs.manifest_hash,
                    .workers = WorkerList(),
                    .job_name = job.name});
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
      error = Status(Code::kUnavailable, "no worker has registered with this dispatcher, so nobody can list the inputs of " + Quoted(listing.job) +
                                             ": start one with `penstock worker --dispatcher ADDRESS`");
    }
    failed.emplace_back(id, std::move(error));
  }
  for (const auto& [id, error] : failed) FailListing(id, error);
  const auto orphaned = [&](const auto& item) {
    return std::none_of(joins_.begin(), joins_.end(), [&](const PendingJoin& pending) { return pending.job == item.first; });
  };
  std::erase_if(listings_, orphaned);
}

void DispatcherCore::Impl::RetryWaitingJoins() {
  std::vector<PendingJoin> waiting;
  std::erase_if(joins_, [&](const PendingJoin& pending) {
    const bool ready = !listings_.contains(pending.job);
    if (ready) waiting.push_back(pending);
    return ready;
  });
  for (const PendingJoin& pending : waiting) {
    auto job = jobs_.find(pending.job);
    if (job != jobs_.end()) {
      JoinReady(pending, job->second);
    } else {
      OnMessage(pending.session, pending.request, pending.join);
    }
  }
}

}  // namespace penstock::dispatcher
