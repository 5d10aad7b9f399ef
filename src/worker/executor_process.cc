#include "worker/executor_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/constants.h"
#include "base/log.h"
#include "wire/socket.h"
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

bool ReadAll(int fd, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

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
    // The thread that spawns it is the one whose death ends it (PR_SET_PDEATHSIG), so it is the one that stays as long as it lives.
    std::promise<Status> started;
    thread_ = std::thread([this, &started, child = std::move(child)]() mutable {
      auto pid = SpawnExecutor(options_.python, child.get(), dump_.get(), options_.memory);
      child = Fd();
      if (!pid.ok()) return started.set_value(pid.status());
      pid_ = *pid;
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
    std::array<uint32_t, 2> head{static_cast<uint32_t>(message.text.size()), static_cast<uint32_t>(message.bytes.size())};
    WriteAll(socket_.get(), head.data(), kHead, message.descriptors) && WriteAll(socket_.get(), message.text.data(), message.text.size(), {}) &&
        WriteAll(socket_.get(), message.bytes.data(), message.bytes.size(), {});
  }

  // On its own thread, from the start to the end of the process.
  void Watch() {
    TimePoint look_at = Clock::System().Now();
    for (;;) {
      pollfd ready{socket_.get(), POLLIN, 0};
      const int count = poll(&ready, 1, static_cast<int>(kLookEvery.count()));
      if (count > 0 && !TakeAnswer()) break;
      if (const TimePoint now = Clock::System().Now(); now >= look_at) {
        Look();
        look_at = now + kLookEvery;
      }
    }
    Reap();
  }

  bool TakeAnswer() {
    struct {
      uint32_t size = 0;
      uint64_t id = 0;
    } __attribute__((packed)) head;
    if (!ReadAll(socket_.get(), &head, sizeof(head)) || head.size > kMaxAnswer) return false;
    std::string text(head.size, '\0');
    if (!ReadAll(socket_.get(), text.data(), text.size())) return false;
    const std::lock_guard lock(mutex_);
    if (pending_.empty() || pending_.front()->id != head.id) return false;  // it answers in order, or it is not to be trusted
    Pending& call = *pending_.front();
    pending_.pop_front();
    head_since_ = Clock::System().Now();
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
    off_t size = 0;
    while (Clock::System().Now() < until) {
      const off_t now = lseek(dump_.get(), 0, SEEK_END);
      if (now > 0 && now == size) return;
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
    const TimePoint until = Clock::System().Now() + kEndWithin;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::System().Now() >= until) Kill("the executor did not end when it was told to");
      std::this_thread::sleep_for(milliseconds(2));
    }
    kill(-pid_, SIGKILL);  // what it has started itself
    const std::lock_guard lock(mutex_);
    gone_ = true;
    if (why_.empty()) why_ = HowItEnded(status);
    stacks_ = ReadStacks();
    LogInfo("executor.end", {{"pid", pid_}, {"why", why_}});
    bool first = true;
    for (Pending* call : pending_) {
      call->guilty = std::exchange(first, false);
      call->done = true;
    }
    pending_.clear();
    changed_.notify_all();
  }

  std::string ReadStacks() const {
    std::string text(64 * kKiB, '\0');
    const ssize_t got = pread(dump_.get(), text.data(), text.size(), 0);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }

  Status Gone(bool guilty) const { return Status(Code::kUnavailable, why_).With("guilty", guilty ? "1" : "0").With("traceback", stacks_); }

  const ExecutorOptions options_;
  Fd socket_;
  Fd dump_;
  pid_t pid_ = -1;
  std::thread thread_;
  std::mutex send_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Pending*> pending_;  // in the order sent: the first is being worked on
  TimePoint head_since_{};
  bool killed_ = false;
  bool gone_ = false;
  std::string why_;
  std::string stacks_;
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
