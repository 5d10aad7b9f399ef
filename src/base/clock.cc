#include "base/clock.h"

namespace penstock {
namespace {

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return {std::chrono::steady_clock::now().time_since_epoch()}; }
};

}  // namespace

Clock& Clock::System() {
  static SystemClock clock;
  return clock;
}

}  // namespace penstock
