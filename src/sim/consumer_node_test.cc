#include "sim/consumer_node.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "sim/trainer.h"

namespace penstock::sim {
namespace {

using std::chrono::seconds;

// A dispatcher, a worker and the ranks of one strict job, without any fault but those of the script.
class ConsumerNodeTest : public testing::Test {
 protected:
  ConsumerNodeTest() {
    scenario.workers = 1;
    scenario.worker_memory = 1 << 20;
    JobScenario job;
    job.name = "train";
    job.seed = 5;
    job.mode = Mode::kStrict;
    job.layout.lanes = 6;
    job.layout.batch = 2;
    job.consumers = 2;
    job.declared = true;
    job.on_death = OnDeath::kHold;
    job.reader_memory = 1 << 20;
    scenario.jobs = {job};
    workers.push_back(std::make_unique<WorkerNode>(world, scenario, home, 0));
    trainer = std::make_unique<Trainer>(world, scenario, scenario.jobs[0], cluster);
    dispatcher.Start();
    workers[0]->Start();
  }
  bool Run(Duration time, const std::function<bool()>& done) { return world.Run(world.now() + time, done); }
  void Run(Duration time) {
    Run(time, [] { return false; });
  }

  Scenario scenario;
  TraceLog trace{TraceLog::Keep::kNothing};
  World world{3, trace};
  GrantBook book;
  DispatcherNode dispatcher{world, &book, "dispatcher"};
  DispatcherNode stale{world, nullptr, "stale"};
  const Home home{dispatcher, stale};
  std::vector<std::unique_ptr<WorkerNode>> workers;
  const ConsumerNode::Cluster cluster{home, workers, book};
  std::unique_ptr<Trainer> trainer;
};

// It came to a start of two that nobody ever read, to restore it on more ranks. When the others of its own start come, that one makes way for them.
TEST_F(ConsumerNodeTest, ARankWhoseJobMadeWayWhileItWasCutOffJoinsAgainAndRestores) {
  ConsumerNode before(world, scenario.jobs[0], cluster, *trainer, 99);
  before.Start({0, 2, 0});
  Run(seconds(1));
  trainer->RestartJob();
  const auto& ranks = trainer->ranks();
  std::set<const ConsumerNode*> cut;
  const auto cut_off = [&](ConsumerNode& rank, Duration time) {
    if (cut.insert(&rank).second) rank.CutOff(time);
  };
  const auto joined = [](const ConsumerNode& rank) { return rank.up() && rank.history().job != JobId{}; };
  ConsumerNode* early = nullptr;
  ASSERT_TRUE(Run(seconds(10), [&] {
    for (const auto& rank : ranks) {
      if (early == nullptr && joined(*rank)) early = rank.get();
      if (early != nullptr && rank->up() && rank.get() != early) cut_off(*rank, seconds(20));
    }
    return early != nullptr && cut.size() + 1 == ranks.size();
  }));
  ASSERT_GT(ranks.size(), 2u) << "this seed starts more ranks than there were";
  const JobId first = early->history().job;
  cut_off(*early, seconds(30));
  before.Kill();
  EXPECT_TRUE(Run(seconds(60), [&] { return !world.violations().empty() || trainer->done(); }));
  EXPECT_TRUE(world.violations().empty()) << world.violations().front();
  EXPECT_NE(early->history().job, first);
  EXPECT_GT(trainer->ledger().rows(), 0u);
}

}  // namespace
}  // namespace penstock::sim
