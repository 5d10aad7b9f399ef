#include "sim/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "sim/quiet_cluster.h"

namespace penstock::sim {
namespace {

using std::chrono::seconds;

class LockstepTest : public QuietCluster {
 protected:
  static JobScenario Lockstep() {
    JobScenario job = SmallJob(8);
    job.lane_rows = 40;
    job.lockstep = true;
    job.even = Even::kDrop;
    return job;
  }
  LockstepTest() : QuietCluster(1, Lockstep()) { trainer->Start(); }
};

TEST_F(LockstepTest, OneThatIsStartedAnewIsAtTheStepOfItsSeatBeforeItHasABatch) {
  ConsumerNode& lost = *trainer->ranks()[1];
  const ConsumerNode& other = *trainer->ranks()[0];
  ASSERT_TRUE(Run(seconds(30), [&] { return std::min(lost.steps(), other.steps()) == 5; }));
  workers[0]->Pause(std::chrono::hours(1));  // nobody gets another batch
  Run(seconds(5));
  const uint64_t had = lost.steps();
  lost.Crash();
  ASSERT_TRUE(Run(seconds(60), [&] { return lost.up() && lost.steps() > 0; })) << "it has its seat, and no batch";
  EXPECT_GE(lost.steps() + 1, had) << "a batch that was in its hands may come again";
  EXPECT_TRUE(world.violations().empty());
}

}  // namespace
}  // namespace penstock::sim
