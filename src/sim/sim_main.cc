// penstock-sim: whole clusters from seeds, checked. A violation prints its seed and what happened last; --seed S --trace shows all of it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "sim/many.h"
#include "sim/planted_bugs.h"
#include "sim/scenario.h"

namespace {

using namespace penstock::sim;
using Number = unsigned long long;

struct Flags {
  uint64_t seeds = 100;
  uint64_t from = 1;
  uint64_t seed = 0;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  bool trace = false;
  std::string planted{};
  bool prove = false;
};

void PrintViolations(const RunReport& report) {
  for (const std::string& violation : report.violations) std::printf("VIOLATION seed %llu: %s\n", Number{report.seed}, violation.c_str());
  std::printf("  %s\n", report.scenario.c_str());
  std::fflush(stdout);  // a run may be stopped before its end
}

void PrintWithTrace(const RunReport& report) {
  PrintViolations(report);
  TraceLog last(TraceLog::Keep::kLast);
  RunSeed(report.seed, last);
  for (const std::string& line : last.lines()) std::printf("  | %s\n", line.substr(0, 240).c_str());
  std::printf("  all of it: penstock-sim --seed %llu --trace\n", Number{report.seed});
  std::fflush(stdout);
}

int RunOne(uint64_t seed, bool trace) {
  TraceLog log(trace ? TraceLog::Keep::kPrint : TraceLog::Keep::kNothing);
  const RunReport report = RunSeed(seed, log);
  if (!report.violations.empty()) PrintViolations(report);
  std::printf("%s\n%llu events, %llu batches, %llu rows, %.0f virtual s; violations: %zu\n", report.scenario.c_str(), Number{report.events},
              Number{report.batches}, Number{report.rows}, report.virtual_seconds, report.violations.size());
  return report.violations.empty() ? 0 : 3;
}

void PrintCoverage(const Totals& totals) {
  std::printf("faults:");
  for (const auto& [kind, count] : totals.faults) std::printf(" %s %llu;", kind.c_str(), Number{count});
  std::printf("\n");
}

int RunAll(const Flags& flags) {
  const auto start = std::chrono::steady_clock::now();
  uint64_t shown = 0;
  constexpr uint64_t kTraces = 3;  // the others by their seed alone
  const Totals totals = RunMany(flags.from, flags.seeds, flags.threads,
                                [&](const RunReport& report) { shown++ < kTraces ? PrintWithTrace(report) : PrintViolations(report); });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%llu runs (%llu of large clusters), %llu events, %llu batches, %llu rows (%llu repeated and counted)\n", Number{totals.runs},
              Number{totals.large}, Number{totals.events}, Number{totals.batches}, Number{totals.rows}, Number{totals.repeated});
  std::printf("%.0f virtual s in %.1f s, %.0f runs/s\n", totals.virtual_seconds, seconds, static_cast<double>(totals.runs) / seconds);
  PrintCoverage(totals);
  std::printf("violations: %llu\n", Number{totals.violated});
  return totals.violated == 0 ? 0 : 3;
}

// Each bug is planted, and the seeds that are clean without it must find it.
int ProveBugs(const Flags& flags) {
  size_t missed = 0;
  for (const PlantedBug& planted : PlantedBugs()) {
    if (!Plant(planted.bug)) {
      std::fprintf(stderr, "this build has no switch for planted bugs; the release preset has it\n");
      return 2;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::optional<RunReport> found = FirstViolation(flags.from, flags.seeds, flags.threads);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    missed += found ? 0 : 1;
    const std::string where = found ? "seed " + std::to_string(found->seed) + ": " + found->violations[0] : "NOT FOUND";
    std::printf("%-28s %5.1f s  %s\n", planted.name, seconds, where.c_str());
    std::fflush(stdout);
  }
  std::printf("planted bugs: %zu, not found within %llu seeds: %zu\n", PlantedBugs().size(), Number{flags.seeds}, missed);
  return missed == 0 ? 0 : 3;
}

int PlantByName(const std::string& name) {
  const auto& bugs = PlantedBugs();
  const auto bug = std::find_if(bugs.begin(), bugs.end(), [&](const PlantedBug& planted) { return name == planted.name; });
  if (bug != bugs.end() && Plant(bug->bug)) return 0;
  std::fprintf(stderr, "this build knows no bug '%s' to plant; docs/design/simulator.md says where they are listed\n", name.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Runs whole clusters in virtual time, each from a seed, and checks what the protocol promises.", "penstock-sim");
  app.add_option("--seeds", flags.seeds, "how many runs");
  app.add_option("--from", flags.from, "the first seed");
  app.add_option("--threads", flags.threads, "how many at a time");
  app.add_option("--seed", flags.seed, "this seed alone");
  app.add_flag("--trace", flags.trace, "with --seed: print what happens");
  app.add_option("--planted", flags.planted, "with this bug in the cores; only in builds without sanitizers");
  app.add_flag("--prove", flags.prove, "with each of the bugs, until one of these seeds finds it");
  CLI11_PARSE(app, argc, argv);
  if (flags.prove) return ProveBugs(flags);
  if (!flags.planted.empty()) {
    if (const int failed = PlantByName(flags.planted); failed != 0) return failed;
  }
  return flags.seed != 0 ? RunOne(flags.seed, flags.trace) : RunAll(flags);
}
