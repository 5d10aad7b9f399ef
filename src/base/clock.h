// Time comes through a clock that tests can hold.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock {

using Duration = std::chrono::nanoseconds;

// A moment on a monotonic clock. Cores get it with each event; they never ask.
struct TimePoint {
  Duration since_start{0};
  friend auto operator<=>(const TimePoint&, const TimePoint&) = default;
  friend TimePoint operator+(TimePoint t, Duration d) { return {t.since_start + d}; }
  friend TimePoint operator-(TimePoint t, Duration d) { return {t.since_start - d}; }
  friend Duration operator-(TimePoint a, TimePoint b) { return a.since_start - b.since_start; }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;  // any thread
  static Clock& System();             // std::chrono::steady_clock
};

// A clock that stands still until it is moved.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void Advance(Duration by) { now_ = now_ + by; }
  void Set(TimePoint now) { now_ = now; }

 private:
  TimePoint now_{};
};

}  // namespace penstock
