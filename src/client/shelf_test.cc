#include "client/shelf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

namespace penstock {
namespace {

using std::chrono::seconds;

Layout Cut(uint64_t batch, uint32_t mix = 1, bool drop = false) {
  Layout layout;
  layout.batch = batch;
  layout.mix = mix;
  layout.drop_remainder = drop;
  return layout;
}

GrantName Grant(uint32_t lane, uint32_t epoch = 0) { return {{Epoch{epoch}, ReplicaId{}, LaneId{lane}}, 0, Fence{1}}; }

ShelfBlock Rows(uint64_t handle, uint64_t from, uint64_t to) { return {Handle{handle}, {to - from, {from, 0}, {to, 0}, 8 * (to - from), 0}, {}}; }

uint64_t Count(const std::vector<Slice>& slices) {
  uint64_t rows = 0;
  for (const Slice& slice : slices) rows += slice.rows;
  return rows;
}

class ShelfTest : public ::testing::Test {
 protected:
  void Start(Layout layout) {
    shelf_.Configure(layout, Epoch{0});
    shelf_.SetLease({seconds(12)});
  }
  void Open(const GrantName& grant) {
    shelf_.Add(grant, {}, Epoch{0});
    shelf_.SetOpen(grant, true);
  }
  std::vector<Slice> Batch() {
    Shelf::Taken taken = shelf_.Next();
    auto* slices = std::get_if<std::vector<Slice>>(&taken);
    return slices == nullptr ? std::vector<Slice>() : *slices;
  }
  bool Waits() { return std::holds_alternative<Shelf::Wait>(shelf_.Next()); }
  bool AtEnd() { return std::holds_alternative<Shelf::EpochEnd>(shelf_.Next()); }
  static const Mark* Find(const Progress& progress, const GrantName& grant) {
    for (const Mark& mark : progress.marks) {
      if (mark.grant == grant) return &mark;
    }
    return nullptr;
  }

  ManualClock clock_;
  Shelf shelf_{clock_};
};

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

// Random lanes, blocks and cuts: every row once and in order, all batches full but the last, every block passed once.
TEST(ShelfProperty, EveryRowComesOnceAndBatchesAreFull) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    const uint32_t mix = below(2) == 0 ? 1 : static_cast<uint32_t>(1 + below(4));
    const uint64_t batch = below(5) == 0 ? 0 : mix * (1 + below(5));
    ManualClock clock;
    Shelf shelf(clock);
    shelf.Configure(Cut(batch, mix), Epoch{0});
    shelf.SetLease({seconds(1)});
    struct Source {
      uint64_t at = 0, rows = 0, got = 0;
      bool ended = false;
    };
    std::vector<Source> lanes(1 + below(6));
    uint64_t total = 0, handle = 0, got = 0, passed = 0, ended = 0, short_batches = 0;
    for (uint32_t i = 0; i < lanes.size(); ++i) {
      total += lanes[i].rows = below(40);
      shelf.Add(Grant(i), {}, Epoch{0});
      shelf.SetOpen(Grant(i), true);
    }
    while (true) {
      const auto i = static_cast<uint32_t>(below(lanes.size()));
      Source& lane = lanes[i];
      if (lane.at < lane.rows) {
        const uint64_t from = lane.at - std::min(lane.at, below(3));  // some rows come twice
        const uint64_t to = std::min(lane.rows, lane.at + 1 + below(7));
        shelf.Put(Grant(i), Rows(++handle, from, to));
        lane.at = to;
      } else if (!lane.ended) {
        lane.ended = true;
        shelf.End(Grant(i), {lane.rows, 0});
        if (++ended == lanes.size()) shelf.EndEpoch(Epoch{0});
      }
      if (below(2) == 0) continue;
      const Shelf::Taken taken = shelf.Next();
      passed += shelf.TakeProgress().passed.size();
      if (std::holds_alternative<Shelf::EpochEnd>(taken)) break;
      const auto* slices = std::get_if<std::vector<Slice>>(&taken);
      if (slices == nullptr) continue;
      for (const Slice& slice : *slices) {
        Source& from = lanes[Raw(slice.grant.lane.lane)];
        ASSERT_EQ(slice.first.seq, from.got) << seed;
        from.got = slice.end.seq;
      }
      got += Count(*slices);
      if (batch > 0 && Count(*slices) != batch) ++short_batches;
    }
    EXPECT_EQ(got, total) << seed;
    EXPECT_LE(short_batches, 1u) << seed;
    EXPECT_EQ(passed, handle) << seed;
  }
}

TEST(ShelfThreads, ALoopAndACoreShareAShelf) {
  Shelf shelf(Clock::System());
  shelf.Configure(Cut(8), Epoch{0});
  shelf.SetLease(Clock::System().Now() + seconds(600));
  std::thread core([&] {
    for (uint32_t lane = 0; lane < 20; ++lane) {
      shelf.Add(Grant(lane), {}, Epoch{0});
      shelf.SetOpen(Grant(lane), true);
      for (uint64_t row = 0; row < 100; row += 10) shelf.Put(Grant(lane), Rows(lane * 100 + row, row, row + 10));
      shelf.End(Grant(lane), {100, 0});
      shelf.TakeProgress();
    }
    shelf.EndEpoch(Epoch{0});
  });
  uint64_t rows = 0;
  while (true) {
    const Shelf::Taken taken = shelf.Next();
    if (std::holds_alternative<Shelf::EpochEnd>(taken)) break;
    if (const auto* wait = std::get_if<Shelf::Wait>(&taken)) {
      ASSERT_TRUE(shelf.WaitForNews(wait->seen, Clock::System().Now() + seconds(60)));
    } else {
      rows += Count(std::get<std::vector<Slice>>(taken));
      shelf.Claimed();
    }
  }
  core.join();
  EXPECT_EQ(rows, 2000u);
}

// ---- what was delivered

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

}  // namespace
}  // namespace penstock
