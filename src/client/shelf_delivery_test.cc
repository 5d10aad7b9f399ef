// What a shelf says was delivered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "client/shelf_test_shell.h"

namespace penstock {
namespace {

using std::chrono::seconds;

std::string DeliveredBy(const Shelf& shelf, std::optional<uint64_t> tag = {}) {
  const auto point = shelf.Delivered(tag);
  if (!point.ok()) return point.status().message();
  return point->rows.epochs.empty() ? "" : point->rows.epochs.begin()->second.ToString();
}

TEST_F(ShelfTest, DeliveredIsWhatTheLoopHasAndNotWhatIsOnTheShelf) {
  Start(Cut(4));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 10));
  EXPECT_EQ(DeliveredBy(shelf_), "");
  Batch();
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-4");
  Batch();
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-8");
  EXPECT_EQ(DeliveredBy(shelf_, 1), "0:0-4");
  EXPECT_EQ(shelf_.tag(), (BatchTag{Generation{}, 2}));
}

TEST_F(ShelfTest, FilteredRowsBeforeAndAfterABatchAreDeliveredWithIt) {
  Start(Cut(2));
  Open(Grant(0));
  ShelfBlock block = Rows(1, 0, 2);
  block.info = {2, {0, 0}, {9, 0}, 16, 0};
  block.cursors = {{3, 0}, {5, 0}, {9, 0}};  // rows 0 to 2, 4 and 6 to 8 were filtered
  shelf_.Put(Grant(0), block);
  Batch();
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-9");
  shelf_.End(Grant(0), {9, 0});
  EXPECT_EQ(DeliveredBy(shelf_), "0");
}

TEST_F(ShelfTest, ARangesEndIsNotItsLanesEnd) {
  Start(Cut(4));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 4));
  shelf_.End(Grant(0), {4, 0}, false);
  Batch();
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-4");
}

TEST_F(ShelfTest, RangesOfASerialLaneAreTakenOneAfterTheOther) {
  for (const uint64_t batch : {4, 0}) {
    Layout serial = Cut(batch);
    serial.serial = true;
    Start(serial);
    GrantName later = Grant(0);
    later.from = {8, 0};
    for (const GrantName& grant : {later, Grant(0)}) {
      shelf_.Add(grant, grant.from, Epoch{0});
      shelf_.SetOpen(grant, true);
      for (const uint64_t from : {grant.from.seq, grant.from.seq + 4}) shelf_.Put(grant, Rows(from + 1, from, from + 4));
      shelf_.End(grant, {grant.from.seq + 8, 0}, false);
    }
    for (const Seq first : {0, 4, 8, 12}) EXPECT_EQ(Batch().front().first, (Cursor{first, 0}));
    shelf_.Remove(later);
    shelf_.Remove(Grant(0));
  }
}

TEST_F(ShelfTest, TailsAreDeliveredWhenTheyAreJoinedAndWhatIsDroppedWithTheLastBatch) {
  Start(Cut(4, 1, true));
  for (uint32_t lane = 0; lane < 3; ++lane) {
    Open(Grant(lane));
    shelf_.Put(Grant(lane), Rows(lane + 1, 0, 3));
    shelf_.End(Grant(lane), {3, 0});
  }
  EXPECT_EQ(DeliveredBy(shelf_), "");
  EXPECT_EQ(Count(Batch()), 4u);
  EXPECT_EQ(DeliveredBy(shelf_), "0 1:0-1");
  EXPECT_EQ(Count(Batch()), 4u);
  EXPECT_EQ(DeliveredBy(shelf_), "0-1 2:0-2");
  shelf_.EndEpoch(Epoch{0});
  EXPECT_TRUE(AtEnd());
  EXPECT_EQ(DeliveredBy(shelf_), "0-2");
}

TEST_F(ShelfTest, RowsThatWereGivenBackAreNotDelivered) {
  Start(Cut(0));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 10));
  EXPECT_EQ(Count(Batch()), 10u);
  EXPECT_EQ(DeliveredBy(shelf_, 7), "0:0-7");
  shelf_.Unreceive(4);
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-6");
}

TEST_F(ShelfTest, RowsOfARunAreDeliveredAsTheyAreHandedOut) {
  Start(Cut(0));
  shelf_.HandsOutRows();
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 10));
  EXPECT_EQ(Count(Batch()), 10u);
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-1");
  shelf_.HandedOutRow();
  shelf_.HandedOutRow();
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-3");
  EXPECT_EQ(shelf_.Delivered()->tag, 3u);
  shelf_.Unreceive(7);
  EXPECT_EQ(DeliveredBy(shelf_), "0:0-3");
}

TEST_F(ShelfTest, RestartedItHasNoGrantsAndNothingDelivered) {
  Start(Cut(4));
  Open(Grant(0));
  shelf_.Put(Grant(0), Rows(1, 0, 10));
  Batch();
  shelf_.Restart(Cut(4), Epoch{2}, Generation{3});
  EXPECT_TRUE(Waits());
  EXPECT_EQ(DeliveredBy(shelf_), "");
  EXPECT_EQ(shelf_.tag(), (BatchTag{Generation{3}, 0}));
  EXPECT_THAT(shelf_.TakeProgress().passed, ::testing::ElementsAre(Handle{1}));
}

TEST_F(ShelfTest, AWholeBatchThatDidNotReachTheLoopIsNotDelivered) {
  Start(Cut(2));
  const auto first = std::make_shared<const RingPosition>(RingPosition{.turn = 1});
  const auto second = std::make_shared<const RingPosition>(RingPosition{.turn = 2});
  shelf_.PutBatch({0, {{Grant(0), Handle{1}, 0, 2, {0, 0}, {2, 0}}}, {Handle{1}}, first});
  shelf_.PutBatch({1, {{Grant(0), Handle{2}, 0, 2, {2, 0}, {4, 0}}}, {Handle{2}}, second});
  EXPECT_EQ(Count(Batch()), 2u);
  EXPECT_EQ(Count(Batch()), 2u);
  shelf_.Unreceive(2);
  EXPECT_EQ(shelf_.Delivered()->tag, 1u);
  EXPECT_EQ(shelf_.Delivered()->ring, first);
  const Progress progress = shelf_.TakeProgress();
  ASSERT_TRUE(progress.ring.has_value());
  EXPECT_EQ(progress.ring->received, first);
  EXPECT_EQ(progress.ring->batches, 1u);
}

TEST_F(ShelfTest, ALoopThatClosesAtTheEpochsEndHasComeToIt) {
  Start(Cut(2));
  shelf_.EndEpoch(Epoch{0});
  EXPECT_TRUE(std::holds_alternative<Shelf::EpochEnd>(shelf_.Next()));
  shelf_.Close();
  const Progress progress = shelf_.TakeProgress();
  ASSERT_TRUE(progress.ring.has_value());
  EXPECT_TRUE(progress.ring->ended);
}

TEST_F(ShelfTest, ALoopHasComeToTheEpochsEndWithTheCallThatComesBackAfterItsLastBatch) {
  Start(Cut(2));
  const auto after = std::make_shared<const RingPosition>(RingPosition{.turn = 1});
  shelf_.PutBatch({0, {{Grant(0), Handle{1}, 0, 2, {0, 0}, {2, 0}}}, {Handle{1}}, after});
  shelf_.EndEpoch(Epoch{0});
  EXPECT_EQ(Count(Batch()), 2u);
  EXPECT_TRUE(AtEnd());
  const Progress progress = shelf_.TakeProgress();
  ASSERT_TRUE(progress.ring.has_value());
  EXPECT_EQ(progress.ring->asked, after);
  EXPECT_TRUE(progress.ring->ended);
}

}  // namespace
}  // namespace penstock
