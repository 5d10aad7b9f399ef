#include "worker/packers.h"

#include <ctime>
#include <utility>

namespace penstock::worker {
namespace {

// Of this thread: what others did meanwhile on its core is not the codec's cost.
std::chrono::nanoseconds CpuTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

void Packers::Pack(PackCodec codec, Extent& block) {
  std::unique_ptr<Packer> packer;
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return !free_.empty(); });
    packer = std::move(free_.back());
    free_.pop_back();
  }
  const auto before = CpuTime();
  Packing packing = packer->Pack(codec, block.bytes());
  packing.cpu = CpuTime() - before;
  block.Pack(std::make_shared<const Packing>(std::move(packing)));
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(packer));
  }
  freed_.notify_one();
}

}  // namespace penstock::worker
