// Lanes by group: one production for all who follow, groups told of, sent when taken, kept until passed.
#include <gtest/gtest.h>

#include <random>

#include "worker/core_test_shell.h"

namespace penstock::worker {
namespace {

constexpr uint64_t kGroup = 4;

CoreOptions ByGroup(uint64_t memory) {
  CoreOptions options;
  options.memory = memory;
  options.block_target = kGroup * kRowBytes;
  return options;
}

struct GroupsTest : ::testing::Test {
  explicit GroupsTest(uint64_t memory = 100'000'000) : shell(ByGroup(memory)) {
    shell.group_rows = kGroup;
    shell.lane_rows = 10;
    shell.Join(1);
    shell.Join(2);
  }
  std::vector<Seq> Firsts(uint64_t session, uint32_t stream = 1) {
    std::vector<Seq> firsts;
    for (const msg::Group& group : shell.at(session, stream).told) firsts.push_back(group.first.seq);
    return firsts;
  }
  TestShell shell;
};

TEST_F(GroupsTest, AreToldOfToAllAndSentToWhomTheyAreAskedBy) {
  shell.Follow(1, 1, LaneId{0});
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  EXPECT_EQ(shell.started, 1);
  EXPECT_EQ(Firsts(1), (std::vector<Seq>{0, 4, 8}));
  EXPECT_EQ(Firsts(2), (std::vector<Seq>{0, 4, 8}));
  EXPECT_TRUE(shell.at(1, 1).told_end);
  EXPECT_EQ(shell.at(1, 1).told.back().rows, 2u);
  EXPECT_TRUE(shell.at(1, 1).seqs.empty()) << "nothing was asked for";
  shell.Take(1, 1, {0}, 4);
  shell.Take(2, 1, {4}, 8);
  EXPECT_EQ(shell.at(1, 1).seqs, (std::vector<Seq>{0}));
  EXPECT_EQ(shell.at(2, 1).seqs, (std::vector<Seq>{4}));
  EXPECT_EQ(shell.made, 10u);
}

TEST_F(GroupsTest, ThoseOfOneStepAreToldOfInOneWordWithTheLanesEnd) {
  shell.row_bytes = [](LaneKey, Seq) { return kRowBytes / 10; };
  shell.blocks_a_step = 4;
  shell.Follow(1, 1, LaneId{0});
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  EXPECT_EQ(Firsts(1), (std::vector<Seq>{0, 4, 8}));
  EXPECT_EQ(shell.at(2, 1).words, 1) << "a word costs the same whatever it says, and each consumer hears of each lane";
  EXPECT_TRUE(shell.at(2, 1).told_end);
  shell.Take(1, 1, {0, 4}, 8);
  shell.Take(2, 1, {8}, kLaneEnd);
  EXPECT_EQ(shell.at(1, 1).seqs, (std::vector<Seq>{0, 4}));
  EXPECT_EQ(shell.at(2, 1).seqs, (std::vector<Seq>{8}));
  shell.Take(1, 1, {}, kLaneEnd);
  while (shell.ReadOne(1, 1)) {
  }
  EXPECT_EQ(shell.stats().blocks_out, 0u);
}

TEST_F(GroupsTest, ThoseOfAStepThatNobodyWaitsForAnyMoreAreAllLetGo) {
  shell.row_bytes = [](LaneKey, Seq) { return kRowBytes / 10; };
  shell.blocks_a_step = 2;
  shell.Follow(1, 1, LaneId{0});
  shell.Leave(1);  // while the first step is out
  shell.Settle();
  EXPECT_EQ(shell.stats().blocks_out, 0u);
  EXPECT_EQ(shell.stats().committed, 0u);
}

TEST_F(GroupsTest, ATailGoesToEachWhoAsksAndIsKeptUntilAllHavePassedIt) {
  shell.Follow(1, 1, LaneId{0});
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  shell.Take(1, 1, {8}, 8);
  shell.Take(2, 1, {8}, 8);
  EXPECT_EQ(shell.at(1, 1).seqs, (std::vector<Seq>{8}));
  EXPECT_EQ(shell.at(2, 1).seqs, (std::vector<Seq>{8}));
  EXPECT_GT(shell.stats().blocks_out, 0u);
  shell.Take(1, 1, {}, kLaneEnd);
  shell.Take(2, 1, {}, kLaneEnd);
  EXPECT_EQ(shell.stats().blocks_out, 0u);
}

TEST_F(GroupsTest, WhatAllHavePassedIsLetGo) {
  shell.Follow(1, 1, LaneId{0});
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  EXPECT_EQ(shell.stats().blocks_out, 3u);
  shell.Take(1, 1, {}, 8);
  EXPECT_EQ(shell.stats().blocks_out, 3u);
  shell.Take(2, 1, {4}, 8);
  shell.Settle();
  EXPECT_EQ(shell.at(2, 1).seqs, (std::vector<Seq>{4}));
  while (shell.ReadOne(2, 1)) {
  }
  EXPECT_EQ(shell.stats().blocks_out, 1u) << "the tail";
}

TEST_F(GroupsTest, OneWhoOpensWhereNoKeptGroupBeginsGetsAProductionOfItsOwnAndJoinsTheOthers) {
  shell.lane_rows = 40;
  shell.Follow(1, 1, LaneId{0});
  shell.Settle();
  shell.Take(1, 1, {0, 4}, 8);
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  EXPECT_EQ(shell.started, 2);
  EXPECT_EQ(Firsts(2), Firsts(1));
  EXPECT_TRUE(shell.at(2, 1).told_end);
  EXPECT_LT(shell.made, 40u + 20u) << "it goes on with what was made for the first";
}

TEST_F(GroupsTest, AGroupThatIsSentAtOnceIsToldOfToAllBefore) {
  shell.lane_rows = 40;
  shell.Follow(1, 1, LaneId{0});
  shell.Take(1, 1, {0, 8, 16, 24, 32}, 40);  // as after a worker's death: all is known and asked for
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  EXPECT_EQ(Firsts(2), Firsts(1));
  EXPECT_TRUE(shell.at(2, 1).told_end);
  EXPECT_EQ(shell.started, 1);
}

TEST_F(GroupsTest, AGroupThatSeveralWaitForGoesToEach) {
  for (const uint64_t session : {1, 2}) {
    shell.Follow(session, 1, LaneId{0});
    shell.Take(session, 1, {4}, 4);  // the last batch of an epoch that is padded
  }
  shell.Settle();
  EXPECT_EQ(shell.at(1, 1).seqs, (std::vector<Seq>{4}));
  EXPECT_EQ(shell.at(2, 1).seqs, (std::vector<Seq>{4}));
}

TEST_F(GroupsTest, ALaneThatAFollowerLeavesGoesOnForTheOthers) {
  shell.Follow(1, 1, LaneId{0});
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  shell.Take(2, 1, {4}, 8);
  shell.Leave(1);
  shell.Settle();
  EXPECT_EQ(shell.at(2, 1).seqs, (std::vector<Seq>{4}));
  shell.Leave(2);
  EXPECT_EQ(shell.stats().blocks_out, 0u);
  EXPECT_EQ(shell.stats().tasks, 0u);
  EXPECT_EQ(shell.stats().committed, 0u);
}

struct TightGroupsTest : GroupsTest {
  TightGroupsTest() : GroupsTest(8 * kGroup * kRowBytes) { shell.lane_rows = 400; }
};

TEST_F(TightGroupsTest, ReadAheadStaysWithinTheBudgetAndGoesOnAsGroupsAreTaken) {
  shell.Follow(1, 1, LaneId{0});
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  for (Seq at = 0; at < 400; at += kGroup) {
    const uint64_t mine = 1 + at / kGroup % 2;
    ASSERT_FALSE(Firsts(mine).empty());
    ASSERT_GE(Firsts(mine).back(), at) << "the next group is always made";
    shell.Take(mine, 1, {at}, at + kGroup);
    shell.Take(3 - mine, 1, {}, at + kGroup);
    shell.Settle();
    while (shell.ReadOne(mine, 1)) {
    }
    shell.Settle();
  }
  EXPECT_TRUE(shell.at(1, 1).told_end);
  EXPECT_EQ(shell.made, 400u);
}

TEST_F(TightGroupsTest, TheGroupThatALoopWaitsForIsMadeThoughAnotherHasNotAskedForThoseThatFillTheMemory) {
  shell.Follow(1, 1, LaneId{0});
  shell.Follow(2, 1, LaneId{0});
  shell.Settle();
  const Seq told = shell.at(1, 1).told.back().end.seq;
  shell.Take(1, 1, {}, told);  // it has walked over all, and the second over none
  shell.Pass(3s);
  EXPECT_EQ(shell.at(1, 1).told.back().end.seq, told) << "nobody waits";
  shell.Wait(1, 1);
  EXPECT_EQ(shell.at(1, 1).told.back().end.seq, told) << "what is kept may be asked for any moment";
  shell.Pass(1s);
  EXPECT_GT(shell.at(1, 1).told.back().end.seq, told);
  EXPECT_FALSE(shell.at(2, 1).refused);
  shell.Take(2, 1, {0}, 4);
  ASSERT_TRUE(shell.at(2, 1).refused) << "it was let go of";
  EXPECT_EQ(shell.at(2, 1).refused->code(), Code::kBusy);
  shell.Follow(2, 2, LaneId{0});
  shell.Take(2, 2, {0}, 4);
  shell.Settle();
  EXPECT_EQ(shell.at(2, 2).seqs, (std::vector<Seq>{0}));
}

// As where a batch is mixed of more groups than there are lanes: none is passed, or asked for, before the last of them is told of.
TEST_F(TightGroupsTest, ALoopIsToldOfAllGroupsThatItWaitsForBeforeItAsksForOne) {
  shell.Follow(1, 1, LaneId{0});
  shell.Settle();
  for (int i = 0; i < 30; ++i) {
    shell.Wait(1, 1);
    shell.Pass(200ms);
  }
  EXPECT_GE(shell.at(1, 1).told.size(), 30U);
}

// One such group is out at a time. Lanes 1 and 2 are in line for it before the loop waits for lane 0 again, and nobody asks for theirs meanwhile.
TEST_F(TightGroupsTest, ALoopIsToldOfTheNextGroupThoughLanesThatNobodyWaitsForAreInLineWithGroupsLargerThanTheirReserve) {
  shell.row_bytes = [](LaneKey, Seq) { return kRowBytes * 3 / 2; };
  for (uint32_t lane = 0; lane < 3; ++lane) shell.Follow(1, 1 + lane, LaneId{lane});
  shell.Settle();
  ASSERT_EQ(Firsts(1), (std::vector<Seq>{0}));
  for (size_t groups = 2; groups < 6; ++groups) {
    shell.Wait(1, 1);
    shell.Pass(1s);
    ASSERT_GE(Firsts(1).size(), groups);
  }
}

TEST_F(TightGroupsTest, AGroupLargerThanItsReserveThatNobodyAsksForGivesWayToThatOfAnotherLane) {
  shell.row_bytes = [](LaneKey, Seq) { return kRowBytes * 3 / 2; };
  for (uint32_t lane = 0; lane < 3; ++lane) shell.Follow(1, 1 + lane, LaneId{lane});
  shell.Settle();
  shell.Pass(1s);
  for (uint32_t stream = 1; stream <= 3; ++stream) EXPECT_FALSE(Firsts(1, stream).empty()) << stream;
}

TEST_F(GroupsTest, RandomConsumersInLockstepGetEveryGroupOnceWithinAnyBudget) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const uint32_t consumers = 1 + random() % 4;
    const uint32_t lanes = 1 + random() % 4;
    TestShell tight(ByGroup((lanes + 1 + random() % 8) * 2 * kGroup * kRowBytes));
    tight.group_rows = kGroup;
    tight.lane_rows = random() % 40;
    for (uint32_t c = 1; c <= consumers; ++c) tight.Join(c);
    for (uint32_t c = 1; c <= consumers; ++c) {
      for (uint32_t lane = 0; lane < lanes; ++lane) tight.Follow(c, 1 + lane, LaneId{lane});
    }
    // The ring, by hand: group j of every lane in turn, to consumers in turn.
    for (uint64_t turn = 0; turn * kGroup < tight.lane_rows; ++turn) {
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        const uint64_t mine = 1 + (turn * lanes + lane) % consumers;
        tight.Settle();
        ASSERT_GT(tight.at(mine, 1 + lane).told.size(), turn) << "seed " << seed;
        for (uint32_t c = 1; c <= consumers; ++c) {
          const Seq first = turn * kGroup;
          tight.Take(c, 1 + lane, c == mine ? std::vector<Seq>{first} : std::vector<Seq>{}, first + kGroup);
        }
        tight.Settle();
        ASSERT_EQ(tight.at(mine, 1 + lane).seqs.back(), turn * kGroup);
        if (random() % 3 > 0) tight.ReadOne(mine, 1 + lane);
      }
    }
    tight.Settle();
    for (uint32_t lane = 0; lane < lanes; ++lane) EXPECT_TRUE(tight.at(1, 1 + lane).told_end) << "seed " << seed;
    EXPECT_EQ(tight.started, static_cast<int>(lanes));
    for (uint32_t c = 1; c <= consumers; ++c) tight.Leave(c);
    EXPECT_EQ(tight.stats().blocks_out, 0u);
    EXPECT_EQ(tight.stats().committed, 0u);
  }
}

}  // namespace
}  // namespace penstock::worker
