#include "penstock/client.h"

#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "client/hub.h"
#include "client/read_options.h"
#include "client/reader.h"
#include "client/stopped.h"
#include "plan/position.h"
#include "wire/dispatcher_link.h"
#include "wire/same_host.h"
#include "wire/tls.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

// The service's name as users write it -> an address of net.h.
Result<std::string> ServiceAddress(const std::string& service) {
  std::string_view rest = service;
  for (const std::string_view scheme : {"penstock://", "grpc://"}) {
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  }
  if (rest.starts_with("unix:") || rest.starts_with("@")) return std::string(rest);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty() || rest.find('/') != std::string_view::npos) {
    return Status(Code::kInvalid, "'" + service + "' is not a service; write penstock://host:port, host:port or unix:/path");
  }
  const size_t colon = rest.rfind(':');
  const size_t bracket = rest.rfind(']');  // of an IPv6 address
  const bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  return has_port ? std::string(rest) : std::string(rest) + ":" + std::to_string(kDefaultPort);
}

// A link for what is not of one reader: register, look up. Readers have sessions of their own, since unasked replies carry no name.
class RemoteClient final : public Client {
 public:
  RemoteClient(ConnectOptions options, std::string address, std::shared_ptr<const Tls> tls)
      : hub_(Hub::Get()), options_(std::move(options)), address_(std::move(address)), tls_(std::move(tls)) {}

  ~RemoteClient() override {
    if (hub_.stamp() != CurrentStamp()) {
      new std::shared_ptr<DispatcherLink>(std::move(link_));
      return;
    }
    hub_.io().Post([link = std::move(link_)] {
      if (link != nullptr) link->Stop();
    });
  }

  Status Start() {
    auto first = std::make_shared<FirstHello>();
    DispatcherLink::Handler handler;
    handler.up = [first] { first->Say({}); };
    handler.down = [first](const Status& why) { first->last = why; };
    handler.refused = [first](const Status& why) { first->Say(why); };
    handler.said = [](RequestId, const Message&) {};
    ConnectParams params;
    params.token = options_.token;
    params.tls = tls_;
    params.role = "consumer";
    params.shared_memory = false;
    std::future<Status> outcome = first->promise.get_future();
    // Made there: a link lives on the I/O thread.
    Await<bool>([&](std::promise<bool>& made) {
      link_ = DispatcherLink::Make(hub_.io(), address_, std::move(params), identity_, std::move(handler));
      link_->Start();
      made.set_value(true);
    });
    if (outcome.wait_for(options_.timeout) == std::future_status::ready) return outcome.get();
    const Status last = Await<Status>([&](std::promise<Status>& said) { said.set_value(first->last); });
    if (!last.ok()) return last;
    return Unreachable(address_, Status(Code::kDeadline, "nobody said hello within " + std::to_string(options_.timeout.count()) + " ms"));
  }

  Result<std::string> Register(const Plan& plan) override {
    msg::Register message{SerializePlan(plan)};
    const uint64_t bytes = message.plan.size();
    Result<Message> reply = Ask(std::move(message));
    if (!reply.ok()) return Unregistered(reply.status(), bytes);
    if (auto* registered = std::get_if<msg::Registered>(&*reply)) return std::move(registered->dataset);
    return Unexpected();
  }

  Result<Plan> GetDataset(const std::string& dataset_id) override {
    PENSTOCK_ASSIGN(Message reply, Ask(msg::GetDataset{dataset_id}));
    if (auto* dataset = std::get_if<msg::DatasetReply>(&reply)) return ParsePlan(dataset->plan);
    return Unexpected();
  }

  Result<std::string> FindJob(const std::string& job_name) override {
    PENSTOCK_ASSIGN(Message reply, Ask(msg::StatusAsk{}));
    auto* status = std::get_if<msg::StatusReply>(&reply);
    if (status == nullptr) return Unexpected();
    for (msg::StatusJob& job : status->jobs) {
      if (job.name == job_name) return std::move(job.dataset);
    }
    return Status(Code::kNotFound, "the service at " + address_ + " has no job \"" + job_name + "\"; `penstock status` lists them");
  }

  Result<std::unique_ptr<Reader>> Distribute(const Plan& plan, ReadOptions options) override {
    PENSTOCK_ASSIGN(std::string dataset, Register(plan));
    return JoinPlan(dataset, plan, std::move(options));
  }

  Result<std::unique_ptr<Reader>> Join(const std::string& dataset_id, ReadOptions options) override {
    PENSTOCK_ASSIGN(const Plan plan, GetDataset(dataset_id));
    return JoinPlan(dataset_id, plan, std::move(options));
  }

 private:
  Result<std::unique_ptr<Reader>> JoinPlan(const std::string& dataset_id, const Plan& plan, ReadOptions options) {
    PENSTOCK_TRY(CheckNotForked(hub_.stamp(), "client"));
    PENSTOCK_TRY(CheckReadOptions(options));
    msg::Join join;
    join.dataset = dataset_id;
    join.job_name = options.job_name;
    join.mode = options.mode;
    join.seed = options.seed;
    join.epochs = options.epochs;
    join.even = options.even;
    join.index = options.index.value_or(0);
    join.consumers = options.mode == Mode::kStrict ? std::max(options.consumers, 1u) : options.consumers;
    std::random_device random;
    join.incarnation = uint64_t{random()} << 32 | random();
    join.name = HostAndPid();
    join.places = options.places;
    join.attempt = options.attempt;
    join.on_restart = options.on_restart;
    join.on_death = options.on_death;
    PENSTOCK_ASSIGN(std::string rows, RowsFingerprint(plan));
    return JoinJob({address_, options_, tls_, identity_, std::move(join), std::move(options), SerializePlan(plan), std::move(rows)});
  }

  struct FirstHello {
    std::promise<Status> promise;
    bool said = false;
    Status last;  // of the attempts so far
    void Say(Status status) {
      if (!std::exchange(said, true)) promise.set_value(std::move(status));
    }
  };

  // Runs on the I/O thread, and waits for what it promises.
  template <class T, class Fn>
  T Await(Fn fn) {
    std::promise<T> promise;
    std::future<T> future = promise.get_future();
    hub_.io().Post([&] { fn(promise); });
    return future.get();
  }

  // A dispatcher that is away for a moment is waited for, up to the timeout.
  Result<Message> Ask(Message message) {
    PENSTOCK_TRY(CheckNotForked(hub_.stamp(), "client"));
    const TimePoint give_up = Clock::System().Now() + options_.timeout;
    while (true) {
      const Duration left = give_up - Clock::System().Now();
      auto promise = std::make_shared<std::promise<Result<Message>>>();
      std::future<Result<Message>> future = promise->get_future();
      hub_.io().Post([link = link_, message, left, promise] {
        link->Request(message, left, [promise](Result<Message> answer) { promise->set_value(std::move(answer)); });
      });
      Result<Message> answer = future.get();
      if (!answer.ok() && StoppedSince(address_, made_)) return ServiceStopped(address_);
      const bool retry = !answer.ok() && answer.status().code() == Code::kUnavailable && Clock::System().Now() + kRetryEvery < give_up;
      if (!retry) return answer;
      std::this_thread::sleep_for(kRetryEvery);
    }
  }

  // Both sides copy, check and hash a plan, and seem silent meanwhile: one with much data in it is the first thing to look at.
  static Status Unregistered(const Status& why, uint64_t bytes) {
    constexpr uint64_t kLarge = 8'000'000;
    if (bytes < kLarge || (why.code() != Code::kUnavailable && why.code() != Code::kDeadline)) return why;
    return Status(why).Prefixed("a plan of " + std::to_string(bytes / 1'000'000) +
                                " MB was not taken; arrays travel inside the plan: write large ones to files, and read them with from_tfrecord");
  }

  Status Unexpected() const {
    return Status(Code::kMismatch, "the dispatcher at " + address_ + " answered with something else; is it of another version?");
  }

  static constexpr Duration kRetryEvery = milliseconds(50);

  Hub& hub_;
  const TimePoint made_ = Clock::System().Now();
  const ConnectOptions options_;
  const std::string address_;
  const std::shared_ptr<const Tls> tls_;
  const std::shared_ptr<ServiceIdentity> identity_ = std::make_shared<ServiceIdentity>();
  std::shared_ptr<DispatcherLink> link_;
};

}  // namespace

Result<std::shared_ptr<Client>> Client::Connect(ConnectOptions options) {
  PENSTOCK_ASSIGN(std::string address, ServiceAddress(options.service));
  const TlsFiles files{.ca = options.tls_ca, .cert = options.tls_cert, .key = options.tls_key};
  std::shared_ptr<const Tls> tls;
  if (!files.empty()) {
    PENSTOCK_ASSIGN(tls, Tls::Load(files));
  }
  constexpr milliseconds kElsewhereWithin{1000};  // where it was stopped, another may listen by now; nobody has to be waited for
  const bool stopped = StoppedSince(address, TimePoint{});
  if (stopped) options.timeout = std::min(options.timeout, kElsewhereWithin);
  auto client = std::make_shared<RemoteClient>(std::move(options), address, std::move(tls));
  const Status started = client->Start();
  if (!started.ok()) return stopped ? ServiceStopped(address) : started;
  return std::shared_ptr<Client>(std::move(client));
}

}  // namespace penstock
