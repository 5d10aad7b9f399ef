#include "sim/run.h"

#include <gtest/gtest.h>

namespace penstock::sim {
namespace {

std::string Described(const RunReport& report) {
  std::string text = "penstock-sim --seed " + std::to_string(report.seed) + " --trace shows it (" + report.scenario + ")";
  for (const std::string& violation : report.violations) text += "\n  " + violation;
  return text;
}

TEST(Simulator, EveryPromiseHoldsOnManySeeds) {
  uint64_t changed = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const RunReport report = RunSeed(seed);
    ASSERT_TRUE(report.violations.empty()) << Described(report);
    changed += report.faults.contains("batch size changed") ? 1 : 0;
  }
  EXPECT_GT(changed, 0u) << "no job was gone on with in batches of another size";
}

TEST(Simulator, TheSameSeedIsTheSameRun) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const RunReport first = RunSeed(seed);
    const RunReport second = RunSeed(seed);
    EXPECT_EQ(first.events, second.events);
    EXPECT_EQ(first.rows, second.rows);
    EXPECT_EQ(first.virtual_seconds, second.virtual_seconds);
  }
}

}  // namespace
}  // namespace penstock::sim
