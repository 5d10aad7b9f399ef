// Times of round trips, and their percentiles.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"

namespace penstock::load {

class Latencies {
 public:
  void Add(Duration time) { times_.push_back(time); }
  // {"count": 3, "p50_ms": 1.0, "p99_ms": 2.0, "max_ms": 2.0}
  std::string ToJson() const;

 private:
  std::vector<Duration> times_;
};

}  // namespace penstock::load
