// What a link carried, and how often it was full.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock {

// Since it began.
struct LinkUse {
  uint64_t written = 0;                // bytes that the kernel took
  std::chrono::nanoseconds blocked{};  // while bytes waited for it to take more
};

}  // namespace penstock
