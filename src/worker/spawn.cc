#include "worker/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/socket.h"

extern char** environ;

namespace penstock::worker {
namespace {

constexpr std::array kSecrets = {"PENSTOCK_TOKEN=", "PENSTOCK_TOKEN_FILE=", "PENSTOCK_TLS_KEY=", "PENSTOCK_TLS_CERT="};

struct Variable {
  const char* name;
  const char* value;
};
// Unless they are set. There is an executor a core: libraries that start a thread a core would make the square of it. And rows of arrays come and go:
// memory that went back to the kernel after each would cost more, page by page, than most functions.
constexpr std::array kDefaults = {Variable{"OMP_NUM_THREADS", "1"},
                                  Variable{"OPENBLAS_NUM_THREADS", "1"},
                                  Variable{"MKL_NUM_THREADS", "1"},
                                  Variable{"TF_NUM_INTRAOP_THREADS", "1"},
                                  Variable{"TF_NUM_INTEROP_THREADS", "1"},
                                  Variable{"TF_CPP_MIN_LOG_LEVEL", "2"},
                                  Variable{"CUDA_VISIBLE_DEVICES", "-1"},
                                  Variable{"PYTHONUNBUFFERED", "1"},
                                  Variable{"MALLOC_MMAP_THRESHOLD_", "33554432"},  // the most that glibc takes
                                  Variable{"MALLOC_TRIM_THRESHOLD_", "134217728"}};

std::vector<std::string> Environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const bool secret = std::any_of(kSecrets.begin(), kSecrets.end(), [&](std::string_view prefix) { return text.starts_with(prefix); });
    if (!secret) variables.emplace_back(text);
  }
  for (const auto& [name, value] : kDefaults) {
    if (std::getenv(name) == nullptr) variables.push_back(std::string(name) + "=" + value);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Frees what posix_spawn was told.
struct SpawnPlan {
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

std::string Interpreter(const std::string& named) {
  if (!named.empty()) return named;
  const char* python = std::getenv("PENSTOCK_PYTHON");
  return python == nullptr || *python == '\0' ? "python3" : python;
}

}  // namespace

Result<pid_t> SpawnExecutor(const std::string& python, int socket, int dump, uint64_t memory) {
  SpawnPlan plan;
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  // The ends are duplicated above the child's own numbers first: one of them may stand where the other has to go.
  const Fd high_socket(fcntl(socket, F_DUPFD_CLOEXEC, 64));
  const Fd high_dump(fcntl(dump, F_DUPFD_CLOEXEC, 64));
  posix_spawn_file_actions_addopen(&plan.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&plan.actions, STDERR_FILENO, kExecutorLog);  // prints of user code go to the worker's log
  for (const int output : {STDOUT_FILENO, STDERR_FILENO, kExecutorDump}) posix_spawn_file_actions_adddup2(&plan.actions, high_dump.get(), output);
  posix_spawn_file_actions_adddup2(&plan.actions, high_socket.get(), kExecutorSocket);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, kExecutorLog + 1);
  std::vector<std::string> command{Interpreter(python), "-m", "penstock._executor", std::to_string(memory)};
  std::vector<std::string> variables = Environment();
  std::vector<char*> argv = Pointers(command);
  std::vector<char*> env = Pointers(variables);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv.front(), &plan.actions, &plan.attributes, argv.data(), env.data());
  if (error != 0) {
    return Status(Code::kInvalid, "cannot start an executor with " + command.front() + ": " + ErrorText(error) +
                                      "; name a Python that has penstock with PENSTOCK_PYTHON");
  }
  return pid;
}

}  // namespace penstock::worker
