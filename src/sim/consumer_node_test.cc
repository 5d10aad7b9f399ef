#include "sim/consumer_node.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "sim/quiet_cluster.h"

namespace penstock::sim {
namespace {

using std::chrono::seconds;

class ConsumerNodeTest : public QuietCluster {
 protected:
  ConsumerNodeTest() : QuietCluster(3, SmallStrictJob()) {}
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
