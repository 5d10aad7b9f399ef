#include "cli/children.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/command.h"

namespace penstock::cli {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));  // exec does not write
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWithout(const std::vector<std::string>& names) {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (std::find(names.begin(), names.end(), text.substr(0, text.find('='))) == names.end()) variables.push_back(text);
  }
  return variables;
}

// In the child, between fork and exec: async-signal-safe calls only.
void BecomeChild(pid_t parent, int death_signal) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(128 + death_signal);  // it died before we could ask
}

// By its name, so that ps shows it; where it was replaced since, by the link to what runs.
std::string OwnPath() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && access(path.c_str(), X_OK) == 0 ? path.string() : "/proc/self/exe";
}

bool Misconfigured(pid_t child) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  return info.si_code == CLD_EXITED && info.si_status == kExitUsage;
}

// Ended or stopped: it says nothing of what becomes of the others.
void Silence(pid_t child) {
  kill(child, SIGSTOP);
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WSTOPPED | WNOWAIT) < 0 && errno == EINTR) {
  }
}

Status SystemError(const std::string& what) { return Status(Code::kUnavailable, what + ": " + std::strerror(errno)); }

}  // namespace

Result<ServerChild> StartServer(const std::vector<std::string>& arguments, const std::vector<std::string>& without) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return SystemError("cannot make a pipe");
  std::vector<std::string> command{"penstock"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"--ready-fd", std::to_string(pipe_ends[1])});
  const std::vector<char*> argv = Pointers(command);
  const std::vector<std::string> environment = EnvironmentWithout(without);
  const std::vector<char*> envp = Pointers(environment);
  const std::string self = OwnPath();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    BecomeChild(parent, SIGKILL);
    fcntl(pipe_ends[1], F_SETFD, 0);
    execve(self.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  if (pid < 0) {
    close(pipe_ends[0]);
    return SystemError("cannot start a process");
  }
  return ServerChild{pid, pipe_ends[0]};
}

Result<std::string> WaitReady(ServerChild& child, const std::string& what) {
  std::string line;
  std::array<char, 256> buffer{};
  while (line.find('\n') == std::string::npos) {
    const ssize_t got = read(child.ready, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    line.append(buffer.data(), static_cast<size_t>(got));
  }
  close(child.ready);
  child.ready = -1;
  if (line.empty() || line.back() != '\n') {
    const Code code = Misconfigured(child.pid) ? Code::kInvalid : Code::kUnavailable;
    return Status(code, "the " + what + " ended before it was ready; what it said is above");
  }
  line.pop_back();
  return line;
}

Result<pid_t> StartCommand(const std::vector<std::string>& command) {
  const std::vector<char*> argv = Pointers(command);
  const std::string complaint = "penstock: cannot run " + command.front() + "\n";
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    BecomeChild(parent, SIGTERM);
    execvp(argv.front(), argv.data());
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, complaint.data(), complaint.size());
    _exit(127);
  }
  if (pid < 0) return SystemError("cannot start a process");
  return pid;
}

Status EndWithParent(int parent) {
  if (parent < 0) return {};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) return {};
  return Status(Code::kUnavailable, "the process that started this one, " + std::to_string(parent) + ", is gone");
}

void EndChildren(const std::vector<pid_t>& children) {
  for (const pid_t pid : children) Silence(pid);
  for (const pid_t pid : children) kill(pid, SIGKILL);
  for (const pid_t pid : children) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace penstock::cli
