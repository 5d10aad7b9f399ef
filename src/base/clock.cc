#include "base/clock.h"

namespace penstock {
namespace {

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return {std::chrono::steady_clock::now().time_since_epoch()}; }
};

}  // namespace

Clock& Clock::System() {
  // Never destroyed: a reader that was left behind may use it on its thread while the process ends.
  static SystemClock& clock = *new SystemClock;
  return clock;
}

}  // namespace penstock
