// How long lanes take to their next block, and from when on one is behind its peers (protocol.md 6).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "base/clock.h"
#include "base/constants.h"

namespace penstock {

class LanePace {
 public:
  void Took(Duration time) {
    times_[next_++ % times_.size()] = time;
    known_ = std::min(known_ + 1, times_.size());
  }

  // A lane that took longer is behind; nullopt while nothing is known of its peers.
  std::optional<Duration> Limit() const {
    if (known_ == 0) return std::nullopt;
    auto times = times_;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(known_ / 2);
    std::nth_element(times.begin(), middle, times.begin() + static_cast<std::ptrdiff_t>(known_));
    return std::max<Duration>(*middle * kHedgeFactor, *middle + kHedgeAfter);
  }

 private:
  std::array<Duration, 15> times_{};
  size_t next_ = 0;
  size_t known_ = 0;
};

}  // namespace penstock
