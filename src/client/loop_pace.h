// How quickly the loop takes rows, as far as it was seen lately.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace penstock {

class LoopPace {
 public:
  // `rows`: all that it has taken so far.
  void Saw(TimePoint now, uint64_t rows) {
    const Duration time = now - since_;
    if (time < kWindow) return;
    rate_ = static_cast<double>(rows - rows_) / std::chrono::duration<double>(time).count();
    since_ = now;
    rows_ = rows;
  }
  uint64_t RowsIn(std::chrono::duration<double> time) const { return static_cast<uint64_t>(rate_ * time.count()); }

 private:
  static constexpr Duration kWindow = std::chrono::milliseconds(100);
  TimePoint since_{};
  uint64_t rows_ = 0;
  double rate_ = 0;  // rows a second; 0 while nothing is known
};

}  // namespace penstock
