// Threads that do the work of lanes, the most urgent first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace penstock::worker {

class Pool {
 public:
  using Work = std::function<void()>;

  explicit Pool(uint32_t threads);
  ~Pool();  // stops
  Pool(const Pool&) = delete;

  // Any thread. Lower priorities first; equal ones in the order given.
  void Submit(uint64_t priority, Work work);
  // Waits for what is being done and drops the rest. Idempotent; not from a thread of the pool.
  void Stop();

 private:
  struct Item {
    uint64_t priority = 0;
    uint64_t order = 0;
    Work work;
    bool operator<(const Item& other) const { return priority != other.priority ? priority > other.priority : order > other.order; }
  };
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::priority_queue<Item> queue_;
  uint64_t order_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock::worker
