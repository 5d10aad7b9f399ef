#include "client/hub.h"

#include <pthread.h>

#include <atomic>
#include <string>

#include "wire/fork_marks.h"
#include "wire/segments.h"

namespace penstock {
namespace {

std::atomic<uint64_t> g_forks{0};
std::atomic<Hub*> g_hub{nullptr};
std::atomic_flag g_making = ATOMIC_FLAG_INIT;

// Only atomics and close: the thread that held a lock in the parent does not exist here.
void InForkedChild() {
  CloseMarkedAfterFork();
  g_forks.fetch_add(1);
  g_hub.store(nullptr);
  g_making.clear();
}

}  // namespace

ForkStamp CurrentStamp() { return ForkStamp{g_forks.load(std::memory_order_relaxed)}; }

Hub::Hub() : stamp_(CurrentStamp()), io_("penstock-io"), workers_(io_) {}

Hub& Hub::Get() {
  static const int watches_forks = pthread_atfork(&KeepBorrowed, &KeepBorrowed, &InForkedChild);
  (void)watches_forks;
  while (true) {
    if (Hub* hub = g_hub.load()) return *hub;
    if (g_making.test_and_set()) {
      g_making.wait(true);
      continue;
    }
    if (g_hub.load() == nullptr) g_hub.store(new Hub());
    g_making.clear();
    g_making.notify_all();
  }
}

Status CheckNotForked(ForkStamp made, const char* what) {
  if (made == CurrentStamp()) return {};
  return Status(Code::kInvalid,
                std::string("this ") + what +
                    " was made before the process forked and lives in the parent; in the child connect anew and make a reader there, or start "
                    "the child with spawn or forkserver");
}

}  // namespace penstock
