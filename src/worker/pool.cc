#include "worker/pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>

namespace penstock::worker {

Pool::Pool(uint32_t threads) {
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (uint32_t i = 0; i < std::max(threads, 1U); ++i) {
    threads_.emplace_back([this] { Run(); });
    pthread_setname_np(threads_.back().native_handle(), ("lanes-" + std::to_string(i)).c_str());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Pool::~Pool() { Stop(); }

void Pool::Submit(uint64_t priority, Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push({priority, order_++, std::move(work)});
  }
  wake_.notify_one();
}

void Pool::Stop() {
  std::priority_queue<Item> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Pool::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Work work = std::move(const_cast<Item&>(queue_.top()).work);  // top is const only to keep the order, which work is no part of
    queue_.pop();
    lock.unlock();
    work();
    work = nullptr;  // what it held goes without the lock
    lock.lock();
  }
}

}  // namespace penstock::worker
