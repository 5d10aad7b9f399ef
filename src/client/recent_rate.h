// How quickly something goes on, as far as it was seen lately: rows that the loop takes, lanes that it comes to the end of.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace penstock {

class RecentRate {
 public:
  // `count`: all there were so far.
  void Saw(TimePoint now, uint64_t count) {
    const Duration time = now - since_;
    if (time < kWindow) return;
    rate_ = static_cast<double>(count - count_) / std::chrono::duration<double>(time).count();
    since_ = now;
    count_ = count;
  }
  uint64_t In(std::chrono::duration<double> time) const { return static_cast<uint64_t>(rate_ * time.count()); }

 private:
  static constexpr Duration kWindow = std::chrono::milliseconds(100);
  TimePoint since_{};
  uint64_t count_ = 0;
  double rate_ = 0;  // a second; 0 while nothing is known
};

}  // namespace penstock
