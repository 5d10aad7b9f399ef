#include "client/delivery_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using ::testing::HasSubstr;

LaneKey Lane(uint32_t lane, uint32_t epoch = 0) { return {Epoch{epoch}, ReplicaId{}, LaneId{lane}}; }

std::string RowsAt(const DeliveryLog& log, uint64_t tag, uint32_t epoch = 0) {
  const auto point = log.At(tag);
  if (!point.ok()) return point.status().message();
  const auto rows = point->rows.epochs.find(Epoch{epoch});
  return rows == point->rows.epochs.end() ? "" : rows->second.ToString();
}

TEST(DeliveryLog, KnowsWhatTheLoopHadAtEachOfTheLastBatches) {
  DeliveryLog log;
  for (Seq batch = 0; batch < 100; ++batch) {
    log.Add(Lane(3), {batch * 4, 0}, {batch * 4 + 4, 0});
    log.Close();
  }
  EXPECT_EQ(log.tag(), 100u);
  for (uint64_t tag = 36; tag <= 100; ++tag) EXPECT_EQ(RowsAt(log, tag), "3:0-" + std::to_string(tag * 4));
  EXPECT_THAT(RowsAt(log, 35), HasSubstr("not kept any more"));
  EXPECT_THAT(RowsAt(log, 101), HasSubstr("has not come yet"));
}

TEST(DeliveryLog, AtNoBatchHasNothing) {
  DeliveryLog log;
  EXPECT_EQ(RowsAt(log, 0), "");
  log.Add(Lane(0), {}, {4, 0});
  EXPECT_EQ(RowsAt(log, 0), "");  // a batch that is not whole yet is none
}

TEST(DeliveryLog, CutsARunAtTheRowThatTheLoopHas) {
  DeliveryLog log;
  const std::vector<Cursor> cursors = {{2, 0}, {5, 0}, {5, 1}, {9, 0}};  // rows 3 and 4 were filtered, 5 became two
  log.Add(Lane(1), {0, 0}, {10, 0});
  log.Close(4, [&](uint64_t row) { return row < 4 ? cursors[row] : Cursor{10, 0}; });
  EXPECT_EQ(RowsAt(log, 1), "1:0-5");
  EXPECT_EQ(RowsAt(log, 2), "1:0-5.1");
  EXPECT_EQ(RowsAt(log, 4), "1:0-10");
  log.TakeBack(3);
  EXPECT_EQ(log.tag(), 1u);
  EXPECT_EQ(RowsAt(log, 1), "1:0-5");
}

TEST(DeliveryLog, ABatchThatDidNotReachTheLoopIsTakenBackWhole) {
  DeliveryLog log;
  log.Add(Lane(0), {}, {4, 0});
  log.Close();
  log.Add(Lane(0), {4, 0}, {8, 0});
  log.Close();
  log.TakeBack(1);
  EXPECT_EQ(log.tag(), 1u);
  EXPECT_EQ(RowsAt(log, 1), "0:0-4");
}

TEST(DeliveryLog, RowsDroppedByRuleComeWithTheLastBatchAndAnEmptyEndWithAny) {
  DeliveryLog log;
  log.Add(Lane(0), {}, {4, 0});
  log.Close();
  log.Add(Lane(1), {}, {4, 0});
  log.Close();
  log.AddEmpty(Lane(0), {4, 0}, kLaneEndCursor);
  log.AddDropped(Lane(1), {4, 0}, kLaneEndCursor);
  EXPECT_EQ(RowsAt(log, 1), "0");
  EXPECT_EQ(RowsAt(log, 2), "0-1");
}

TEST(DeliveryLog, KeepsTheEpochsThatACheckpointOfAnotherRankMayBeIn) {
  DeliveryLog log;
  for (uint32_t epoch = 0; epoch < 10; ++epoch) {
    log.BeginEpoch(Epoch{epoch});
    for (Seq batch = 0; batch < 70; ++batch) {
      log.Add(Lane(0, epoch), {batch, 0}, {batch + 1, 0});
      log.Close();
    }
  }
  const auto point = log.At(log.tag());
  ASSERT_TRUE(point.ok());
  EXPECT_EQ(point->epoch, Epoch{9});
  EXPECT_EQ(point->rows.epochs_done, Epoch{5});  // nothing is said of those before
  EXPECT_EQ(point->rows.epochs.begin()->first, Epoch{5});
  EXPECT_EQ(point->rows.epochs.rbegin()->first, Epoch{9});
}

TEST(DeliveryLog, ANewGenerationBeginsWithNothing) {
  DeliveryLog log;
  log.Add(Lane(0), {}, {4, 0});
  log.Close();
  log.Restart(Generation{2}, Epoch{1});
  EXPECT_EQ(log.tag(), 0u);
  EXPECT_TRUE(log.At(0)->rows.epochs.empty());
  EXPECT_EQ(log.At(0)->generation, Generation{2});
  EXPECT_EQ(log.At(0)->epoch, Epoch{1});
}

TEST(DeliveryLog, OnlyTheLastStepIsAtTheEpochsEndAndTheNextEpochIsNot) {
  DeliveryLog log;
  for (int batch = 0; batch < 2; ++batch) log.Close();
  EXPECT_FALSE(log.At(2)->ended);
  log.EndEpoch();
  EXPECT_TRUE(log.At(2)->ended);
  EXPECT_FALSE(log.At(1)->ended);
  log.BeginEpoch(Epoch{1});
  EXPECT_FALSE(log.At(2)->ended);
}

TEST(DeliveryLog, SaysAtWhichStepItsSeatWasTaken) {
  DeliveryLog log;
  log.TakeSeat(5);
  log.Close();
  EXPECT_EQ(log.tag(), 6u);
  EXPECT_EQ(log.At(6)->seated_at, 5u);
  EXPECT_EQ(log.At(4).status().code(), Code::kNotFound);
  log.Restart(Generation{1}, Epoch{0});
  EXPECT_EQ(log.At(0)->seated_at, 0u);
}

TEST(DeliveryLog, ANewGenerationMayCountOn) {
  DeliveryLog log;
  log.Add(Lane(0), {}, {4, 0});
  log.Close();
  log.Restart(Generation{2}, Epoch{0}, log.tag());
  log.Add(Lane(0), {4, 0}, {8, 0});
  log.Close();
  EXPECT_EQ(log.tag(), 2u);
  EXPECT_EQ(log.At(2)->rows.epochs.at(Epoch{0}).ToString(), "0:4-8");
  EXPECT_TRUE(log.At(1)->rows.epochs.empty());
  EXPECT_EQ(log.At(0).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace penstock
