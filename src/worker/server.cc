#include "worker/server.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <random>
#include <utility>

#include "base/constants.h"
#include "base/log.h"
#include "wire/address.h"
#include "wire/io_thread.h"
#include "wire/net.h"
#include "wire/same_host.h"
#include "wire/segments.h"
#include "worker/shell.h"
#include "worker/usage.h"

namespace penstock::worker {
namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint64_t kLeastCodeMemory = 2 * kGiB;  // TensorFlow alone takes half of one

uint64_t RandomIncarnation() {
  std::random_device device;
  const uint64_t number = uint64_t{device()} << 32 | device();
  return number == 0 ? 1 : number;
}

// "host" gets the port that was got; an address with a port stays.
Result<std::string> AdvertisedAddress(const std::string& advertise, const std::string& listening) {
  if (advertise.empty()) return listening;
  const bool has_port = advertise.find(':') != std::string::npos && advertise.back() != ']';
  const std::string full = has_port ? advertise : advertise + listening.substr(listening.rfind(':'));
  auto address = ParseAddress(full);
  if (!address.ok()) return address.status().Prefixed("the advertised address");
  return full;
}

}  // namespace

class WorkerServer::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        pool_(options_.cpus == 0 ? CoreCount() : options_.cpus),
        table_(std::make_shared<SegmentTable>()),
        io_("worker-io") {}
  ~Impl() { Stop(); }

  Status Start() {
    std::promise<Status> listening;
    io_.Post([&] { listening.set_value(Listen()); });
    PENSTOCK_TRY(listening.get_future().get());
    return WaitForWelcome();
  }

  const std::string& address() const { return address_; }

  void Drain() {
    io_.Post([this] { shell_->Drain(); });
  }

  void Stop() {
    const std::lock_guard stopping(stop_mutex_);
    pool_.Stop();
    io_.Stop();
    listeners_.clear();
    shell_.reset();
    Finish();
  }

  CoreStats stats() {
    const std::lock_guard stopping(stop_mutex_);
    if (shell_ == nullptr) return {};
    std::promise<CoreStats> figures;
    io_.Post([&] { figures.set_value(shell_->stats()); });
    return figures.get_future().get();
  }

  bool Alive(Duration within) { return io_.Answers(within); }

  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_; });
  }

 private:
  // On the I/O thread, so that no session comes before the shell is ready.
  Status Listen() {
    Shell::Hooks hooks{.welcomed = [this] { Note({}); }, .unreachable = [this](const Status& why) { Note(why); }, .drained = [this] { Finish(); }};
    hooks.exit_when_done = options_.exit_when_done;
    shell_ = std::make_unique<Shell>(io_, pool_, table_, options_.memory, Packers::CountFor(options_.memory, Threads()), Code(), std::move(hooks));
    PENSTOCK_TRY(ListenOn(options_.listen, nullptr));
    const std::string socket = MakeSocketName("worker");
    if (options_.shm) PENSTOCK_TRY(ListenOn(socket, table_));
    PENSTOCK_ASSIGN(address_, AdvertisedAddress(options_.advertise, listeners_.front()->address()));
    ConnectParams params{.token = options_.token, .tls = options_.tls, .role = "worker", .name = {}, .shared_memory = false, .pace = {}};
    shell_->Begin({.memory = options_.memory, .hello = Hello(options_.shm ? socket : ""), .drain_timeout = options_.drain_timeout},
                  options_.dispatcher, std::move(params));
    return {};
  }

  uint32_t Threads() const { return options_.cpus == 0 ? CoreCount() : options_.cpus; }

  Shell::CodeRules Code() const {
    const uint32_t cores = Threads();
    const uint64_t memory = options_.code_memory > 0 ? options_.code_memory : std::max(DefaultMemory() / 2 / cores, kLeastCodeMemory);
    return {options_.allow_code, {.python = {}, .timeout = options_.code_timeout, .memory = memory, .processes = cores, .worker = HostAndPid()}};
  }

  Status ListenOn(const std::string& address, std::shared_ptr<SegmentTable> segments) {
    ListenParams params{.address = address, .token = options_.token, .tls = options_.tls, .cluster = {}, .segments = std::move(segments), .pace = {}};
    PENSTOCK_ASSIGN(auto listener, penstock::Listen(io_, std::move(params), *shell_,
                                                    [this](std::shared_ptr<Session> session) { shell_->Accept(std::move(session)); }));
    listeners_.push_back(std::move(listener));
    return {};
  }

  msg::WorkerHello Hello(const std::string& socket) const {
    const HostIdentity& host = ThisHost();
    return {.address = address_,
            .unix_socket = socket,
            .boot_id = host.boot_id,
            .netns = host.netns,
            .incarnation = RandomIncarnation(),
            .memory = options_.memory,
            .cpus = Threads(),
            .name = HostAndPid(),
            .pid = static_cast<uint32_t>(getpid())};
  }

  void Note(const Status& outcome) {
    const std::lock_guard lock(mutex_);
    if (welcomed_) return;
    welcomed_ = outcome.ok();
    last_error_ = outcome;
    changed_.notify_all();
  }

  void Finish() {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  Status WaitForWelcome() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.start_timeout, [this] { return welcomed_ || IsPermanent(last_error_.code()); });
    if (welcomed_) return {};
    if (IsPermanent(last_error_.code())) return Unreachable(options_.dispatcher, last_error_);
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(options_.start_timeout).count();
    return Status(Code::kUnavailable, "no dispatcher at " + options_.dispatcher + " within " + std::to_string(waited) + " ms (--start-timeout): " +
                                          last_error_.message() + "; start one with `penstock dispatcher`, or name another with --dispatcher");
  }

  const Options options_;
  std::string address_;
  Pool pool_;
  std::shared_ptr<SegmentTable> table_;
  IoThread io_;
  std::unique_ptr<Shell> shell_;
  std::vector<std::unique_ptr<Listener>> listeners_;

  std::mutex stop_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool welcomed_ = false;
  bool finished_ = false;
  Status last_error_;
};

Result<std::unique_ptr<WorkerServer>> WorkerServer::Start(Options options) {
  if (options.memory < kLeastMemory) {
    return Status(Code::kInvalid,
                  "a worker needs a budget of at least 8 MiB; --memory or PENSTOCK_MEMORY gives it " + std::to_string(options.memory) + " bytes");
  }
  if (options.cpus > kMostThreads) {
    return Status(Code::kInvalid,
                  "a worker has at most " + std::to_string(kMostThreads) + " threads that read; --cpus asks for " + std::to_string(options.cpus));
  }
  PENSTOCK_TRY(ParseAddress(options.dispatcher));
  auto impl = std::make_unique<Impl>(std::move(options));
  PENSTOCK_TRY(impl->Start());
  return std::unique_ptr<WorkerServer>(new WorkerServer(std::move(impl)));
}

WorkerServer::WorkerServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerServer::~WorkerServer() = default;
const std::string& WorkerServer::address() const { return impl_->address(); }
void WorkerServer::Drain() { impl_->Drain(); }
void WorkerServer::Stop() { impl_->Stop(); }
void WorkerServer::Wait() { impl_->Wait(); }
CoreStats WorkerServer::stats() const { return impl_->stats(); }
bool WorkerServer::Alive(Duration within) const { return impl_->Alive(within); }

}  // namespace penstock::worker
