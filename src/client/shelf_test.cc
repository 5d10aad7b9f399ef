#include "client/shelf.h"

#include <gtest/gtest.h>

#include "client/shelf_test_shell.h"

namespace penstock {
namespace {

using std::chrono::seconds;

TEST_F(ShelfTest, AFullGroupIsABatchOfOneSlice) {
  Start(Cut(4));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 10));
  const auto batch = Batch();
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].row, 0u);
  EXPECT_EQ(batch[0].rows, 4u);
  EXPECT_EQ(batch[0].end, (Cursor{4, 0}));
  EXPECT_EQ(Batch()[0].row, 4u);
  EXPECT_TRUE(Waits());  // two rows are not a group
}

TEST_F(ShelfTest, AGroupMayBeOfSeveralBlocks) {
  Start(Cut(4));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 3));
  EXPECT_TRUE(Waits());
  shelf_.Put(Grant(0), Rows(2, 3, 6));
  EXPECT_EQ(Batch().size(), 2u);
}

TEST_F(ShelfTest, RowsThatWerePutBeforeAreSkipped) {
  Start(Cut(0));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 5));
  shelf_.Put(Grant(0), Rows(2, 3, 8));
  shelf_.Put(Grant(0), Rows(3, 2, 7));
  EXPECT_EQ(Count(Batch()), 5u);
  const auto second = Batch();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].row, 2u);
  EXPECT_EQ(second[0].first, (Cursor{5, 0}));
  EXPECT_EQ(shelf_.TakeProgress().passed.size(), 2u);  // the first, and the third whole; the second is not claimed yet
}

TEST_F(ShelfTest, RowsThatWereFilteredOrMultipliedKeepTheirCursors) {
  Start(Cut(2));
  Open(Grant(0));
  ShelfBlock block{Handle{1}, {4, {1, 0}, {9, 0}, 32, 0}, {{1, 0}, {1, 1}, {4, 0}, {7, 0}, {9, 0}}};
  shelf_.Put(Grant(0), block);
  EXPECT_EQ(Batch()[0].end, (Cursor{4, 0}));
  EXPECT_EQ(Batch()[0].end, (Cursor{9, 0}));
}

TEST_F(ShelfTest, RowsOfASourceRowBeyondTheGrantAreNotSeen) {
  Start(Cut(2));
  shelf_.Add(Grant(0), {}, Epoch{0}, {4, 1});
  shelf_.SetOpen(Grant(0), true);
  shelf_.Put(Grant(0), {Handle{1}, {3, {3, 0}, {4, 2}, 32, 0}, {{3, 0}, {4, 0}, {4, 1}, {4, 2}}});
  shelf_.Put(Grant(0), {Handle{2}, {1, {4, 2}, {5, 0}, 32, 0}, {{4, 2}, {5, 0}}});
  const auto batch = Batch();
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].rows, 2u);
  EXPECT_EQ(batch[0].end, (Cursor{4, 1}));
  shelf_.End(Grant(0), {4, 1}, false);
  EXPECT_TRUE(Waits());
  const Progress progress = shelf_.TakeProgress();
  EXPECT_TRUE(Find(progress, Grant(0))->done);
  EXPECT_EQ(shelf_.Delivered()->rows.epochs.at(Epoch{0}).ToString(), "0:0-4.1");
  EXPECT_EQ(progress.passed.size(), 2u);
}

TEST_F(ShelfTest, ReceivedMovesWithTheBatchAndAskedWhenTheLoopComesBack) {
  Start(Cut(2));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 4));
  Batch();
  Progress progress = shelf_.TakeProgress();
  EXPECT_EQ(Find(progress, Grant(0))->received, (Cursor{2, 0}));
  EXPECT_EQ(Find(progress, Grant(0))->asked, (Cursor{0, 0}));
  Batch();
  progress = shelf_.TakeProgress();
  EXPECT_EQ(Find(progress, Grant(0))->received, (Cursor{4, 0}));
  EXPECT_EQ(Find(progress, Grant(0))->asked, (Cursor{2, 0}));
}

TEST_F(ShelfTest, ALaneIsDoneWhenItsLastRowsWereAskedBeyond) {
  Start(Cut(2));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 2));
  shelf_.End(Grant(0), {5, 0});  // rows 2 to 4 were filtered
  Batch();
  EXPECT_FALSE(Find(shelf_.TakeProgress(), Grant(0))->done);
  EXPECT_TRUE(Waits());
  const Progress progress = shelf_.TakeProgress();
  EXPECT_TRUE(Find(progress, Grant(0))->done);
  EXPECT_EQ(Find(progress, Grant(0))->asked, (Cursor{5, 0}));
}

TEST_F(ShelfTest, TailsAreJoinedFirstComeFirst) {
  Start(Cut(4));
  for (uint32_t lane : {0u, 1u, 2u}) {
    Open(Grant(lane));
    shelf_.Put(Grant(lane), Rows(lane + 1, 0, 3));
  }
  shelf_.End(Grant(1), {3, 0});
  EXPECT_TRUE(Waits());
  shelf_.End(Grant(0), {3, 0});
  const auto batch = Batch();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].grant, Grant(1));
  EXPECT_EQ(batch[0].rows, 3u);
  EXPECT_EQ(batch[1].grant, Grant(0));
  EXPECT_EQ(batch[1].rows, 1u);
}

TEST_F(ShelfTest, ATailIsDeliveredFromItsCopyAndTheBlockIsPassed) {
  Start(Cut(4));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 9));
  shelf_.End(Grant(0), {9, 0});
  EXPECT_FALSE(shelf_.ThinTail(Grant(0)));  // two groups are to come
  Batch();
  Batch();
  shelf_.Claimed();
  const std::optional<Slice> tail = shelf_.ThinTail(Grant(0));
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->row, 8u);
  EXPECT_TRUE(shelf_.ReplaceTail(*tail, Rows(2, 8, 9)));
  EXPECT_EQ(shelf_.TakeProgress().passed, std::vector<Handle>{Handle{1}});
  EXPECT_FALSE(shelf_.ReplaceTail(*tail, Rows(3, 8, 9)));
  shelf_.EndEpoch(Epoch{0});
  const auto batch = Batch();
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].handle, Handle{2});
  EXPECT_EQ(batch[0].row, 0u);
}

TEST_F(ShelfTest, TheEndGivesOneShortBatchAndThenNothing) {
  Start(Cut(4));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 3));
  shelf_.End(Grant(0), {3, 0});
  EXPECT_TRUE(Waits());
  shelf_.EndEpoch(Epoch{0});
  EXPECT_EQ(Count(Batch()), 3u);
  EXPECT_TRUE(AtEnd());
  EXPECT_TRUE(AtEnd());
}

TEST_F(ShelfTest, DropRemainderCountsWhatItDropsAndTheLaneIsDone) {
  Start(Cut(4, 1, true));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 3));
  shelf_.End(Grant(0), {3, 0});
  shelf_.EndEpoch(Epoch{0});
  EXPECT_TRUE(AtEnd());
  const Progress progress = shelf_.TakeProgress();
  EXPECT_EQ(progress.totals.dropped_rows, 3u);
  EXPECT_TRUE(Find(progress, Grant(0))->done);
  EXPECT_EQ(progress.passed.size(), 1u);
}

TEST_F(ShelfTest, AMixedBatchTakesAGroupOfEachOpenLane) {
  Start(Cut(4, 2));
  Open(Grant(0));
  Open(Grant(1));
  shelf_.Put(Grant(0), Rows(1, 0, 8));
  EXPECT_TRUE(Waits());  // lane 1 may still give its group
  shelf_.Put(Grant(1), Rows(2, 0, 2));
  const auto batch = Batch();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_NE(batch[0].grant, batch[1].grant);
  EXPECT_TRUE(Waits());
  shelf_.SetOpen(Grant(1), false);  // nothing is on its way there
  EXPECT_EQ(Count(Batch()), 4u);
}

TEST_F(ShelfTest, AnOverLeaseDeliversNothingAndARenewedOneGoesOn) {
  Start(Cut(2));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 4));
  clock_.Advance(seconds(13));
  const Shelf::Taken taken = shelf_.Next();
  ASSERT_TRUE(std::holds_alternative<Shelf::Wait>(taken));
  EXPECT_EQ(std::get<Shelf::Wait>(taken).on, Shelf::Wait::For::kLease);
  shelf_.SetLease({seconds(25)});
  EXPECT_EQ(Batch()[0].first, (Cursor{0, 0}));
}

TEST_F(ShelfTest, ARemovedGrantGivesNoMoreRowsAndSaysWhereItStood) {
  Start(Cut(2));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 6));
  Batch();
  shelf_.Remove(Grant(0));
  EXPECT_TRUE(Waits());
  const Progress progress = shelf_.TakeProgress();
  EXPECT_TRUE(Find(progress, Grant(0))->removed);
  EXPECT_EQ(Find(progress, Grant(0))->received, (Cursor{2, 0}));
  EXPECT_EQ(progress.passed.size(), 1u);
}

TEST_F(ShelfTest, RowsGivenBackAreNotReceivedThoughTheLaneHasEnded) {
  Start(Cut(0));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 10));
  shelf_.End(Grant(0), {10, 0});
  EXPECT_EQ(Count(Batch()), 10u);
  (void)shelf_.TakeProgress();
  shelf_.Unreceive(7);
  shelf_.Close();
  const Progress progress = shelf_.TakeProgress();
  const Mark* mark = Find(progress, Grant(0));
  ASSERT_NE(mark, nullptr);
  EXPECT_EQ(mark->received, (Cursor{3, 0}));
  EXPECT_EQ(mark->left_rows, 7u);
  EXPECT_FALSE(mark->done);
}

TEST_F(ShelfTest, AnErrorComesAfterTheBatchesThatAreReady) {
  Start(Cut(2));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 5));
  shelf_.Fail(Status(Code::kData, "bad"));
  EXPECT_EQ(Count(Batch()), 2u);
  EXPECT_EQ(Count(Batch()), 2u);
  EXPECT_EQ(std::get<Status>(shelf_.Next()).code(), Code::kData);
  EXPECT_EQ(std::get<Status>(shelf_.Next()).code(), Code::kData);
}

TEST_F(ShelfTest, ANewEpochRemovesTheGrantsOfTheOneThatWasLeft) {
  Start(Cut(2));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 5));
  Batch();
  shelf_.BeginEpoch(Epoch{1});
  shelf_.EndEpoch(Epoch{0});
  EXPECT_TRUE(Waits());
  EXPECT_EQ(Find(shelf_.TakeProgress(), Grant(0))->received, (Cursor{2, 0}));
  shelf_.Add(Grant(1), {}, Epoch{0});  // on its way when the loop went on
  EXPECT_TRUE(Find(shelf_.TakeProgress(), Grant(1))->removed);
}

TEST_F(ShelfTest, APieceOfAnEarlierEpochMayComeToAReaderThatHasGoneOn) {
  Start(Cut(2));
  shelf_.BeginEpoch(Epoch{1});
  shelf_.Add(Grant(0), {}, Epoch{1});
  shelf_.Put(Grant(0), Rows(1, 0, 2));
  EXPECT_EQ(Count(Batch()), 2u);
}

TEST_F(ShelfTest, BlocksArePassedOnlyAfterTheLoopHasClaimedThem) {
  Start(Cut(2));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 2));
  Batch();
  EXPECT_TRUE(shelf_.TakeProgress().passed.empty());
  shelf_.Claimed();
  EXPECT_EQ(shelf_.TakeProgress().passed, std::vector<Handle>{Handle{1}});
}

TEST_F(ShelfTest, ALoopThatWaitsForItsLeaseDoesNotWaitForRows) {
  for (const uint64_t batch : {0u, 4u}) {
    Shelf shelf(clock_);
    shelf.Configure(Cut(batch), Epoch{0});
    shelf.Add(Grant(0), {}, Epoch{0});
    shelf.SetLease(clock_.Now() - seconds(1));
    EXPECT_TRUE(std::holds_alternative<Shelf::Wait>(shelf.Next()));
    EXPECT_TRUE(shelf.TakeProgress().waiting) << "there are none, batch of " << batch;
    shelf.Put(Grant(0), Rows(1, 0, 4));
    EXPECT_TRUE(std::holds_alternative<Shelf::Wait>(shelf.Next()));
    EXPECT_FALSE(shelf.TakeProgress().waiting) << "there are some, batch of " << batch;
  }
}

}  // namespace
}  // namespace penstock
