#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/log.h"
#include "cli/children.h"
#include "cli/command.h"
#include "cli/health.h"
#include "cli/process.h"
#include "cli/secrets.h"
#include "cli/security.h"
#include "cli/signals.h"
#include "cli/surroundings.h"
#include "cli/values.h"
#include "cluster/placement.h"
#include "storage/permit.h"
#include "worker/server.h"
#include "worker/usage.h"

namespace penstock::cli {
namespace {

// The flag, else PENSTOCK_MEMORY, else most of what the machine or its cgroup has.
Result<uint64_t> MemoryBudget(uint64_t flag) {
  if (flag > 0) return flag;
  const std::string named = Variable("PENSTOCK_MEMORY");
  if (named.empty()) return worker::DefaultMemory();
  auto bytes = ParseBytes(named);
  if (!bytes.ok()) return bytes.status().Prefixed("PENSTOCK_MEMORY");
  return bytes;
}

constexpr Duration kAnswersWithin = std::chrono::seconds(1);
// Schedulers, terminals and `timeout` tell a process twice: by its id, and with its group. Who means to ask again takes longer.
constexpr Duration kOneAsking = std::chrono::seconds(1);

std::optional<std::string> Given(const std::string& flag) { return flag.empty() ? std::nullopt : std::optional(flag); }

class Worker final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Text("--dispatcher", &options_.dispatcher, "HOST:PORT or unix:/path; default PENSTOCK_SERVICE, else what the platform names");
    flags.Text("--listen", &options_.listen,
               "HOST:PORT (port 0: any free one); default what it advertises where that is this machine's, else 127.0.0.1:0");
    flags.Text("--advertise", &options_.advertise,
               "HOST or HOST:PORT under which consumers reach it; default PENSTOCK_ADVERTISE, else the pod's or the node's, else where it listens");
    flags.Bytes("--memory", &options_.memory,
                "Budget for blocks and operators' state, like 4GiB; default PENSTOCK_MEMORY, else 0.6 of what there is");
    flags.Number("--cpus", &options_.cpus, "Threads that read; default one a core");
    security_.DeclareServing(flags);
    flags.Texts("--allow-path", &allow_paths_, "Read only files below this directory; may be repeated; default all that this user can read");
    flags.Switch("--no-shm", &no_shm_, "Send blocks over the socket even to consumers on this host");
    flags.Switch("--allow-code", &options_.allow_code,
                 "Run code that datasets carry (Python functions, torch datasets, tf.data graphs), in executors");
    flags.Time("--code-timeout", &options_.code_timeout, "How long user code may take for its next rows; default 5min");
    flags.Bytes("--code-memory", &options_.code_memory, "What one executor may hold; default a share of what there is");
    flags.Time("--start-timeout", &options_.start_timeout, "How long the dispatcher is waited for at the start; default 10min");
    flags.Time("--drain-timeout", &options_.drain_timeout, "How long open lanes may go on after SIGTERM; default 30s");
    flags.Text("--http", &http_, "HOST:PORT, or :PORT of the address it listens on, that answers /healthz and /readyz");
    flags.Time("--exit-when-done", &options_.exit_when_done,
               "Exit with 0 when the dispatcher says that all is done, or was away for so long while nobody read; default never");
    flags.Hidden("--ready-fd", &ready_fd_);
    flags.Hidden("--parent", &parent_);
  }

  Result<int> Run(const Globals& globals) override {
    PENSTOCK_TRY(EndWithParent(parent_));
    PrepareServerProcess();
    PENSTOCK_TRY(SetUpLog(LogLevel::kInfo));
    PENSTOCK_TRY(Complete());
    ForgetSecrets();
    if (options_.allow_code) HideFromOwnUser();
    std::atomic<worker::WorkerServer*> running{nullptr};
    std::atomic<int> asked = 0;
    std::chrono::steady_clock::time_point first;
    std::optional<SignalWatch> watch([&running, &asked, &first](int signal) {
      auto* server = running.load();
      if (server == nullptr) {
        LogInfo("worker.stop", {{"why", "asked to before the dispatcher knew it"}, {"signal", strsignal(signal)}});
        _exit(kExitFine);  // nobody reads from it, and it has nothing to give back
      }
      if (asked == 0) {
        first = std::chrono::steady_clock::now();
      } else if (std::chrono::steady_clock::now() - first < kOneAsking) {
        return;
      }
      ++asked == 1 ? server->Drain() : server->Stop();
    });
    PENSTOCK_ASSIGN(const auto health, Health::Start(http_, options_.listen, "waits for the dispatcher at " + options_.dispatcher));
    PENSTOCK_ASSIGN(const auto server, worker::WorkerServer::Start(options_));
    running = server.get();
    health->Watch([&server] { return Look(*server); });
    LogInfo("worker.start",
            {{"address", server->address()}, {"dispatcher", options_.dispatcher}, {"memory", options_.memory}, {"shm", options_.shm}});
    PENSTOCK_TRY(ReportReady(ready_fd_, server->address(), globals.json));
    server->Wait();
    health->Forget();
    watch.reset();
    LogInfo("worker.stop", {{"why", asked == 0   ? "the dispatcher is done, or stays away"
                                    : asked == 1 ? "asked to, and drained"
                                                 : "asked to again while it drained"}});
    return kExitFine;
  }

 private:
  // A dispatcher that is away makes it no less ready: health.h says why.
  static Health::State Look(worker::WorkerServer& server) {
    if (!server.Alive(kAnswersWithin)) return {.alive = false, .ready = false, .why = {}};
    return {.alive = true, .ready = !server.stats().draining, .why = "draining"};
  }

  Status Complete() {
    const cluster::Report report =
        ExamineSurroundings({.service = Given(options_.dispatcher), .role = cluster::Role::kWorker, .advertise = Given(options_.advertise)});
    LogWarnings(report);
    PENSTOCK_ASSIGN(options_.dispatcher, ServiceAddress(options_.dispatcher));
    PENSTOCK_ASSIGN(cluster::Placement placement, cluster::PlaceServer(report, options_.listen));
    options_.listen = std::move(placement.listen);
    options_.advertise = std::move(placement.advertise);
    PENSTOCK_ASSIGN(Credentials credentials, security_.ReadToServe(options_.listen));
    options_.token = std::move(credentials.token);
    options_.tls = std::move(credentials.tls);
    PENSTOCK_ASSIGN(options_.memory, MemoryBudget(options_.memory));
    PENSTOCK_TRY(PermitOnly(allow_paths_));
    options_.shm = !no_shm_;
    return {};
  }

  worker::WorkerServer::Options options_{.dispatcher = {}, .listen = {}, .advertise = {}, .token = {}};
  SecurityFlags security_;
  std::string http_;
  std::vector<std::string> allow_paths_;
  bool no_shm_ = false;
  int ready_fd_ = -1;
  int parent_ = -1;
};

}  // namespace

std::unique_ptr<Command> MakeWorker() { return std::make_unique<Worker>(); }

}  // namespace penstock::cli
