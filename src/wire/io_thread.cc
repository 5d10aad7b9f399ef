#include "wire/io_thread.h"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "wire/asio.h"
#include "wire/fork_marks.h"

namespace penstock {
namespace {

using Reactor = asio::detail::epoll_reactor;
using ReactorDescriptors = std::array<int, 3>;  // epoll, timer, wake-up
ReactorDescriptors DescriptorsOf(Reactor& reactor);

// Asio keeps these to itself; an explicit instantiation may name private members.
template <auto kEpoll, auto kTimer, auto kInterrupter>
struct Reveal {
  friend ReactorDescriptors DescriptorsOf(Reactor& reactor) { return {reactor.*kEpoll, reactor.*kTimer, (reactor.*kInterrupter).read_descriptor()}; }
};
template struct Reveal<&Reactor::epoll_fd_, &Reactor::timer_fd_, &Reactor::interrupter_>;

}  // namespace

class IoThread::Impl {
 public:
  explicit Impl(const std::string& name) {
    // Threads inherit the mask: blocked here, around the start, no signal can slip in before the thread blocks its own.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { context_.run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
    thread_id_ = thread_.get_id();
  }

  void Post(std::function<void()> fn) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      queue_.push_back(std::move(fn));
      if (queue_.size() > 1) return;  // whoever came first has woken the thread
    }
    asio::post(context_, [this] { Drain(); });
  }

  void Stop() {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      stopping_ = true;
    }
    asio::post(context_, [this] {
      Drain();
      while (!residents_.empty()) {  // one may take another with it
        IoResident* resident = *residents_.begin();
        residents_.erase(residents_.begin());
        resident->OnIoStop();
      }
      context_.stop();
    });
    thread_.join();
  }

  asio::io_context context_{1};
  const ReactorDescriptors reactor_ = DescriptorsOf(asio::use_service<Reactor>(context_));
  const ForkMark epoll_mark_{reactor_[0]};
  const ForkMark timer_mark_{reactor_[1]};
  const ForkMark wake_mark_{reactor_[2]};
  std::unordered_set<IoResident*> residents_;  // the thread's
  std::thread::id thread_id_;

 private:
  void Drain() {
    std::vector<std::function<void()>> todo;
    {
      std::lock_guard lock(mutex_);
      todo.swap(queue_);
    }
    for (auto& fn : todo) {
      fn();
      fn = nullptr;  // what it held may post again, or be waited for
    }
  }

  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::mutex mutex_;
  std::vector<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

IoThread::IoThread(const std::string& name) : impl_(std::make_unique<Impl>(name)) {}
IoThread::~IoThread() { Stop(); }
void IoThread::Post(std::function<void()> fn) { impl_->Post(std::move(fn)); }
void IoThread::Stop() { impl_->Stop(); }
bool IoThread::OnThread() const { return std::this_thread::get_id() == impl_->thread_id_; }
bool IoThread::Answers(Duration within) {
  const auto ran = std::make_shared<std::promise<void>>();
  auto answer = ran->get_future();
  Post([ran] { ran->set_value(); });
  try {
    return answer.wait_for(within) == std::future_status::ready;
  } catch (const std::future_error&) {
    return false;
  }
}
void IoThread::Add(IoResident& resident) { impl_->residents_.insert(&resident); }
void IoThread::Remove(IoResident& resident) { impl_->residents_.erase(&resident); }
asio::io_context& IoThread::context() { return impl_->context_; }

class Timer::Impl {
 public:
  explicit Impl(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
  uint64_t round = 0;  // a wait that was replaced may already be on its way
};

Timer::Timer(IoThread& io) : impl_(std::make_shared<Impl>(io.context())) {}
Timer::~Timer() { Cancel(); }

void Timer::After(Duration wait, std::function<void()> fn) {
  impl_->timer.expires_after(wait);
  impl_->timer.async_wait([weak = std::weak_ptr(impl_), round = ++impl_->round, fn = std::move(fn)](std::error_code) {
    const auto impl = weak.lock();
    if (impl != nullptr && impl->round == round) fn();
  });
}

void Timer::Cancel() {
  ++impl_->round;
  impl_->timer.cancel();
}

}  // namespace penstock
