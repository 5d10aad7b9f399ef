// Who the workers are. The list lives in memory: a worker says hello again to a dispatcher that does not know it.
#include <algorithm>

#include "base/constants.h"
#include "base/name.h"
#include "dispatcher/core_impl.h"

namespace penstock::dispatcher {
namespace {

constexpr size_t kMostAddressBytes = 512;                          // the longest name of a host has 253
constexpr Duration kMostUnasked = std::chrono::milliseconds(100);  // of what lists of workers to all may take

Status CheckHello(const msg::WorkerHello& hello) {
  if (!hello.name.empty()) PENSTOCK_TRY(CheckName("the worker's name", hello.name));
  for (const std::string* address : {&hello.address, &hello.unix_socket}) {
    if (address->size() > kMostAddressBytes || Printable(*address) != *address) {
      return Status(Code::kInvalid, "the worker's address has " + std::to_string(address->size()) + " bytes or control characters; at most " +
                                        std::to_string(kMostAddressBytes) + " bytes without control characters are taken: mend --advertise");
    }
  }
  return {};
}

}  // namespace

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::WorkerHello& hello) {
  if (Status wrong = CheckHello(hello); !wrong.ok()) return Fail(session, request, std::move(wrong));
  const WorkerId id{hello.incarnation};
  const bool added = !workers_.contains(id);
  Worker& worker = workers_[id];
  worker.info = {.worker = id, .address = hello.address, .unix_socket = hello.unix_socket, .boot_id = hello.boot_id, .netns = hello.netns};
  worker.awaited = false;
  worker.session = session;
  worker.heard = now_;
  worker.name = hello.name;
  worker.pid = hello.pid;
  worker.last.budget = hello.memory;
  Reply(session, request, msg::WorkerWelcome{id, static_cast<uint32_t>(std::chrono::milliseconds(kWorkerLease).count())});
  if (added) {
    Log("worker.join", {{"worker", hello.name}, {"address", hello.address}, {"memory", hello.memory}, {"cpus", hello.cpus}});
    AddReplicas(id);
  }
  TellAllWorkersChanged();
  for (auto& [job, listing] : listings_) AskForInputs(listing);
}

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::WorkerBeat& beat) {
  msg::WorkerBeatReply reply;
  auto it = workers_.find(beat.worker);
  reply.known = it != workers_.end() && !it->second.awaited;
  if (reply.known) {
    Worker& worker = it->second;
    worker.heard = now_;
    worker.session = session;
    worker.last = beat;
    const bool changed = worker.info.draining != beat.draining;
    worker.info.draining = beat.draining;
    if (changed) TellAllWorkersChanged();
  }
  for (const JobId job : beat.jobs) {
    const auto known = jobs_.find(job);
    if (known == jobs_.end() || known->second.finished()) reply.forget.push_back(job);
  }
  Reply(session, request, std::move(reply));
}

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::GetJob& message) {
  auto it = jobs_.find(message.job);
  if (it == jobs_.end()) {
    return Fail(session, request, Status(Code::kNotFound, "job " + std::to_string(Raw(message.job)) + " is not known: it has finished or was left"));
  }
  const Job& job = it->second;
  Reply(session, request,
        msg::JobReply{.job = job.id,
                      .dataset = job.dataset,
                      .plan = datasets_.at(job.dataset).plan,
                      .manifest = job.inputs.manifest,
                      .seed = job.seed,
                      .mode = job.mode,
                      .generation = job.generation,
                      .name = job.name});
}

void DispatcherCore::Impl::AddReplicas(WorkerId worker) {
  for (auto& [id, job] : jobs_) {
    if (job.mode != Mode::kReplicated) continue;
    Changes changes;
    AddReplica(job, worker, changes);
    Record(job, changes);
    Settle(job);
  }
}

void DispatcherCore::Impl::AddReplica(Job& job, WorkerId worker, Changes& changes) {
  const Replica replica{ReplicaId{job.next_replica++}, worker};
  job.replicas.push_back(replica);
  changes.job = true;
  for (auto& [epoch, state] : job.open) {
    // Who was told END was told that nothing comes any more.
    const bool ending = std::any_of(job.members.begin(), job.members.end(),
                                    [e = epoch](const auto& item) { return item.second.epoch > e || (item.second.epoch == e && item.second.ended); });
    if (ending && !state.replicas().empty()) continue;
    state.AddReplica(replica.replica, worker);
    changes.epochs.insert(epoch);
  }
}

void DispatcherCore::Impl::LoseWorker(WorkerId id, const std::string& why) {
  auto it = workers_.find(id);
  if (it == workers_.end()) return;
  const bool said_so = it->second.info.draining;
  Log(said_so ? "worker.leave" : "worker.lost",
      {{"worker", it->second.name},
       {"address", it->second.info.address},
       {"lanes", it->second.last.lanes},
       {"why", said_so ? "it has drained" : why}},
      said_so ? LogLevel::kInfo : LogLevel::kWarn);
  workers_.erase(it);
  for (auto& [job_id, job] : jobs_) {
    Changes changes;
    for (const Replica& replica : job.replicas) {
      if (replica.worker != id) continue;
      changes.job = true;
      for (auto& [epoch, state] : job.open) {
        for (ConsumerId holder : state.DropReplica(replica.replica)) changes.members.insert(holder);
        changes.epochs.insert(epoch);
      }
    }
    std::erase_if(job.replicas, [&](const Replica& replica) { return replica.worker == id; });
    Record(job, changes);
    if (changes.job) Settle(job);
  }
  for (auto& [job_id, listing] : listings_) {
    if (!listing.ask.has_value() || listing.worker != id) continue;
    listing.ask.reset();
    AskForInputs(listing);
  }
  TellAllWorkersChanged();
}

void DispatcherCore::Impl::ExpireWorkers() {
  std::vector<WorkerId> silent;
  for (const auto& [id, worker] : workers_) {
    if (now_ - worker.heard > kWorkerLease) silent.push_back(id);
  }
  for (WorkerId id : silent) LoseWorker(id, "it was silent for its lease");
}

// Every consumer opens its lanes by the list it knows.
void DispatcherCore::Impl::TellAllWorkersChanged() {
  ++workers_version_;
  const Duration pause = PauseOfWorkerLists();
  if (pause > kMostUnasked) return;  // so long nobody else would be answered: each hears of it by its next beat
  for (auto& [id, job] : jobs_) {
    for (auto& [consumer, member] : job.members) member.news = member.news || now_ - member.told_at >= pause;
    SendNews(job);
  }
}

bool DispatcherCore::Impl::AnyWorker() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& item) { return !item.second.awaited; });
}

std::vector<msg::WorkerInfo> DispatcherCore::Impl::WorkerList() const {
  std::vector<msg::WorkerInfo> list;
  for (const auto& [id, worker] : workers_) {
    if (!worker.awaited) list.push_back(worker.info);
  }
  return list;
}

}  // namespace penstock::dispatcher
