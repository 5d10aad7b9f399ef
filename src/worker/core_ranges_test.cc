// Ranges of serial lanes: one run serves them all.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "worker/core_test_shell.h"

namespace penstock::worker {
namespace {

TEST(WorkerCore, ARangeGoesOnWithTheParkedRunOfTheOneBefore) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, 1'000'000, Cursor{0, 0}, 4);
  shell.Settle();
  while (shell.ReadOne(1, 10)) shell.Settle();
  ASSERT_TRUE(shell.at(1, 10).ended);
  EXPECT_FALSE(shell.at(1, 10).ended->lane_ended);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8);
  shell.Settle();
  while (shell.ReadOne(2, 10)) shell.Settle();
  EXPECT_EQ(shell.at(2, 10).seqs, (std::vector<Seq>{4, 5, 6, 7}));
  EXPECT_EQ(shell.started, 1);
  EXPECT_EQ(shell.extended, 1);
}

TEST(WorkerCore, ARangeThatARunHasYetToReachWaitsForIt) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Join(2);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{0, 0}, 4);
  shell.Open(1, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8);
  shell.Settle();
  while (shell.ReadOne(2, 10) || shell.ReadOne(1, 10)) shell.Settle();
  EXPECT_EQ(shell.at(1, 10).seqs, (std::vector<Seq>{4, 5, 6, 7}));
  EXPECT_EQ(shell.started, 1);
}

TEST(WorkerCore, ARangeThatIsOpenedBeforeTheEarlierOneWaitsForItsRunAllTheSame) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8, kJob, true);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{0, 0}, 4);
  shell.Settle();
  while (shell.ReadOne(2, 10) || shell.ReadOne(1, 10)) shell.Settle();
  EXPECT_EQ(shell.at(1, 10).seqs, (std::vector<Seq>{4, 5, 6, 7}));
  EXPECT_EQ(shell.at(2, 10).seqs, (std::vector<Seq>{0, 1, 2, 3}));
  EXPECT_EQ(shell.stats().tasks, 1U) << "one run goes on for both";
}

TEST(WorkerCore, TheRangeBeforeOneThatALoopWaitsForIsMadeThoughItsOwnLoopSleeps) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, kRowBytes, Cursor{0, 0}, 4);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8, kJob, true);
  shell.Settle();
  EXPECT_EQ(shell.at(2, 10).seqs.front(), 4U);
  EXPECT_EQ(shell.started, 1);
  EXPECT_EQ(shell.at(1, 10).rows, 1U) << "as its credit says";
  while (shell.ReadOne(1, 10)) shell.Settle();
  EXPECT_EQ(shell.at(1, 10).seqs, (std::vector<Seq>{0, 1, 2, 3}));
}

TEST(WorkerCore, ARunWhoseConsumerLeavesGoesOnWithTheRangeBehind) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, kRowBytes, Cursor{0, 0}, 4);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8);
  shell.Settle();
  ASSERT_EQ(shell.at(1, 10).rows, 1U);
  shell.Leave(1);
  shell.Settle();
  while (shell.ReadOne(2, 10)) shell.Settle();
  EXPECT_EQ(shell.at(2, 10).seqs, (std::vector<Seq>{4, 5, 6, 7}));
  EXPECT_EQ(shell.started, 1);
}

TEST(WorkerCore, ARunThatNobodyTookInTimeGoesOnPastRangesThatWereLeft) {
  TestShell shell(Options(10'000'000));
  shell.lane_rows = 20;
  for (const uint64_t session : {1, 2, 3}) shell.Join(session);
  shell.Open(1, 10, LaneId{0}, kRowBytes, Cursor{0, 0}, 4);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8);
  shell.Open(3, 10, LaneId{0}, 1'000'000, Cursor{8, 0}, 12);
  shell.Settle();
  shell.Leave(2);
  shell.Leave(1);
  shell.Settle();
  EXPECT_EQ(shell.at(3, 10).rows, 0U) << "the range before it may still be opened";
  shell.Wait(3, 10);
  shell.Pass(1s);
  while (shell.ReadOne(3, 10)) shell.Settle();
  EXPECT_EQ(shell.at(3, 10).seqs, (std::vector<Seq>{8, 9, 10, 11}));
  EXPECT_EQ(shell.started, 1);
}

TEST(WorkerCore, ARangeBehindTheEndThatARunWasLeftBeforeEndsWhereItBegins) {
  TestShell shell(Options(10'000'000));
  shell.lane_rows = 3;
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, kRowBytes, Cursor{0, 0}, 4);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8);
  shell.Settle();
  shell.Leave(1);
  shell.Settle();
  ASSERT_TRUE(shell.at(2, 10).ended);
  EXPECT_TRUE(shell.at(2, 10).ended->lane_ended);
  EXPECT_EQ(shell.at(2, 10).ended->end, (Cursor{4, 0}));
}

TEST(WorkerCore, ARangeOpenedAheadWaitsForItsRunUntilItsLoopWaits) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, kRowBytes, Cursor{0, 0}, 4);
  shell.Open(2, 10, LaneId{0}, 1'000'000, Cursor{4, 0}, 8);
  shell.Settle();
  shell.Pass(3s);
  EXPECT_EQ(shell.at(2, 10).rows, 0U);
  shell.Tell(ConsumerSaid{SessionId{2}, StreamId{10}, msg::Credit{.waits = true}});
  shell.Settle();
  EXPECT_EQ(shell.at(2, 10).seqs.front(), 4U);
  EXPECT_EQ(shell.started, 1);
}

TEST(WorkerCore, ARangeThatALoopWaitsForGetsItsOwnRunWhereTheOneBeforeHasNoRoom) {
  TestShell shell(Options(1'000'000));
  shell.lane_rows = 100;
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, kRowBytes, Cursor{0, 0}, 40);
  shell.Open(2, 10, LaneId{0}, kRowBytes, Cursor{40, 0}, 80, kJob, true);
  shell.Settle();
  shell.Pass(400ms);
  EXPECT_EQ(shell.at(2, 10).rows, 0U);
  shell.Pass(200ms);
  EXPECT_EQ(shell.at(2, 10).seqs.front(), 40U);
  EXPECT_EQ(shell.started, 2);
}

TEST(WorkerCore, ARangeBeyondTheKnownEndOfItsLaneEndsAtOnce) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, 5'000'000, Cursor{8, 0}, 16);
  shell.Pass(50ms);  // no earlier range comes
  shell.Settle();
  while (shell.ReadOne(1, 10)) shell.Settle();
  ASSERT_TRUE(shell.at(1, 10).ended);
  EXPECT_TRUE(shell.at(1, 10).ended->lane_ended);
  shell.Open(1, 11, LaneId{0}, 1'000'000, Cursor{16, 0}, 24);
  ASSERT_TRUE(shell.at(1, 11).ended);
  EXPECT_TRUE(shell.at(1, 11).ended->lane_ended);
  EXPECT_EQ(shell.started, 1);
}

TEST(WorkerCore, AParkedRunGoesAfterAWhileAndWhenRoomIsNeeded) {
  TestShell shell(Options(850'000));
  shell.state_bytes = 200'000;
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, 1'000'000, Cursor{0, 0}, 4);
  shell.Settle();
  while (shell.ReadOne(1, 10)) shell.Settle();
  EXPECT_EQ(shell.stats().tasks, 1U);
  shell.Open(1, 11, LaneId{1}, kRowBytes, Cursor{0, 0}, 4);
  shell.Open(1, 12, LaneId{2}, kRowBytes, Cursor{0, 0}, 4);
  EXPECT_FALSE(shell.at(1, 12).refused) << "the parked run has given way";
  shell.Leave(1);
  shell.Settle();
  shell.Pass(10s);
  EXPECT_EQ(shell.stats().tasks, 0U);
}

}  // namespace
}  // namespace penstock::worker
