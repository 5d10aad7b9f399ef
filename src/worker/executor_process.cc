#include "worker/executor_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>
#include <utility>

#include "base/constants.h"
#include "base/log.h"
#include "wire/socket.h"
#include "worker/executor_notes.h"
#include "worker/spawn.h"

namespace penstock::worker {
namespace {

using std::chrono::milliseconds;

constexpr auto kLookEvery = milliseconds(50);    // at memory and at the time that a call takes
constexpr auto kDumpWithin = milliseconds(500);  // for the stacks of a process that hangs
constexpr auto kEndWithin = milliseconds(300);   // after the socket was closed; then it is killed
constexpr uint64_t kMaxAnswer = 64 * kMiB;
constexpr size_t kHead = 2 * sizeof(uint32_t);  // of a message: lengths of text and bytes

// Memory that is the process's own: blocks in segments are the worker's.
uint64_t OwnBytes(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  uint64_t shared = 0;
  if (!(statm >> size >> resident >> shared) || resident < shared) return 0;
  return (resident - shared) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string HowItEnded(int status) {
  if (WIFEXITED(status)) return "the executor ended by itself with exit code " + std::to_string(WEXITSTATUS(status));
  return "the executor was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
}

// That of an interpreter which never became an executor, by what it said.
std::string WhyItNeverBegan(const std::string& ended, const std::string& said) {
  const std::string line = LastLine(said);
  if (line.empty()) return ended;
  return ended + " before it had begun: " + line +
         "; the worker's Python must have penstock and what the dataset's code imports: name one with PENSTOCK_PYTHON, or set PYTHONPATH where the "
         "worker is started";
}

bool WriteAll(int fd, const void* data, size_t size, std::span<const int> descriptors) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    iovec piece{const_cast<char*>(at), size};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
    if (!descriptors.empty()) {
      const size_t bytes = descriptors.size() * sizeof(int);
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(bytes);
      std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
    }
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    descriptors = {};
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

// Becomes readable when the process ends. Where the kernel has none, it is looked at from time to time.
Fd PidFd(pid_t pid) { return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

}  // namespace

class ExecutorProcess::State {
 public:
  explicit State(ExecutorOptions options) : options_(std::move(options)) {}
  ~State() { End(); }

  Status Start() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return Status(Code::kUnavailable, "cannot make a socket for an executor: " + ErrorText(errno));
    }
    socket_ = Fd(ends[0]);
    Fd child(ends[1]);
    dump_ = Fd(memfd_create("penstock-executor-stacks", MFD_CLOEXEC));
    if (ftruncate(dump_.get(), kDoingPage) != 0 || lseek(dump_.get(), kDoingPage, SEEK_SET) < 0) {
      return Status(Code::kUnavailable, "cannot make a file for an executor's stacks: " + ErrorText(errno));
    }
    // The thread that spawns it is the one whose death ends it (PR_SET_PDEATHSIG), so it is the one that stays as long as it lives.
    std::promise<Status> started;
    thread_ = std::thread([this, &started, child = std::move(child)]() mutable {
      auto pid = SpawnExecutor(options_.python, child.get(), dump_.get(), options_.memory);
      child = Fd();
      if (!pid.ok()) return started.set_value(pid.status());
      pid_ = *pid;
      process_ = PidFd(pid_);
      started.set_value({});
      Watch();
    });
    pthread_setname_np(thread_.native_handle(), "executor");
    const Status status = started.get_future().get();
    if (status.ok()) LogInfo("executor.start", {{"pid", pid_}});
    return status;
  }

  Result<std::string> Call(uint64_t id, const ExecutorMessage& message, Duration within) {
    Pending mine{.id = id, .within = within};
    {
      std::unique_lock sending(send_mutex_);
      {
        const std::lock_guard lock(mutex_);
        if (gone_) return Gone(false);
        if (pending_.empty()) head_since_ = Clock::System().Now();
        pending_.push_back(&mine);
      }
      Send(message);  // where it fails the process is about to be found dead
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return mine.done; });
    if (mine.answered) return std::move(mine.answer);
    return Gone(mine.guilty);
  }

  void Tell(const ExecutorMessage& message) {
    const std::lock_guard sending(send_mutex_);
    if (alive()) Send(message);
  }

  bool alive() const {
    const std::lock_guard lock(mutex_);
    return !gone_;
  }

  void Kill(std::string why) {
    const std::lock_guard lock(mutex_);
    KillLocked(std::move(why));
  }

  void End() {
    {
      const std::lock_guard lock(mutex_);
      if (why_.empty()) why_ = "the executor was let go";
    }
    shutdown(socket_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Pending {
    uint64_t id = 0;
    Duration within{};
    std::string answer{};
    bool answered = false;
    bool guilty = false;
    bool done = false;
  };

  void Send(const ExecutorMessage& message) {
    const std::array<uint32_t, 2> head{static_cast<uint32_t>(message.text.size()), static_cast<uint32_t>(message.bytes.size())};
    std::string begin(kHead + message.text.size(), '\0');  // at once: the child wakes for each piece
    std::memcpy(begin.data(), head.data(), kHead);
    std::memcpy(begin.data() + kHead, message.text.data(), message.text.size());
    WriteAll(socket_.get(), begin.data(), begin.size(), message.descriptors) &&
        WriteAll(socket_.get(), message.bytes.data(), message.bytes.size(), {});
  }

  // On its own thread, from the start to the end of the process.
  void Watch() {
    while (WaitReadable() && TakeAnswer()) {
    }
    Reap();
  }

  // False: the process has ended, and all that it said was read. Its socket's end does not tell: what user code has forked may hold it, too.
  bool WaitReadable() {
    for (;;) {
      std::array<pollfd, 2> ready{{{socket_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}}};
      poll(ready.data(), ready.size(), static_cast<int>(kLookEvery.count()));
      if (const TimePoint now = Clock::System().Now(); now >= look_at_) {
        Look();
        look_at_ = now + kLookEvery;
      }
      if (ready[0].revents != 0) return true;
      if (Ended()) return false;
    }
  }

  // It is not reaped by this: its number stays that of its group.
  bool Ended() const {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno == ECHILD;
    return info.si_pid != 0;
  }

  bool ReadAll(void* data, size_t size) {
    char* at = static_cast<char*>(data);
    while (size > 0) {
      const ssize_t got = recv(socket_.get(), at, size, MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || (errno == EAGAIN && WaitReadable()))) continue;
      if (got <= 0) return false;
      at += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  }

  bool TakeAnswer() {
    struct {
      uint32_t size = 0;
      uint64_t id = 0;
    } __attribute__((packed)) head;
    if (!ReadAll(&head, sizeof(head))) return false;
    if (head.size > kMaxAnswer) {
      Kill("the executor began an answer of " + std::to_string(head.size) + " bytes, more than the " + std::to_string(kMaxAnswer) +
           " that one may have, and was killed; does user code write to descriptor 3?");
      return false;
    }
    std::string text(head.size, '\0');
    if (!ReadAll(text.data(), text.size())) return false;
    const std::lock_guard lock(mutex_);
    if (pending_.empty() || pending_.front()->id != head.id) return false;  // it answers in order, or it is not to be trusted
    Pending& call = *pending_.front();
    pending_.pop_front();
    head_since_ = Clock::System().Now();
    begun_ = true;
    call.answer = std::move(text);
    call.answered = call.done = true;
    changed_.notify_all();
    return true;
  }

  void Look() {
    const uint64_t bytes = OwnBytes(pid_);
    std::unique_lock lock(mutex_);
    if (gone_) return;
    if (options_.memory > 0 && bytes > options_.memory) {
      return KillLocked("the executor held " + std::to_string(bytes) + " bytes, more than the " + std::to_string(options_.memory) +
                        " that one may; it was killed; start the worker with a larger --code-memory");
    }
    if (pending_.empty() || Clock::System().Now() - head_since_ < pending_.front()->within) return;
    const auto waited = std::chrono::duration_cast<milliseconds>(pending_.front()->within).count();
    lock.unlock();
    DumpStacks();
    lock.lock();
    KillLocked("the executor did not answer for " + std::to_string(waited) +
               " ms and was killed; start the worker with a larger --code-timeout if that is how long the code takes");
  }

  // faulthandler writes them, without the interpreter's help.
  void DumpStacks() {
    kill(pid_, SIGUSR1);
    const TimePoint until = Clock::System().Now() + kDumpWithin;
    off_t size = kDoingPage;
    while (Clock::System().Now() < until) {
      const off_t now = lseek(dump_.get(), 0, SEEK_END);
      if (now > static_cast<off_t>(kDoingPage) && now == size) return;
      size = now;
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  void KillLocked(std::string why) {
    if (killed_ || gone_ || pid_ <= 0) return;
    killed_ = true;
    why_ = std::move(why);
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
  }

  void Reap() {
    shutdown(socket_.get(), SHUT_RDWR);  // who is sending does not wait for what user code has forked
    const TimePoint until = Clock::System().Now() + kEndWithin;
    while (!Ended()) {
      if (Clock::System().Now() >= until) Kill("the executor did not end when it was told to");
      std::this_thread::sleep_for(milliseconds(2));
    }
    kill(-pid_, SIGKILL);  // what it has started itself
    int status = 0;
    waitpid(pid_, &status, 0);
    const std::lock_guard lock(mutex_);
    gone_ = true;
    stacks_ = ReadStacks(dump_.get());
    if (!begun_) std::clog << stacks_ << std::flush;  // what would have been in the worker's log
    if (why_.empty()) why_ = begun_ || !WIFEXITED(status) ? HowItEnded(status) : WhyItNeverBegan(HowItEnded(status), stacks_);
    doing_ = ReadDoing(dump_.get());
    LogInfo("executor.end", {{"pid", pid_}, {"why", why_}});
    bool first = true;
    for (Pending* call : pending_) {
      call->guilty = std::exchange(first, false);
      call->done = true;
    }
    pending_.clear();
    changed_.notify_all();
  }

  // Whose call it worked on is told what it did.
  Status Gone(bool guilty) const {
    if (!guilty) return Status(Code::kUnavailable, why_).With("guilty", "0").With("traceback", stacks_);
    const bool at_row = doing_.seq != kLaneEnd;
    std::string message = why_;
    if (!doing_.what.empty()) message += "; it was in " + doing_.what + (at_row ? " " + std::to_string(doing_.seq) : "");
    if (const std::string end = EndOfStack(stacks_); !end.empty()) message += "; its stack ends in " + end;
    Status status = Status(Code::kUnavailable, std::move(message)).With("guilty", "1").With("traceback", stacks_);
    const char* const number_is = doing_.what.ends_with("sample") ? "sample" : "seq";  // an index of the user's own is no row of a lane
    return at_row ? std::move(status).With(number_is, std::to_string(doing_.seq)) : status;
  }

  const ExecutorOptions options_;
  Fd socket_;
  Fd dump_;
  Fd process_;
  pid_t pid_ = -1;
  std::thread thread_;
  std::mutex send_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending*> pending_;  // in the order sent: the first is being worked on
  TimePoint head_since_{};
  TimePoint look_at_{};  // the watching thread's
  bool begun_ = false;   // it has answered
  bool killed_ = false;
  bool gone_ = false;
  std::string why_;
  std::string stacks_;
  ExecutorDoing doing_;
};

Result<std::shared_ptr<ExecutorProcess>> ExecutorProcess::Start(const ExecutorOptions& options) {
  auto state = std::make_unique<State>(options);
  PENSTOCK_TRY(state->Start());
  return std::shared_ptr<ExecutorProcess>(new ExecutorProcess(std::move(state)));
}

ExecutorProcess::ExecutorProcess(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExecutorProcess::~ExecutorProcess() = default;
Result<std::string> ExecutorProcess::Call(uint64_t id, const ExecutorMessage& message, Duration within) { return state_->Call(id, message, within); }
void ExecutorProcess::Tell(const ExecutorMessage& message) { state_->Tell(message); }
bool ExecutorProcess::alive() const { return state_->alive(); }
void ExecutorProcess::Kill() { state_->Kill("the executor was ended"); }

}  // namespace penstock::worker
