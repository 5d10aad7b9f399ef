#include "dispatcher/core.h"

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"

namespace penstock::dispatcher {
namespace {
constexpr auto kTick = std::chrono::milliseconds(250);  // leases are coarse: looking four times a second is enough
constexpr auto kCollectEvery = std::chrono::seconds(30);
}  // namespace

void Actions::Clear() {
  persist.clear();
  sends.clear();
  asks.clear();
  timer.reset();
  log.clear();
}

DispatcherCore::DispatcherCore(CoreOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
DispatcherCore::~DispatcherCore() = default;
Status DispatcherCore::Restore(TimePoint now, const Snapshot& stored) { return impl_->Restore(now, stored); }
void DispatcherCore::On(TimePoint now, const Event& event, Actions& out) { impl_->On(now, event, out); }
Snapshot DispatcherCore::TakeSnapshot() const { return impl_->TakeSnapshot(); }
const CoreCounts& DispatcherCore::counts() const { return impl_->counts(); }
bool DispatcherCore::Quiet() const { return impl_->Quiet(); }
JobCounts DispatcherCore::CountJobs() const { return impl_->CountJobs(); }
std::string DispatcherCore::JobName(JobId job) const { return impl_->JobName(job); }

std::string DispatcherCore::Impl::JobName(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::string() : found->second.name;
}

bool DispatcherCore::Impl::Quiet() const {
  if (!listings_.empty() || !joins_.empty() || (jobs_.empty() && tombstones_.empty())) return false;
  return std::none_of(jobs_.begin(), jobs_.end(), [](const auto& item) {
    const auto& members = item.second.members;
    return std::any_of(members.begin(), members.end(), [](const auto& member) { return !member.second.expired; });
  });
}

void DispatcherCore::Impl::On(TimePoint now, const Event& event, Actions& out) {
  out.Clear();
  now_ = now;
  out_ = &out;
  std::visit([this](const auto& e) { Handle(e); }, event);
  CollectJobs();
  Flush();
  // One wish at a time: events that come faster than ticks must not put the next tick off.
  if (!tick_at_) out.timer = tick_at_ = now + kTick;
  out_ = nullptr;
}

void DispatcherCore::Impl::Handle(const PeerMessage& event) {
  std::visit([&](const auto& message) { OnMessage(event.session, event.request, message); }, event.message);
}

void DispatcherCore::Impl::Handle(const SessionClosed& event) {
  std::erase_if(joins_, [&](const PendingJoin& pending) { return pending.session == event.session; });
  for (auto& [id, cohort] : cohorts_) {
    std::erase_if(cohort.recruits, [&](const auto& item) { return item.second.session == event.session; });
  }
  std::erase_if(gathers_, [&](const auto& item) { return item.second.session == event.session; });
  for (auto& [id, job] : jobs_) {
    for (auto& [consumer, member] : job.members) {
      if (member.session == event.session) member.session = {};
    }
  }
  std::vector<WorkerId> lost;
  for (const auto& [id, worker] : workers_) {
    if (worker.session == event.session && !worker.awaited) lost.push_back(id);
  }
  for (WorkerId worker : lost) LoseWorker(worker, "its connection ended");
}

void DispatcherCore::Impl::Handle(const Answered& event) {
  for (auto& [id, listing] : listings_) {
    if (listing.ask != event.ask) continue;
    OnInputs(listing, event.answer);
    return;
  }
}

void DispatcherCore::Impl::Handle(const TimerFired&) {
  const bool was_stopped = tick_at_ && now_ - *tick_at_ > kSilence;
  tick_at_.reset();
  if (was_stopped) ForgiveSilence();
  ExpireWorkers();
  for (auto& [id, job] : jobs_) {
    ExpireMembers(job);
    Settle(job);
  }
  CheckListings();
  CheckCohorts();
  CheckGathers();
  CollectUnused();
}

// This process stood still (SIGSTOP, a suspended machine): what the others said meanwhile is still to be read. As after a restart all leases
// count as just renewed.
void DispatcherCore::Impl::ForgiveSilence() {
  for (auto& [id, worker] : workers_) worker.heard = now_;
  for (auto& [id, job] : jobs_) {
    for (auto& [consumer, member] : job.members) {
      if (!member.expired) member.heard = now_;
    }
  }
}

void DispatcherCore::Impl::CollectUnused() {
  if (now_ - collected_ < kCollectEvery) return;
  collected_ = now_;
  CollectUnread();
  CollectDatasets();
}

void DispatcherCore::Impl::Reply(SessionId session, RequestId request, Message message) {
  out_->sends.push_back({session, request, std::move(message)});
}

void DispatcherCore::Impl::Fail(SessionId session, RequestId request, Status error) { Reply(session, request, msg::Failed{std::move(error)}); }

void DispatcherCore::Impl::Log(std::string_view event, LogFields fields, LogLevel level) { out_->log.push_back({level, event, fields}); }

void DispatcherCore::Impl::Put(std::string key, std::optional<std::string> value) { writes_[std::move(key)] = std::move(value); }

void DispatcherCore::Impl::Flush() {
  for (auto& [key, value] : writes_) out_->persist.push_back({key, std::move(value)});
  writes_.clear();
}

void DispatcherCore::Impl::Settle(Job& job) {
  Changes changes;
  dispatcher::Settle(job, now_, changes);
  Record(job, changes);
  SendNews(job);
}

// Steps and marks of one beat: what comes again to who is started anew is as much as its steps take.
void DispatcherCore::Impl::NoteStored(Job& job, Consumer& consumer) {
  consumer.stored = consumer.came;
  for (auto& [epoch, state] : job.open) state.NoteStored(consumer.id);
}

void DispatcherCore::Impl::Record(Job& job, const Changes& changes) {
  if (changes.job) Put(JobKey(job.id), EncodeJob(job));
  for (Epoch epoch : changes.epochs) {
    auto state = job.open.find(epoch);
    Put(EpochKey(job.id, epoch), state == job.open.end() ? std::nullopt : std::optional(EncodeEpoch(state->second)));
  }
  for (ConsumerId id : changes.members) {
    if (Planted(Bug::kGrantNotStored)) continue;
    auto member = job.members.find(id);
    if (member != job.members.end()) NoteStored(job, member->second);
    Put(MemberKey(job.id, id), member == job.members.end() ? std::nullopt : std::optional(EncodeMember(job, member->second)));
  }
}

// Nobody waits a second for a handover: who has news and a session is told at once.
void DispatcherCore::Impl::SendNews(Job& job) {
  for (auto& [id, consumer] : job.members) {
    if (!std::exchange(consumer.news, false) || consumer.session == SessionId{} || consumer.serial == 0) continue;
    out_->sends.push_back({consumer.session, RequestId{}, MakeReply(job, consumer)});
  }
}

Snapshot DispatcherCore::Impl::TakeSnapshot() const {
  Snapshot snapshot;
  for (const auto& [id, dataset] : datasets_) snapshot[DatasetKey(id)] = dataset.plan;
  for (const auto& [id, job] : jobs_) {
    snapshot[JobKey(id)] = EncodeJob(job);
    snapshot[InputsKey(id)] = EncodeInputs(job.inputs);
    if (!job.base.empty()) snapshot[BaseKey(id)] = job.base;
    for (const auto& [epoch, state] : job.open) snapshot[EpochKey(id, epoch)] = EncodeEpoch(state);
    for (const auto& [consumer, member] : job.members) snapshot[MemberKey(id, consumer)] = EncodeMember(job, member);
  }
  for (const Tombstone& tombstone : tombstones_) snapshot[TombstoneKey(tombstone.ordinal)] = EncodeTombstone(tombstone);
  return snapshot;
}

}  // namespace penstock::dispatcher
