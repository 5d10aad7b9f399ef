// Where all chance in a run comes from: the same seed gives the same run, on every machine.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace penstock::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : Next() % bound; }
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  bool Percent(uint64_t chance) { return Below(100) < chance; }
  Duration Micros(uint64_t low, uint64_t high) { return std::chrono::microseconds(Between(low, high)); }
  Duration Millis(uint64_t low, uint64_t high) { return std::chrono::milliseconds(Between(low, high)); }

 private:
  uint64_t state_;
};

// A number from numbers, for what must not depend on the order of draws: how long a lane is.
inline uint64_t Hash(uint64_t a, uint64_t b, uint64_t c) {
  Random mix(a * 0x9E3779B97F4A7C15ULL ^ b * 0xC2B2AE3D27D4EB4FULL ^ c);
  return mix.Next();
}

}  // namespace penstock::sim
