#include "sim/many.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace penstock::sim {
namespace {

void OnThreads(unsigned threads, const std::function<void()>& work) {
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
}

}  // namespace

void Totals::Add(const RunReport& report) {
  ++runs;
  large += report.large ? 1 : 0;
  violated += report.violations.empty() ? 0 : 1;
  events += report.events;
  rows += report.rows;
  batches += report.batches;
  repeated += report.repeated;
  virtual_seconds += report.virtual_seconds;
  for (const auto& [kind, count] : report.faults) faults[kind] += count;
}

Totals RunMany(uint64_t from, uint64_t seeds, unsigned threads, const std::function<void(const RunReport&)>& violated) {
  Totals totals;
  std::mutex mutex;
  std::atomic<uint64_t> next{from};
  OnThreads(threads, [&] {
    for (uint64_t seed = next++; seed < from + seeds; seed = next++) {
      const RunReport report = RunSeed(seed);
      const std::lock_guard lock(mutex);
      totals.Add(report);
      if (!report.violations.empty()) violated(report);
    }
  });
  return totals;
}

std::optional<RunReport> FirstViolation(uint64_t from, uint64_t seeds, unsigned threads) {
  std::optional<RunReport> first;
  std::mutex mutex;
  std::atomic<uint64_t> next{from};
  std::atomic<uint64_t> end{from + seeds};
  OnThreads(threads, [&] {
    for (uint64_t seed = next++; seed < end; seed = next++) {
      RunReport report = RunSeed(seed);
      const std::lock_guard lock(mutex);
      if (report.violations.empty() || seed >= end) continue;
      end = seed;  // those before it may still be running
      first = std::move(report);
    }
  });
  return first;
}

}  // namespace penstock::sim
