// Loops that sleep, keep what they get, or wait: who is read ahead for, and who gives way.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/core_test_shell.h"

namespace penstock::worker {
namespace {

TEST(WorkerCore, AGroupCutIntoBlocksReachesAConsumerThatHasReadNothingYet) {
  TestShell shell(Options(10'000'000));
  shell.group_rows = 5;
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, 20 * kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 10).rows, 5U) << "a whole group, and no read-ahead beyond it";
}

// Four jobs, eight consumers each, four lanes each, of which half never read: what they hold is their reserve.
TEST(WorkerCore, ConsumersThatNeverReadDoNotStallThoseThatDo) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  TestShell shell({.memory = 256 * kMiB, .hello = {}, .block_target = kMiB});
  shell.row_bytes = [](LaneKey, Seq) { return kMiB + kMiB / 4; };
  shell.state_bytes = kMiB / 2;
  shell.lane_rows = 20;
  for (uint64_t c = 1; c <= 32; ++c) {
    shell.Join(c);
    for (uint32_t lane = 0; lane < 4; ++lane) {
      shell.Open(c, 1 + lane, LaneId{static_cast<uint32_t>(c * 4 + lane)}, 5 * kMiB, {}, kLaneEnd, JobId{1 + c % 4});
    }
  }
  shell.Settle();
  uint64_t ended = 0;
  for (int round = 0; round < 2000 && ended < 16; ++round) {
    ended = 0;
    for (uint64_t c = 1; c <= 16; ++c) {  // these read
      uint64_t over = 0;
      for (uint32_t stream = 1; stream <= 4; ++stream) {
        shell.ReadOne(c, stream);
        auto& s = shell.at(c, stream);
        if (s.refused && !s.ended) {
          const Seq at = s.rows;
          s.refused.reset();
          shell.Open(c, stream, LaneId{static_cast<uint32_t>(c * 4 + stream - 1)}, 5 * kMiB, Cursor{at, 0}, kLaneEnd, JobId{1 + c % 4}, true);
        }
        over += s.ended && s.got.empty() ? 1 : 0;
      }
      ended += over == 4 ? 1 : 0;
      shell.Settle();
    }
    shell.Pass(1ms);
  }
  EXPECT_EQ(ended, 16U);
  for (uint64_t c = 17; c <= 32; ++c) {
    uint64_t lent = 0;
    for (uint32_t stream = 1; stream <= 4; ++stream) lent += shell.at(c, stream).lent();
    EXPECT_LE(lent, 2U);
  }
}

// Its lanes give way to those that wait, and it opens them again, as a client does: what it was lent before still counts.
TEST(WorkerCore, ASleeperThatComesBackAgainAndAgainIsLentNoMore) {
  TestShell shell(Options(3'000'000));
  shell.lane_rows = 1000;
  for (uint64_t c = 1; c <= 8; ++c) shell.Join(c);
  for (uint32_t round = 0; round < 40; ++round) {
    for (uint64_t sleeper = 1; sleeper <= 7; ++sleeper) {
      shell.Open(sleeper, 1 + round, LaneId{static_cast<uint32_t>(sleeper)}, 40 * kRowBytes, Cursor{round, 0});
    }
    shell.Settle();
    for (uint64_t sleeper = 1; sleeper <= 7; ++sleeper) {
      shell.Tell(ConsumerSaid{SessionId{sleeper}, StreamId{1 + round}, msg::CloseLane{}});
    }
  }
  uint64_t lent = 0;
  for (uint64_t sleeper = 1; sleeper <= 7; ++sleeper) {
    for (uint32_t stream = 1; stream <= 40; ++stream) lent += shell.at(sleeper, stream).lent();
  }
  EXPECT_EQ(lent, 7U * 2U);
  shell.Open(8, 1, LaneId{8}, 4 * kRowBytes, {}, kLaneEnd, kJob, true);
  shell.Settle();
  EXPECT_GE(shell.at(8, 1).rows, 2U);
  for (int i = 0; i < 20; ++i) {
    shell.ReadOne(8, 1);
    shell.Settle();
    ASSERT_GE(shell.at(8, 1).rows, static_cast<uint64_t>(i + 2));
  }
}

// It read once; then its only lane is worth no more than that of one that never did.
TEST(WorkerCore, ALoopThatFellAsleepGivesWayToOneThatWaits) {
  TestShell shell(Options(800'000));
  shell.state_bytes = 450'000;
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, 2 * kRowBytes);
  shell.Settle();
  ASSERT_TRUE(shell.ReadOne(1, 10));
  shell.Settle();
  shell.Open(2, 10, LaneId{1}, kRowBytes, {}, kLaneEnd, kJob, true);
  shell.Pass(2s);
  ASSERT_TRUE(shell.at(2, 10).refused) << "it read a moment ago";
  shell.Pass(10s);
  shell.Open(2, 11, LaneId{1}, kRowBytes, {}, kLaneEnd, kJob, true);
  shell.Settle();
  EXPECT_TRUE(shell.at(1, 10).refused);
  EXPECT_EQ(shell.at(2, 11).rows, 1U);
}

TEST(WorkerCore, ALoopThatKeepsAllItGetsTakesNothingFromAnother) {
  TestShell shell(Options(2'000'000));
  shell.lane_rows = 100;
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 1, LaneId{0}, 1000 * kRowBytes);
  shell.Settle();
  shell.ReadOne(1, 1);  // it reads, and then keeps what comes
  shell.Settle();
  EXPECT_EQ(shell.at(1, 1).rows, 100U);
  EXPECT_LE(shell.at(1, 1).lent() * kRowBytes, 1'000'000U) << "half of the budget is never lent";
  shell.Open(2, 1, LaneId{1}, 4 * kRowBytes);
  for (uint64_t read = 0; read < 100; ++read) {
    shell.Settle();
    ASSERT_TRUE(shell.ReadOne(2, 1));
  }
}

TEST(WorkerCore, WhatComesWhileALaneWaitsForRoomIsCopied) {
  TestShell shell(Options(1'000'000));
  shell.state_bytes = 250'000;
  shell.lane_rows = 100;
  for (uint64_t c = 1; c <= 3; ++c) shell.Join(c);
  shell.Open(1, 1, LaneId{0}, 2 * kRowBytes);
  shell.Open(2, 1, LaneId{1}, 2 * kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 1).lent() + shell.at(2, 1).lent(), 3U) << "as much as there is room for";
  shell.Open(3, 1, LaneId{2}, kRowBytes);
  while (shell.at(1, 1).lent() > 0) shell.ReadOne(1, 1);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 1).lent(), 0U);
  EXPECT_GT(shell.at(1, 1).rows, 2U);
}

TEST(WorkerCore, ALoopThatHoldsItsLastBlockWhileItWaitsGetsTheNextAndTheEnd) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.lane_rows = 1;
  shell.Open(1, 10, LaneId{0}, 5 * kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 10).rows, 1U);
  EXPECT_TRUE(shell.at(1, 10).ended) << "though nothing was let go";
  shell.lane_rows = 2;
  shell.Open(1, 11, LaneId{1}, 5 * kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 11).rows, 1U);
  shell.Tell(ConsumerSaid{SessionId{1}, StreamId{11}, msg::Credit{.waits = true}});
  shell.Settle();
  EXPECT_EQ(shell.at(1, 11).rows, 2U);
  EXPECT_TRUE(shell.at(1, 11).ended);
}

TEST(WorkerCore, ALoopThatSaysItWaitsGetsABlockThoughItHoldsSeveral) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, 50 * kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 10).rows, 2U) << "who has let go of nothing yet is lent two";
  shell.Tell(ConsumerSaid{SessionId{1}, StreamId{10}, msg::Credit{.waits = true}});
  shell.Settle();
  EXPECT_GE(shell.at(1, 10).rows, 3U);
}

TEST(WorkerCore, AnEndIsSaidThoughNothingIsLetGo) {
  TestShell shell(Options(10'000'000));
  shell.lane_rows = 2;
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, 50 * kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 10).rows, 2U);
  EXPECT_TRUE(shell.at(1, 10).ended);
}

// Loops that wait for each of their lanes, whose blocks are twice as large as the lanes' reserves: as many lanes as there is room for at all.
class LargeBlocksTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr uint32_t kLanes = 8;

  LargeBlocksTest() {
    shell.row_bytes = [](LaneKey, Seq) { return 2 * kRowBytes; };
    shell.lane_rows = 3;
    for (uint64_t c = 1; c <= kLanes / lanes_each; ++c) shell.Join(c);
    for (uint32_t lane = 0; lane < kLanes; ++lane) Open(lane);
    shell.Settle();
  }

  uint64_t ConsumerOf(uint32_t lane) const { return 1 + lane / lanes_each; }
  TestShell::Stream& StreamOf(uint32_t lane) { return shell.at(ConsumerOf(lane), 1 + lane); }
  void Open(uint32_t lane) {
    shell.Open(ConsumerOf(lane), 1 + lane, LaneId{lane}, 6 * kRowBytes, Cursor{StreamOf(lane).rows, 0}, kLaneEnd, kJob, true);
  }
  // As clients do: reads what came, and opens again what was refused.
  bool Round() {
    bool all_ended = true;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      while (shell.ReadOne(ConsumerOf(lane), 1 + lane)) {
      }
      if (std::exchange(StreamOf(lane).refused, std::nullopt)) Open(lane);
      all_ended = all_ended && StreamOf(lane).ended;
    }
    shell.Settle();
    shell.Pass(100ms);
    return all_ended;
  }

  const uint32_t lanes_each = GetParam();
  TestShell shell{Options(kLanes * kRowBytes)};
};

TEST_P(LargeBlocksTest, ComeThoughEveryLaneIsWaitedFor) {
  bool all_ended = false;
  for (int round = 0; round < 500 && !all_ended; ++round) all_ended = Round();
  EXPECT_TRUE(all_ended);
  for (uint32_t lane = 0; lane < kLanes; ++lane) EXPECT_EQ(StreamOf(lane).seqs, (std::vector<Seq>{0, 1, 2})) << lane;
}

INSTANTIATE_TEST_SUITE_P(LanesOfAConsumer, LargeBlocksTest, ::testing::Values(1, 4, 8));

// Blocks larger than a reserve are out one at a time; the consumer of the first has memory for that of its other lane only.
TEST(WorkerCore, ALargeBlockThatNobodyTakesGivesWayToOneThatIsWaitedFor) {
  TestShell shell(Options(8 * kRowBytes));
  shell.row_bytes = [](LaneKey, Seq) { return 2 * kRowBytes; };
  shell.Join(1);
  shell.Open(1, 1, LaneId{0}, 0);
  shell.Settle();
  ASSERT_EQ(shell.at(1, 1).told.size(), 1U) << "it says how large its block is";
  shell.Open(1, 2, LaneId{1}, 2 * kRowBytes, {}, kLaneEnd, kJob, true);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 2).rows, 0U) << "credit for the first may be on its way";
  shell.Pass(200ms);
  EXPECT_EQ(shell.at(1, 2).rows, 1U);
  ASSERT_TRUE(shell.at(1, 1).refused);
  EXPECT_EQ(shell.at(1, 1).refused->code(), Code::kBusy);
}

}  // namespace
}  // namespace penstock::worker
