#include "client/recent_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/columns.h"

namespace penstock {
namespace {

// Three numbers and a ragged list of lists a row.
std::shared_ptr<const Spec> SpecOfRows() {
  return std::make_shared<const Spec>(DictSpec({{"x", DType::kInt32, {3}}, {"words", DType::kInt64, {kRagged, kRagged}}}));
}

class RecentBatchesTest : public testing::Test {
 protected:
  // Row i has `lists[i]` lists of two numbers.
  Batch Make(const std::vector<uint64_t>& lists, uint64_t step) {
    auto columns = std::make_shared<Columns>(spec_);
    for (const uint64_t count : lists) {
      (*columns)[0].AppendDense(1);
      Column& words = (*columns)[1];
      words.PushOffset(0, count);
      for (uint64_t i = 0; i < count; ++i) words.PushOffset(1, 2);
      words.ExtendValues(count * 2 * sizeof(int64_t));
      words.FinishRow();
    }
    std::vector<ColumnData> data(2);
    for (size_t i = 0; i < 2; ++i) {
      for (size_t b = 0; b < (*columns)[i].buffer_count(); ++b) data[i].buffers.push_back((*columns)[i].buffer(b));
    }
    Batch batch(lists.size(), spec_, std::move(data), {Piece{}}, columns);
    batch.Stamp({Generation{1}, step});
    return batch;
  }
  Layout LayoutOf(uint64_t batch) const {
    Layout layout;
    layout.batch = batch;
    layout.row_spec = *spec_;
    return layout;
  }
  static uint64_t AddressOf(const Batch& batch, size_t column, size_t byte) {
    return reinterpret_cast<uintptr_t>(batch.column(column).values().data()) + byte;
  }
  static uint64_t StepAt(const RecentBatches& recent, uint64_t address) {
    const auto tag = recent.TagAt(address);
    return tag ? tag->step : 0;
  }

  std::shared_ptr<const Spec> spec_ = SpecOfRows();
};

TEST_F(RecentBatchesTest, ARowIsFoundThroughTheOffsetsOfItsColumn) {
  RecentBatches recent(LayoutOf(0));
  const Batch run = Make({1, 0, 0, 5, 2}, 105);
  recent.Add(run);
  constexpr size_t kList = 2 * sizeof(int64_t);
  EXPECT_EQ(StepAt(recent, AddressOf(run, 1, 0)), 101U);
  EXPECT_EQ(StepAt(recent, AddressOf(run, 1, kList - 1)), 101U);
  EXPECT_EQ(StepAt(recent, AddressOf(run, 1, kList)), 104U) << "rows without values have no memory";
  EXPECT_EQ(StepAt(recent, AddressOf(run, 1, 6 * kList - 1)), 104U);
  EXPECT_EQ(StepAt(recent, AddressOf(run, 1, 6 * kList)), 105U);
  EXPECT_EQ(StepAt(recent, AddressOf(run, 0, 3 * 12)), 104U);
}

TEST_F(RecentBatchesTest, FewerBytesThanRowsAreFoundToo) {
  RecentBatches recent(LayoutOf(0));
  std::vector<uint64_t> lists(40, 0);
  lists[17] = 1;
  const Batch run = Make(lists, 40);
  recent.Add(run);
  EXPECT_EQ(StepAt(recent, AddressOf(run, 1, 8)), 18U);
}

TEST_F(RecentBatchesTest, ABatchIsOneHoweverManyRowsItHas) {
  RecentBatches recent(LayoutOf(2));
  const Batch batch = Make({1, 2}, 7);
  recent.Add(batch);
  EXPECT_EQ(StepAt(recent, AddressOf(batch, 1, 0)), 7U);
  EXPECT_EQ(StepAt(recent, AddressOf(batch, 1, 20)), 7U);
  EXPECT_EQ(recent.PiecesAt(AddressOf(batch, 0, 0))->size(), 1U);
}

TEST_F(RecentBatchesTest, WhatLiesWhereADeadBatchLayIsNotTakenForIt) {
  RecentBatches recent(LayoutOf(2));
  uint64_t address = 0;
  {
    const Batch batch = Make({1, 2}, 7);
    recent.Add(batch);
    address = AddressOf(batch, 1, 0);
    EXPECT_TRUE(recent.TagAt(address).has_value());
  }
  EXPECT_FALSE(recent.TagAt(address).has_value());
  EXPECT_FALSE(recent.PiecesAt(address).has_value());
}

TEST_F(RecentBatchesTest, OnlyTheLastAreKept) {
  RecentBatches recent(LayoutOf(2));
  std::vector<Batch> batches;
  for (uint64_t step = 1; step <= RecentBatches::kKept + 1; ++step) {
    batches.push_back(Make({1}, step));
    recent.Add(batches.back());
  }
  EXPECT_FALSE(recent.TagAt(AddressOf(batches[0], 0, 0)).has_value());
  EXPECT_EQ(StepAt(recent, AddressOf(batches[1], 0, 0)), 2U);
}

}  // namespace
}  // namespace penstock
