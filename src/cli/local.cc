#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/log.h"
#include "cli/children.h"
#include "cli/command.h"
#include "worker/usage.h"

namespace penstock::cli {
namespace {

int ExitCodeOfWait(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

class Local final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Number("--workers", &workers_, "How many; default 2");
    flags.Bytes("--memory", &memory_, "Budget of each worker, like 1GiB; default what there is, divided");
    flags.Switch("--no-shm", &no_shm_, "Send blocks over sockets");
    flags.CommandLine("command", &command_, "Runs with PENSTOCK_SERVICE set; without it, the service stays until Ctrl-C");
  }

  Result<int> Run(const Globals& globals) override {
    PENSTOCK_TRY(SetUpLog(LogLevel::kWarn));
    if (workers_ == 0) return Status(Code::kInvalid, "--workers 0: a service without workers reads nothing");
    setenv("PENSTOCK_LOG", "warn", 0);  // the command's own output comes first
    BlockSignals();
    const auto code = RunService(globals);
    EndChildren(children_);
    return code;
  }

 private:
  void BlockSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }

  Result<int> RunService(const Globals& globals) {
    PENSTOCK_ASSIGN(const std::string address, StartServers());
    setenv("PENSTOCK_SERVICE", ("penstock://" + address).c_str(), 1);
    if (command_.empty()) {
      std::printf(globals.json ? "{\"service\": \"penstock://%s\"}\n" : "PENSTOCK_SERVICE=penstock://%s\n", address.c_str());
      std::fflush(stdout);
      return WaitFor(-1);
    }
    PENSTOCK_ASSIGN(const pid_t command, StartCommand(command_));
    return WaitFor(command);
  }

  Result<std::string> StartServers() {
    PENSTOCK_ASSIGN(ServerChild dispatcher, StartServer({"dispatcher", "--listen", "127.0.0.1:0"}));
    children_.push_back(dispatcher.pid);
    PENSTOCK_ASSIGN(const std::string address, WaitReady(dispatcher, "dispatcher"));
    std::vector<std::string> arguments{"worker", "--dispatcher", address, "--allow-code"};
    if (memory_ == 0 && std::getenv("PENSTOCK_MEMORY") == nullptr) memory_ = worker::DefaultMemory() / workers_;
    if (memory_ > 0) arguments.insert(arguments.end(), {"--memory", std::to_string(memory_)});
    if (no_shm_) arguments.emplace_back("--no-shm");
    std::vector<ServerChild> workers;
    for (uint32_t i = 0; i < workers_; ++i) {
      PENSTOCK_ASSIGN(workers.emplace_back(), StartServer(arguments));
      children_.push_back(workers.back().pid);
    }
    for (ServerChild& worker : workers) PENSTOCK_TRY(WaitReady(worker, "worker"));
    return address;
  }

  // Until the command ends; without one (-1), until a signal or until all servers are gone.
  Result<int> WaitFor(pid_t command) {
    for (;;) {
      siginfo_t info{};
      const int signal = sigwaitinfo(&signals_, &info);
      if (signal == SIGCHLD) {
        if (const auto code = Reap(command)) return *code;
      } else if (signal > 0 && command < 0) {
        return kExitFine;
      } else if (signal > 0 && info.si_code == SI_USER) {
        kill(command, signal);  // a terminal has told it already
      }
    }
  }

  std::optional<int> Reap(pid_t command) {
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      if (pid == command) return ExitCodeOfWait(status);
      std::erase(children_, pid);
      LogWarn("local.server_ended", {{"pid", pid}, {"code", ExitCodeOfWait(status)}});
      if (children_.empty() && command < 0) return kExitRetry;
    }
    return std::nullopt;
  }

  uint32_t workers_ = 2;
  uint64_t memory_ = 0;
  bool no_shm_ = false;
  std::vector<std::string> command_;
  sigset_t signals_{};
  std::vector<pid_t> children_;
};

}  // namespace

std::unique_ptr<Command> MakeLocal() { return std::make_unique<Local>(); }

}  // namespace penstock::cli
