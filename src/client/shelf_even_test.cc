#include <gtest/gtest.h>

#include "client/shelf.h"

namespace penstock {
namespace {

// A loop over lanes of one block each, in batches of 4 rows.
class ShelfEvenTest : public ::testing::Test {
 protected:
  ShelfEvenTest() { shelf_.SetLease({std::chrono::seconds(12)}); }

  void Start(std::vector<uint64_t> lanes, bool drop_remainder = false) {
    Layout layout;
    layout.batch = 4;
    layout.drop_remainder = drop_remainder;
    shelf_.Configure(layout, Epoch{0});
    for (uint32_t i = 0; i < lanes.size(); ++i) {
      const GrantName grant{{Epoch{0}, ReplicaId{}, LaneId{i}}, {}, Fence{1}};
      shelf_.Add(grant, {}, Epoch{0});
      shelf_.Put(grant, {Handle{i + 1}, {lanes[i], {0, 0}, {lanes[i], 0}, 8 * lanes[i], 0}, {}});
      shelf_.End(grant, {lanes[i], 0});
    }
  }
  // "4 4 2 again end": rows of each batch, until the loop waits or the epoch ends.
  std::string Drain() {
    std::string words;
    for (int i = 0; i < 50; ++i) {
      const Shelf::Taken taken = shelf_.Next();
      if (std::holds_alternative<Shelf::EpochEnd>(taken)) return words + "end";
      if (std::holds_alternative<Shelf::Wait>(taken)) return words + "waits";
      if (std::holds_alternative<Shelf::Again>(taken)) words += "again ";
      if (const auto* batch = std::get_if<std::vector<Slice>>(&taken)) {
        uint64_t rows = 0;
        for (const Slice& slice : *batch) rows += slice.rows;
        words += std::to_string(rows) + " ";
      }
    }
    return words + "goes on";
  }

  // The last mark of the only lane, which moved.
  Mark Moved() {
    const Progress progress = shelf_.TakeProgress();
    tag_ = progress.totals.tag;
    EXPECT_FALSE(progress.marks.empty());
    return progress.marks.empty() ? Mark{} : progress.marks.back();
  }

  ManualClock clock_;
  Shelf shelf_{clock_};
  uint64_t tag_ = 0;  // that Moved() saw
};

TEST_F(ShelfEvenTest, TheLoopStopsAtTheLimitAndGoesOnWhenItRises) {
  Start({20});
  shelf_.SetSteps(Epoch{0}, 2, kNoLimit);
  EXPECT_EQ(Drain(), "4 4 waits");
  shelf_.SetSteps(Epoch{0}, 3, kNoLimit);
  EXPECT_EQ(Drain(), "4 waits");
  EXPECT_EQ(shelf_.TakeProgress().ready_batches, 2u);
}

TEST_F(ShelfEvenTest, WhoHasNoBatchToRepeatGetsTheShortOneThoughSuchAreDropped) {
  Start({3}, /*drop_remainder=*/true);
  shelf_.SetSteps(Epoch{0}, 2, 2);
  EXPECT_EQ(Drain(), "3 again end");
}

TEST_F(ShelfEvenTest, WhatIsBeyondTheLastStepIsDroppedAndCountedAndItsLanesAreDone) {
  Start({20, 3});
  shelf_.SetSteps(Epoch{0}, 2, 2);
  EXPECT_EQ(Drain(), "4 4 end");
  EXPECT_EQ(shelf_.totals().dropped_rows, 15u);
  for (const Mark& mark : shelf_.TakeProgress().marks) EXPECT_TRUE(mark.done);
}

TEST_F(ShelfEvenTest, AShortLoopGetsItsTailAndThenItsLastBatchAgain) {
  Start({6});
  shelf_.SetSteps(Epoch{0}, 4, 4);
  EXPECT_EQ(Drain(), "4 2 again again end");
  EXPECT_EQ(shelf_.totals().repeated, 2u);
  EXPECT_EQ(shelf_.totals().rows, 6u);
}

TEST_F(ShelfEvenTest, WithoutShortBatchesTheLastWholeOneIsRepeated) {
  Start({6}, true);
  shelf_.SetSteps(Epoch{0}, 3, 3);
  EXPECT_EQ(Drain(), "4 again again end");
  EXPECT_EQ(shelf_.totals().dropped_rows, 2u);
}

TEST_F(ShelfEvenTest, EndDoesNotComeBeforeTheLastStep) {
  Start({4});
  shelf_.SetSteps(Epoch{0}, 2, 2);
  shelf_.EndEpoch(Epoch{0});
  EXPECT_EQ(Drain(), "4 again end");
}

TEST_F(ShelfEvenTest, TheNextEpochHasNoLimitYet) {
  Start({8});
  shelf_.SetSteps(Epoch{0}, 1, 1);
  EXPECT_EQ(Drain(), "4 end");
  shelf_.BeginEpoch(Epoch{1});
  shelf_.SetSteps(Epoch{0}, 0, 0);
  EXPECT_EQ(Drain(), "waits");
}

TEST_F(ShelfEvenTest, ReadyAreWholeBatchesAlsoOfTailsTogether) {
  Start({5, 6, 9});
  EXPECT_EQ(shelf_.TakeProgress().ready_batches, 5u);
}

TEST_F(ShelfEvenTest, WhereOthersMayGoFurtherTheLastBatchIsNotAskedForBeforeTheNextIsThere) {
  shelf_.SetPads(true);
  Start({8});
  shelf_.SetSteps(Epoch{0}, 1, kNoLimit);
  EXPECT_EQ(Drain(), "4 waits");
  EXPECT_EQ(Moved().asked, (Cursor{0, 0})) << "one that is started anew has a batch to repeat";
  EXPECT_EQ(tag_, 0u);
  shelf_.SetSteps(Epoch{0}, 2, kNoLimit);
  EXPECT_EQ(Drain(), "4 waits");
  EXPECT_EQ(Moved().asked, (Cursor{4, 0}));
  EXPECT_EQ(tag_, 1u);
}

TEST_F(ShelfEvenTest, ABatchThatIsRepeatedIsKeptUntilTheEpochsEndWhileItsStepsCount) {
  shelf_.SetPads(true);
  Start({8});
  shelf_.SetSteps(Epoch{0}, 2, kNoLimit);
  EXPECT_EQ(Drain(), "4 4 waits");
  EXPECT_FALSE(Moved().done);
  shelf_.SetSteps(Epoch{0}, 4, 4);
  for (const uint64_t steps : {2, 3}) {
    ASSERT_TRUE(std::holds_alternative<Shelf::Again>(shelf_.Next()));
    EXPECT_EQ(shelf_.TakeProgress().totals.tag, steps) << "the one in hand does not count yet";
  }
  EXPECT_EQ(Drain(), "end");
  EXPECT_TRUE(Moved().done);
  EXPECT_EQ(tag_, 4u);
}

TEST_F(ShelfEvenTest, ALaneThatIsCalledBackIsGivenBackBehindTheLastBatch) {
  shelf_.SetPads(true);
  Start({8});
  shelf_.SetSteps(Epoch{0}, 1, kNoLimit);
  EXPECT_EQ(Drain(), "4 waits");
  shelf_.Remove(GrantName{{Epoch{0}, ReplicaId{}, LaneId{0}}, {}, Fence{1}});
  const Mark mark = Moved();
  EXPECT_EQ(mark.asked, mark.received);
  EXPECT_EQ(tag_, 1u);
}

TEST_F(ShelfEvenTest, WhereNothingIsRepeatedABatchIsAskedForWhenTheLoopComesBack) {
  Start({8});
  shelf_.SetSteps(Epoch{0}, 2, kNoLimit);
  EXPECT_EQ(Drain(), "4 4 waits");
  EXPECT_TRUE(Moved().done);
  EXPECT_EQ(tag_, 2u);
}

TEST_F(ShelfEvenTest, OneThatIsStartedAnewWhereAllStepsWereHadEndsAtOnce) {
  Start({20});
  shelf_.SetSteps(Epoch{0}, 0, 0);
  EXPECT_EQ(Drain(), "end");
  EXPECT_EQ(shelf_.totals().dropped_rows, 20u);
}

}  // namespace
}  // namespace penstock
