#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "base/log.h"
#include "cli/children.h"
#include "cli/command.h"
#include "cli/health.h"
#include "cli/process.h"
#include "cli/security.h"
#include "cli/signals.h"
#include "cli/surroundings.h"
#include "cli/values.h"
#include "cluster/placement.h"
#include "dispatcher/server.h"
#include "engine/pipeline.h"
#include "penstock/plan.h"

namespace penstock::cli {
namespace {

constexpr Duration kAnswersWithin = std::chrono::seconds(1);

Status CheckSerializedPlan(std::string_view bytes) {
  PENSTOCK_ASSIGN(const Plan plan, ParsePlan(bytes));
  return CheckPlan(plan).status();
}

class Dispatcher final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Text("--listen", &options_.listen,
               "HOST:PORT (port 0: any free one) or unix:/path; default what the environment names, else 127.0.0.1:5050");
    flags.Text("--state-dir", &options_.state_dir,
               "Where datasets, jobs and positions are kept; default PENSTOCK_STATE_DIR or DATASET_JOURNALING_DIR, else they go with the process");
    security_.DeclareServing(flags);
    flags.Text("--http", &http_, "HOST:PORT, or :PORT of the address it listens on, that answers /healthz and /readyz");
    flags.Time("--exit-when-done", &options_.exit_when_done, "Exit with 0 when jobs were read and none was for so long, like 60s; default never");
    flags.Hidden("--ready-fd", &ready_fd_);
    flags.Hidden("--parent", &parent_);
  }

  Result<int> Run(const Globals& globals) override {
    PENSTOCK_TRY(EndWithParent(parent_));
    PrepareServerProcess();
    PENSTOCK_TRY(SetUpLog(LogLevel::kInfo));
    PENSTOCK_TRY(Complete());
    std::atomic<dispatcher::DispatcherServer*> running{nullptr};
    std::atomic<int> asked = 0;
    std::optional<SignalWatch> watch([&running, &asked](int signal) {
      asked = signal;
      auto* server = running.load();
      if (server == nullptr) _exit(kExitFine);
      server->Stop();
    });
    PENSTOCK_ASSIGN(const auto health, Health::Start(http_, options_.listen, "starting"));
    PENSTOCK_ASSIGN(const auto server, dispatcher::DispatcherServer::Start(options_));
    running = server.get();
    health->Watch([&server] { return Health::State{.alive = server->Alive(kAnswersWithin), .ready = true, .why = {}}; });
    PENSTOCK_TRY(ReportReady(ready_fd_, server->address(), globals.json));
    const Status ended = server->Wait();
    health->Forget();
    watch.reset();
    const std::string asked_to = asked == 0 ? "nobody reads any more" : std::string("asked to: ") + strsignal(asked);
    LogInfo("dispatcher.stop", {{"why", ended.ok() ? asked_to : ended.message()}});
    if (!ended.ok()) return ended;
    return kExitFine;
  }

 private:
  Status Complete() {
    const cluster::Report report = ExamineSurroundings({.role = cluster::Role::kDispatcher});
    LogWarnings(report);
    PENSTOCK_ASSIGN(const cluster::Placement placement, cluster::PlaceServer(report, options_.listen));
    options_.listen = placement.listen;
    PENSTOCK_ASSIGN(Credentials credentials, security_.ReadToServe(options_.listen));
    options_.token = std::move(credentials.token);
    options_.tls = std::move(credentials.tls);
    if (options_.state_dir.empty()) options_.state_dir = Variable("PENSTOCK_STATE_DIR", "DATASET_JOURNALING_DIR");
    options_.check_plan = CheckSerializedPlan;
    return {};
  }

  dispatcher::ServerOptions options_{.listen = {}, .state_dir = {}, .token = {}, .check_plan = {}, .pace = {}};
  SecurityFlags security_;
  std::string http_;
  int ready_fd_ = -1;
  int parent_ = -1;
};

}  // namespace

std::unique_ptr<Command> MakeDispatcher() { return std::make_unique<Dispatcher>(); }

}  // namespace penstock::cli
