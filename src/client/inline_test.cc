// A plan read in this process: where its states lead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/iterations_testing.h"
#include "plan/position.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kNextWithin{10'000};

uint64_t ReadBatches(Reader& reader, uint64_t most) {
  uint64_t had = 0;
  while (had < most && reader.Next(kNextWithin).value()) ++had;
  return had;
}

std::shared_ptr<Reader> ReadOnAfter(const std::string& state, ReadOptions options) {
  std::shared_ptr<Reader> reader = ReadInline(Dataset::Range(0, 20).Batch(2).plan(), std::move(options)).value();
  EXPECT_TRUE(reader->Restore(state).ok());
  return reader;
}

TEST(InlineReader, GoesOnInTheEpochThatItsStateWasSavedIn) {
  const auto reader = ReadNumbers(20, 2);
  for (uint32_t epoch = 0; epoch < 12; ++epoch) {
    EXPECT_EQ(ReadBatches(*reader, 4), 4u);
    const auto resumed = ReadOnAfter(reader->State({}).value(), {.epochs = 0});
    EXPECT_EQ(resumed->epoch(), Epoch{epoch});
    EXPECT_EQ(ReadBatches(*resumed, 100), 6u);
    EXPECT_EQ(ReadBatches(*reader, 100), 6u);
    ASSERT_TRUE(reader->StartEpoch(std::nullopt).value());
  }
}

TEST(InlineReader, NothingOfAnEpochThatTheLoopLeftOrPassedOverComesAgain) {
  const auto reader = ReadNumbers(20, 2);
  EXPECT_EQ(ReadBatches(*reader, 3), 3u);
  for (const uint32_t epoch : {1, 5}) {
    ASSERT_TRUE(reader->StartEpoch(Epoch{epoch}).value());
    EXPECT_EQ(ReadBatches(*reader, 2), 2u);
    const auto resumed = ReadOnAfter(reader->State({}).value(), {.epochs = 0});
    EXPECT_EQ(resumed->epoch(), Epoch{epoch});
    EXPECT_EQ(ReadBatches(*resumed, 100), 8u);
  }
  const auto behind = ReadOnAfter(reader->State({.behind = 3}).value(), {.epochs = 0});
  EXPECT_EQ(behind->epoch(), Epoch{1}) << "that batch was of the epoch before";
  EXPECT_EQ(ReadBatches(*behind, 100), 9u);
}

TEST(InlineReader, ARanksPartLeadsToTheEpochThatItWasSavedInToo) {
  const ReadOptions second{.epochs = 0, .index = 1, .consumers = 2};
  const std::shared_ptr<Reader> reader = ReadInline(Dataset::Range(0, 20).Batch(2).plan(), second).value();
  ASSERT_TRUE(reader->StartEpoch(Epoch{3}).value());
  const uint64_t all = ReadBatches(*reader, 100);
  ASSERT_TRUE(reader->StartEpoch(std::nullopt).value());
  EXPECT_EQ(ReadBatches(*reader, 1), 1u);
  const auto resumed = ReadOnAfter(reader->State({}).value(), second);
  EXPECT_EQ(resumed->epoch(), Epoch{4});
  EXPECT_EQ(ReadBatches(*resumed, 100), all - 1);
}

// 21 rows are 11 batches, of which two ranks that end at one step leave one.
TEST(InlineReader, WhatStrictDroppedAtTheEndDoesNotComeAfterIt) {
  const Plan plan = Dataset::Range(0, 21).Batch(2).plan();
  ReadOptions options{.mode = Mode::kStrict, .epochs = 3, .even = Even::kDrop, .index = 0, .consumers = 2};
  const std::shared_ptr<Reader> reader = ReadInline(plan, options).value();
  EXPECT_EQ(ReadBatches(*reader, 100), 5u);
  const std::string state = reader->State({}).value();
  options.consumers = 1;
  const std::shared_ptr<Reader> resumed = ReadInline(plan, options).value();
  ASSERT_TRUE(resumed->Restore(state).ok());
  EXPECT_EQ(resumed->epoch(), Epoch{0});
  EXPECT_EQ(ReadBatches(*resumed, 100), 0u) << "done is what was dropped too";
  ASSERT_TRUE(resumed->StartEpoch(std::nullopt).value());
  EXPECT_EQ(resumed->epoch(), Epoch{1});
  EXPECT_EQ(ReadBatches(*resumed, 100), 11u);
}

// 21 rows are 11 batches: the last step has one for the first rank alone.
TEST(InlineReader, TheStateOfAStrictRankAtItsEndIsTheEpochsEndAlsoWhereTheOthersHaveABatchMore) {
  const Plan plan = Dataset::Range(0, 21).Batch(2).plan();
  const auto read = [&](uint32_t index) {
    return ReadInline(plan, {.mode = Mode::kStrict, .epochs = 3, .even = Even::kUneven, .index = index, .consumers = 2}).value();
  };
  for (const uint32_t saver : {0, 1}) {
    const std::shared_ptr<Reader> reader = read(saver);
    EXPECT_EQ(ReadBatches(*reader, 100), 6u - saver);
    for (const uint32_t rank : {0, 1}) {
      const std::shared_ptr<Reader> resumed = read(rank);
      ASSERT_TRUE(resumed->Restore(reader->State({}).value()).ok());
      EXPECT_EQ(resumed->epoch(), Epoch{0});
      EXPECT_EQ(ReadBatches(*resumed, 100), 0u) << "saved by rank " << saver << ", gone on from by rank " << rank;
      ASSERT_TRUE(resumed->StartEpoch(std::nullopt).value());
      EXPECT_EQ(ReadBatches(*resumed, 100), 6u - rank);
    }
  }
}

}  // namespace
}  // namespace penstock
