#include "load/latencies.h"

#include <algorithm>
#include <cstdio>

namespace penstock::load {
namespace {

double Milliseconds(const std::vector<Duration>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())));
  return std::chrono::duration<double, std::milli>(sorted[at]).count();
}

}  // namespace

std::string Latencies::ToJson() const {
  std::vector<Duration> sorted = times_;
  std::sort(sorted.begin(), sorted.end());
  char text[160];
  std::snprintf(text, sizeof text, R"({"count": %zu, "p50_ms": %.2f, "p99_ms": %.2f, "max_ms": %.2f})", sorted.size(), Milliseconds(sorted, 0.5),
                Milliseconds(sorted, 0.99), Milliseconds(sorted, 1));
  return text;
}

}  // namespace penstock::load
