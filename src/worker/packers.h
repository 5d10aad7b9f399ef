// Packs blocks on the threads that make them, with a bounded number of scratches: who finds none free waits for one, which takes milliseconds.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/extent.h"
#include "wire/packing.h"

namespace penstock::worker {

// Any thread.
class Packers {
 public:
  explicit Packers(uint32_t count) : free_(count) {
    for (auto& packer : free_) packer = std::make_unique<Packer>();
  }
  // So many that they take no more than an eighth of the budget, but one at least.
  static uint32_t CountFor(uint64_t memory, uint32_t threads) {
    return static_cast<uint32_t>(std::clamp<uint64_t>(memory / 8 / kPackerBytes, 1, std::max(threads, 1U)));
  }

  // In place, as Packer; the block says how.
  void Pack(PackCodec codec, Extent& block);

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Packer>> free_;
};

}  // namespace penstock::worker
