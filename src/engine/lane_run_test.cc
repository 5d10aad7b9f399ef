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

TEST(LaneRun, ARowThatNeverFitsIsRefusedBeforeItIsMade) {
  NoMemoryAtAll none;
  const auto pipeline = Compile(Numbers(3));
  const auto run = pipeline->OpenLane({.key = {}, .from = {}, .block_target = 1, .block_cap = 4, .allocator = &none});
  ASSERT_TRUE(run.ok()) << run.status();
  StepResult result = (*run)->Step();
  ASSERT_TRUE(std::holds_alternative<Status>(result));
  EXPECT_THAT(std::get<Status>(result).message(), HasSubstr("row 0 take"));
  EXPECT_EQ((*run)->state_bytes(), 0U) << "it was made";
}

}  // namespace
}  // namespace penstock::engine::testing
