// penstock-sim: whole clusters from seeds, checked. A violation prints its seed; --seed S --trace shows what happened.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "sim/run.h"

namespace {

void PrintViolations(const penstock::sim::RunReport& report) {
  for (const std::string& violation : report.violations) {
    std::printf("VIOLATION seed %llu: %s\n  %s\n", static_cast<unsigned long long>(report.seed), violation.c_str(), report.scenario.c_str());
  }
  std::fflush(stdout);  // a run may be stopped before its end
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seeds = 100;
  uint64_t from = 1;
  uint64_t one = 0;
  bool trace = false;
  CLI::App app("Runs whole clusters in virtual time, each from a seed, and checks what the protocol promises.", "penstock-sim");
  app.add_option("--seeds", seeds, "how many runs");
  app.add_option("--from", from, "the first seed");
  app.add_option("--seed", one, "this seed alone");
  app.add_flag("--trace", trace, "print what happens");
  CLI11_PARSE(app, argc, argv);
  if (one != 0) {
    from = one;
    seeds = 1;
  }

  const auto start = std::chrono::steady_clock::now();
  uint64_t events = 0, rows = 0, batches = 0, repeated = 0, violated = 0;
  double virtual_seconds = 0;
  std::map<std::string, uint64_t> faults;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const penstock::sim::RunReport report = penstock::sim::RunSeed(seed, trace);
    PrintViolations(report);
    violated += report.violations.empty() ? 0 : 1;
    events += report.events;
    rows += report.rows;
    batches += report.batches;
    repeated += report.repeated;
    virtual_seconds += report.virtual_seconds;
    for (const auto& [kind, count] : report.faults) faults[kind] += count;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%llu runs, %llu events, %llu batches, %llu rows (%llu repeated and counted), %.0f virtual s in %.1f s\nfaults:",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(events), static_cast<unsigned long long>(batches),
              static_cast<unsigned long long>(rows), static_cast<unsigned long long>(repeated), virtual_seconds, seconds);
  for (const auto& [kind, count] : faults) std::printf(" %s %llu;", kind.c_str(), static_cast<unsigned long long>(count));
  std::printf("\nviolations: %llu\n", static_cast<unsigned long long>(violated));
  return violated == 0 ? 0 : 3;
}
