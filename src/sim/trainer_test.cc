#include "sim/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace penstock::sim {
namespace {

// Two declared ranks in lockstep, one worker, no faults but those that a test makes.
class LockstepTest : public testing::Test {
 protected:
  static Scenario Lockstep() {
    JobScenario job;
    job.name = "train";
    job.seed = 5;
    job.layout.lanes = 8;
    job.layout.batch = 2;
    job.lane_rows = 40;
    job.consumers = 2;
    job.declared = job.lockstep = true;
    job.even = Even::kDrop;
    job.on_death = OnDeath::kHold;
    job.reader_memory = 1 << 20;
    Scenario scenario;
    scenario.worker_memory = 1 << 20;
    scenario.jobs = {job};
    return scenario;
  }
  void SetUp() override {
    workers.push_back(std::make_unique<WorkerNode>(world, scenario, home, 0));
    dispatcher.Start();
    workers[0]->Start();
    trainer.Start();
  }
  bool Within(std::chrono::seconds time, const std::function<bool()>& done) { return world.Run(world.now() + time, done); }

  const Scenario scenario = Lockstep();
  TraceLog trace{TraceLog::Keep::kNothing};
  World world{1, trace};
  GrantBook book;
  DispatcherNode dispatcher{world, &book, "dispatcher"};
  DispatcherNode stale{world, nullptr, "stale"};
  const Home home{dispatcher, stale};
  std::vector<std::unique_ptr<WorkerNode>> workers;
  Trainer trainer{world, scenario, scenario.jobs[0], ConsumerNode::Cluster{home, workers, book}};
};

TEST_F(LockstepTest, OneThatIsStartedAnewIsAtTheStepOfItsSeatBeforeItHasABatch) {
  ConsumerNode& lost = *trainer.ranks()[1];
  const ConsumerNode& other = *trainer.ranks()[0];
  ASSERT_TRUE(Within(std::chrono::seconds(30), [&] { return std::min(lost.steps(), other.steps()) == 5; }));
  workers[0]->Pause(std::chrono::hours(1));  // nobody gets another batch
  Within(std::chrono::seconds(5), [] { return false; });
  const uint64_t had = lost.steps();
  lost.Crash();
  ASSERT_TRUE(Within(std::chrono::seconds(60), [&] { return lost.up() && lost.steps() > 0; })) << "it has its seat, and no batch";
  EXPECT_GE(lost.steps() + 1, had) << "a batch that was in its hands may come again";
  EXPECT_TRUE(world.violations().empty());
}

}  // namespace
}  // namespace penstock::sim
