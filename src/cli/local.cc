#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/log.h"
#include "cli/children.h"
#include "cli/command.h"
#include "cli/security.h"
#include "cli/surroundings.h"
#include "cluster/identity.h"
#include "wire/token.h"
#include "worker/usage.h"

namespace penstock::cli {
namespace {

int ExitCodeOfWait(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};

// While servers start, a signal ends this process at once, and by that them. (It would, but for process 1 of a container, without a handler too.)
class EndsAtOnce {
 public:
  EndsAtOnce() {
    struct sigaction ending {};
    ending.sa_handler = [](int signal) { _exit(128 + signal); };
    for (size_t i = 0; i < kEnding.size(); ++i) {
      sigaction(kEnding[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kEnding[i], &ending, nullptr);
    }
  }
  ~EndsAtOnce() {
    for (size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &before_[i], nullptr);
  }
  EndsAtOnce(const EndsAtOnce&) = delete;

 private:
  std::array<struct sigaction, kEnding.size()> before_{};
};

class Local final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Number("--workers", &workers_, "How many, up to 1024; default 2");
    flags.Bytes("--memory", &memory_, "Budget of each worker, like 1GiB; default what there is, divided");
    flags.Switch("--no-shm", &no_shm_, "Send blocks over sockets");
    flags.Hidden("--parent", &parent_);
    flags.CommandLine("command", &command_, "Runs with PENSTOCK_SERVICE set; without it, the service stays until Ctrl-C");
  }

  Result<int> Run(const Globals& globals) override {
    PENSTOCK_TRY(SetUpLog(LogLevel::kWarn));
    if (workers_ == 0 || workers_ > cluster::kMaxLocalWorkers) {
      return Status(Code::kInvalid,
                    "--workers " + std::to_string(workers_) + ": give a number from 1 to " + std::to_string(cluster::kMaxLocalWorkers));
    }
    PENSTOCK_TRY(SetUpToken());
    setenv("PENSTOCK_LOG", "warn", 0);  // the command's own output comes first
    const auto code = RunService(globals);
    EndChildren(children_);
    return code;
  }

 private:
  // Other users of this machine can reach a loopback port too, and workers here run what datasets carry. By the environment the servers and the
  // command get it, which nobody else can read.
  Status SetUpToken() {
    PENSTOCK_ASSIGN(const std::string given, ReadToken(""));
    if (!given.empty()) return {};
    drawn_ = RandomToken();
    setenv("PENSTOCK_TOKEN", drawn_.c_str(), 1);
    return {};
  }

  Result<int> RunService(const Globals& globals) {
    sigset_t of_children;
    sigemptyset(&of_children);
    sigaddset(&of_children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &of_children, nullptr);
    std::optional<EndsAtOnce> starting(std::in_place);
    PENSTOCK_ASSIGN(const std::string address, StartServers());
    signals_ = of_children;
    for (const int signal : kEnding) sigaddset(&signals_, signal);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
    starting.reset();
    setenv("PENSTOCK_SERVICE", ("penstock://" + address).c_str(), 1);
    if (command_.empty()) {
      ReportService(address, globals);
      return WaitFor(-1);
    }
    PENSTOCK_ASSIGN(const pid_t command, StartCommand(command_));
    return WaitFor(command);
  }

  // For other terminals: variables to set there, the token among them where it is known here alone.
  void ReportService(const std::string& address, const Globals& globals) const {
    std::string text = (globals.json ? "{\"service\": \"penstock://" : "PENSTOCK_SERVICE=penstock://") + address;
    if (!drawn_.empty()) text += (globals.json ? "\", \"token\": \"" : "\nPENSTOCK_TOKEN=") + drawn_;
    std::printf("%s\n", (text + (globals.json ? "\"}" : "")).c_str());
    std::fflush(stdout);
  }

  // On loopback and with a state that goes with it, whatever the platform says of this place: what it says is of another service.
  Result<std::string> StartServers() {
    PENSTOCK_ASSIGN(ServerChild dispatcher, StartServer({"dispatcher", "--listen", "127.0.0.1:0"}, {"PENSTOCK_STATE_DIR", "DATASET_JOURNALING_DIR"}));
    children_.push_back(dispatcher.pid);
    PENSTOCK_ASSIGN(const std::string address, WaitReady(dispatcher, "dispatcher"));
    std::vector<std::string> arguments{"worker",      "--dispatcher", address,        "--listen",        "127.0.0.1:0",
                                       "--advertise", "127.0.0.1",    "--allow-code", "--start-timeout", "30s"};  // the dispatcher is there already
    if (memory_ == 0 && Variable("PENSTOCK_MEMORY").empty()) memory_ = worker::DefaultMemory() / workers_;
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

  // Until the command ends; without one (-1), until a signal or until all servers are gone. Until the program that started it is gone, where it has
  // said who it is: the command waits for the end of its input, which a forked child of the program may hold open. Not by PR_SET_PDEATHSIG, which is
  // about the thread that started this one.
  Result<int> WaitFor(pid_t command) {
    for (;;) {
      siginfo_t info{};
      const timespec look_every{.tv_sec = 0, .tv_nsec = 500'000'000};
      const int signal = parent_ < 0 ? sigwaitinfo(&signals_, &info) : sigtimedwait(&signals_, &info, &look_every);
      if (parent_ >= 0 && getppid() != parent_) return kExitFine;
      if (signal == SIGCHLD) {
        if (const auto code = Reap(command)) return *code;
      } else if (signal > 0 && command < 0) {
        return kExitFine;
      } else if (signal > 0 && info.si_code <= 0) {  // by a process; a terminal, which is the kernel, has told the command already
        kill(command, signal);
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
  int parent_ = -1;
  bool no_shm_ = false;
  std::vector<std::string> command_;
  std::string drawn_;  // the token, where nobody gave one
  sigset_t signals_{};
  std::vector<pid_t> children_;
};

}  // namespace

std::unique_ptr<Command> MakeLocal() { return std::make_unique<Local>(); }

}  // namespace penstock::cli
