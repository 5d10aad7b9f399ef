#include "engine/lane_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing.h"

namespace penstock::engine::testing {
namespace {

using ::testing::HasSubstr;

class NoMemoryAtAll final : public ExtentAllocator {
 public:
  Result<Extent> Allocate(uint64_t bytes) override { return Status(Code::kTooLarge, std::to_string(bytes) + " bytes never fit"); }
};

// One row of 1 MiB that takes no memory in the plan: a feature that its record lacks.
Plan LargeRow() {
  AttrMap offsets;
  offsets.Set("bytes", std::make_shared<const std::string>(2 * sizeof(int64_t), '\0'));
  AttrMap records;
  records.Set("name", "records");
  records.Set("dtype", "string");
  records.Set("offsets", std::vector<AttrMap>{offsets});
  records.Set("values", std::make_shared<const std::string>());
  AttrMap feature;
  feature.Set("name", "x");
  feature.Set("dtype", "float32");
  feature.Set("shape", std::vector<int64_t>{1 << 18});
  feature.Set("default", std::vector<double>{0.5});
  const Plan source = Source("arrays", {{"rows", int64_t{1}}, {"columns", std::vector<AttrMap>{records}}});
  return Over(source, "parse_example", {{"features", std::vector<AttrMap>{feature}}});
}

TEST(LaneRun, ARowThatNeverFitsIsRefusedBeforeItIsMade) {
  NoMemoryAtAll none;
  const auto pipeline = Compile(LargeRow());
  const auto run = pipeline->OpenLane({.key = {}, .from = {}, .block_target = 1 << 10, .block_cap = 1 << 16, .allocator = &none});
  ASSERT_TRUE(run.ok()) << run.status();
  StepResult result = (*run)->Step();
  ASSERT_TRUE(std::holds_alternative<Status>(result));
  EXPECT_THAT(std::get<Status>(result).message(), HasSubstr("row 0 take"));
  EXPECT_LT((*run)->state_bytes(), 1U << 16) << "it was made";
}

}  // namespace
}  // namespace penstock::engine::testing
