#include "dispatcher/server.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "dispatcher/core.h"
#include "dispatcher/store.h"
#include "dispatcher/tick.h"
#include "penstock/plan.h"
#include "plan/difference.h"
#include "plan/position.h"
#include "wire/codec.h"
#include "wire/io_thread.h"
#include "wire/refusal_log.h"

namespace penstock::dispatcher {
namespace {

std::function<Result<std::string>(std::string_view)> PlanChecker(std::function<Status(std::string_view)> more) {
  return [more = std::move(more)](std::string_view bytes) -> Result<std::string> {
    PENSTOCK_ASSIGN(const Plan plan, ParsePlan(bytes));
    if (more) PENSTOCK_TRY(more(bytes));
    return Fingerprint(plan);
  };
}

Result<std::string> RowsOf(std::string_view bytes) {
  PENSTOCK_ASSIGN(const Plan plan, ParsePlan(bytes));
  return RowsFingerprint(plan);
}

std::string DifferenceOf(std::string_view job, std::string_view joining) {
  const Result<Plan> has = ParsePlan(job);
  const Result<Plan> asks = ParsePlan(joining);
  return has.ok() && asks.ok() ? Difference(*has, *asks, "in the job", "here") : "";
}

}  // namespace

class DispatcherServer::Impl final : public ControlHandler {
 public:
  Impl(ServerOptions options, std::unique_ptr<Store> store);

  Status Open();
  const std::string& address() const { return address_; }
  const std::string& cluster() const { return store_->cluster(); }
  void Stop();
  Status Wait();
  bool Alive(Duration within) { return io_.Answers(within); }

  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override;
  void OnClosed(Session& session, const Status& why) override;

 private:
  void Feed(const Event& event);
  void Take(Actions& actions);
  void FlushSoon();
  void Flush();
  void Say(Tick::Words words);
  void AskWorker(const Ask& ask);
  Status Permit(const Session& session, const Message& message) const;
  static Status PermitWorker(const Session& session, const Message& message);
  void WatchDone();
  void End(Status why, const Status& told);

  const ServerOptions options_;
  const std::unique_ptr<Store> store_;
  DispatcherCore core_;
  IoThread io_;
  Timer core_timer_;
  Timer flush_timer_;
  Timer done_timer_;
  RefusalLog refusals_;
  std::unique_ptr<Listener> listener_;
  std::string address_;

  // On the I/O thread.
  std::map<SessionId, std::shared_ptr<Session>> sessions_;
  Actions actions_;
  Tick tick_;
  bool flush_set_ = false;
  bool over_ = false;
  bool seems_done_ = false;
  TimePoint flushed_{};

  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> outcome_;
};

DispatcherServer::Impl::Impl(ServerOptions options, std::unique_ptr<Store> store)
    : options_(std::move(options)),
      store_(std::move(store)),
      core_({.cluster = store_->cluster(),
             .term = store_->term(),
             .version = PENSTOCK_VERSION,
             .check_plan = PlanChecker(options_.check_plan),
             .rows_of = RowsOf,
             .difference = DifferenceOf,
             .worker_deadline = options_.worker_deadline}),
      io_("pens-dispatch"),
      core_timer_(io_),
      flush_timer_(io_),
      done_timer_(io_),
      refusals_(io_) {}

Status DispatcherServer::Impl::Open() {
  PENSTOCK_ASSIGN(const Snapshot stored, store_->Load());
  PENSTOCK_TRY(core_.Restore(Clock::System().Now(), stored));
  ListenParams params;
  params.address = options_.listen;
  params.token = options_.token;
  params.tls = options_.tls;
  params.cluster = store_->cluster();
  params.term = store_->term();
  params.pace = options_.pace;
  const auto accepted = [this](std::shared_ptr<Session> session) { sessions_[session->id()] = std::move(session); };
  PENSTOCK_ASSIGN(listener_, Listen(io_, std::move(params), *this, accepted));
  address_ = listener_->address();
  PENSTOCK_TRY(store_->Announce(address_));
  io_.Post([this] { Feed(TimerFired{}); });
  LogInfo("dispatcher.up", {{"address", address()}, {"cluster", cluster()}, {"term", store_->term()}});
  return {};
}

void DispatcherServer::Impl::OnMessage(Session& session, StreamId, RequestId request, Message message) {
  if (Status refused = Permit(session, message); !refused.ok()) {
    refusals_.Say("request.refused", session.only_job(), session.peer(), Status(refused).Prefixed(std::string(MessageName(message))));
    if (request != RequestId{}) session.Reply(request, msg::Failed{std::move(refused)});
    return;
  }
  Feed(PeerMessage{session.id(), request, std::move(message)});
}

void DispatcherServer::Impl::OnClosed(Session& session, const Status& why) {
  LogDebug("session.closed", {{"peer", session.peer()}, {"why", why.message()}});
  const SessionId id = session.id();
  sessions_.erase(id);
  Feed(SessionClosed{id});
}

// Consumers show their tokens to workers: whoever could be one with less than the service's own would come to have it.
Status DispatcherServer::Impl::PermitWorker(const Session& session, const Message& message) {
  const bool of_workers = std::holds_alternative<msg::WorkerHello>(message) || std::holds_alternative<msg::WorkerBeat>(message) ||
                          std::holds_alternative<msg::GetJob>(message);
  if (session.may_serve() || !of_workers) return {};
  return Status(Code::kPermission, "a token for a job or a time is for those who read: a worker shows the service's own");
}

// A token for one job reads this job and nothing else: not the status, not other jobs, not what workers are told.
Status DispatcherServer::Impl::Permit(const Session& session, const Message& message) const {
  PENSTOCK_TRY(PermitWorker(session, message));
  const std::string& only = session.only_job();
  if (only.empty()) return {};
  const bool allowed = std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, msg::Register> || std::is_same_v<M, msg::GetDataset>) return true;
        if constexpr (requires { m.job_name; }) return std::string_view(m.job_name) == only;
        if constexpr (requires { core_.JobName(m.job); }) {
          const std::string name = core_.JobName(m.job);
          return name.empty() || name == only;  // that there is no such job is the core's to say
        }
        return false;
      },
      message);
  if (allowed) return {};
  return Status(Code::kPermission,
                "the token is for job '" + only + "' alone: use the service's own, or one that `penstock token create` made for this");
}

// After a failed commit the core knows what the store does not: nothing that rests on it may be stored or answered.
void DispatcherServer::Impl::Feed(const Event& event) {
  if (over_) return;
  core_.On(Clock::System().Now(), event, actions_);
  Take(actions_);
  FlushSoon();
  WatchDone();
}

// A rank that starts again within the time finds its dispatcher still there.
void DispatcherServer::Impl::WatchDone() {
  if (options_.exit_when_done == Duration{0} || core_.Quiet() == seems_done_) return;
  seems_done_ = !seems_done_;
  if (!seems_done_) return done_timer_.Cancel();
  done_timer_.After(options_.exit_when_done, [this] {
    const JobCounts jobs = core_.CountJobs();
    Log(jobs.unfinished == 0 ? LogLevel::kInfo : LogLevel::kWarn, "dispatcher.done",
        {{"why", jobs.unfinished == 0 ? "all jobs were read to their end" : "nobody reads any more, and jobs were left before their end"},
         {"finished", jobs.finished},
         {"unfinished", jobs.unfinished},
         {"unread_ms", std::chrono::duration_cast<std::chrono::milliseconds>(options_.exit_when_done).count()}});
    if (!tick_.empty()) Flush();
    End({}, Status(Code::kFinished, "nobody reads any more"));
  });
}

void DispatcherServer::Impl::Take(Actions& actions) {
  tick_.Take(actions);
  for (const LogEvent& line : actions.log) Log(line.level, line.event, line.fields);
  if (actions.timer.has_value()) {
    core_timer_.After(*actions.timer - Clock::System().Now(), [this] { Feed(TimerFired{}); });
  }
}

// At once when the last commit is a tick ago, else when it will be: many events then share one.
void DispatcherServer::Impl::FlushSoon() {
  if (flush_set_ || tick_.empty()) return;
  flush_set_ = true;
  const Duration since = Clock::System().Now() - flushed_;
  if (!tick_.has_writes() || since >= options_.store_tick) {
    io_.Post([this] { Flush(); });
  } else {
    flush_timer_.After(options_.store_tick - since, [this] { Flush(); });
  }
}

void DispatcherServer::Impl::Flush() {
  flush_set_ = false;
  if (over_) return;
  if (tick_.has_writes()) flushed_ = Clock::System().Now();
  Result<Tick::Words> words = tick_.Commit([this](const std::vector<Write>& writes) { return store_->Commit(writes); });
  if (words.ok()) return Say(*std::move(words));
  Status why = Status(words.status()).Prefixed("the dispatcher stops, nothing that was not stored was answered");
  const Status gone(Code::kUnavailable, why.message());
  End(std::move(why), gone);
}

void DispatcherServer::Impl::Say(Tick::Words words) {
  for (Send& send : words.sends) {
    auto session = sessions_.find(send.session);
    if (session == sessions_.end()) continue;
    if (send.request == RequestId{}) {
      session->second->Send(StreamId{}, std::move(send.message));
    } else {
      session->second->Reply(send.request, std::move(send.message));
    }
  }
  for (const Ask& ask : words.asks) AskWorker(ask);
}

void DispatcherServer::Impl::AskWorker(const Ask& ask) {
  auto session = sessions_.find(ask.session);
  if (session == sessions_.end()) {
    const AskId id = ask.ask;
    io_.Post([this, id] { Feed(Answered{id, Status(Code::kUnavailable, "the worker's session is gone")}); });
    return;
  }
  session->second->Request(ask.message, ask.deadline, [this, id = ask.ask](Result<Message> answer) { Feed(Answered{id, std::move(answer)}); });
}

// `told`: what those who are connected hear.
void DispatcherServer::Impl::End(Status why, const Status& told) {
  if (over_) return;
  if (!why.ok()) LogError("dispatcher.failed", {{"why", why.ToString()}});
  over_ = true;
  core_timer_.Cancel();
  flush_timer_.Cancel();
  listener_.reset();
  done_timer_.Cancel();
  refusals_.Close();
  for (const auto& [id, session] : std::map(sessions_)) session->Close(told);
  std::lock_guard lock(mutex_);
  if (!outcome_.has_value()) outcome_ = std::move(why);
  ended_.notify_all();
}

void DispatcherServer::Impl::Stop() {
  io_.Post([this] {
    if (!tick_.empty()) Flush();
    End({}, Status(Code::kUnavailable, "the dispatcher was stopped"));
  });
  io_.Stop();
}

Status DispatcherServer::Impl::Wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

DispatcherServer::DispatcherServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DispatcherServer::~DispatcherServer() { Stop(); }
const std::string& DispatcherServer::address() const { return impl_->address(); }
const std::string& DispatcherServer::cluster() const { return impl_->cluster(); }
void DispatcherServer::Stop() { impl_->Stop(); }
Status DispatcherServer::Wait() { return impl_->Wait(); }
bool DispatcherServer::Alive(Duration within) const { return impl_->Alive(within); }

Result<std::unique_ptr<DispatcherServer>> DispatcherServer::Start(ServerOptions options) {
  std::unique_ptr<Store> store = options.state_dir.empty() ? MakeMemoryStore() : nullptr;
  if (store == nullptr) {
    PENSTOCK_ASSIGN(store, OpenSqliteStore(options.state_dir));
  }
  auto impl = std::make_unique<Impl>(std::move(options), std::move(store));
  if (Status status = impl->Open(); !status.ok()) {
    impl->Stop();
    return status;
  }
  return std::unique_ptr<DispatcherServer>(new DispatcherServer(std::move(impl)));
}

}  // namespace penstock::dispatcher
