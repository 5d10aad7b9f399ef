// What this process uses of the machine.
#pragma once

#include <cstdint>

#include "base/constants.h"

namespace penstock::worker {

inline constexpr uint64_t kLeastMemory = 8 * kMiB;  // of a worker's budget

struct Usage {
  uint64_t rss = 0;
  uint64_t cpu_ns = 0;
};
Usage ProcessUsage();

uint32_t CoreCount();      // that this process may run on
uint64_t DefaultMemory();  // 0.6 of what the cgroup or the machine has

}  // namespace penstock::worker
