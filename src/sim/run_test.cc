#include "sim/run.h"

#include <gtest/gtest.h>

#include "sim/planted_bugs.h"

namespace penstock::sim {
namespace {

std::string Described(const RunReport& report) {
  std::string text = "penstock-sim --seed " + std::to_string(report.seed) + " --trace shows it (" + report.scenario + ")";
  for (const std::string& violation : report.violations) text += "\n  " + violation;
  return text;
}

TEST(Simulator, EveryPromiseHoldsOnManySeeds) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RunReport report = RunSeed(seed);
    ASSERT_TRUE(report.violations.empty()) << Described(report);
  }
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

#ifndef NDEBUG

class PlantedBugTest : public testing::TestWithParam<PlantedBug> {
 protected:
  ~PlantedBugTest() override { planted_bug = Bug::kNone; }
};

// `make test` runs these seeds and more without a bug, optimised, and finds nothing.
TEST_P(PlantedBugTest, IsFoundWithinTwoThousandSeeds) {
  planted_bug = GetParam().bug;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    if (!RunSeed(seed).violations.empty()) return;
  }
  FAIL() << "2000 seeds found nothing wrong with: " << GetParam().name;
}

std::string TestName(const testing::TestParamInfo<PlantedBug>& info) {
  std::string name;
  for (const char* c = info.param.name; *c != '\0'; ++c) name += *c == ' ' ? '_' : *c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Simulator, PlantedBugTest, testing::ValuesIn(PlantedBugs()), TestName);

#endif

}  // namespace
}  // namespace penstock::sim
