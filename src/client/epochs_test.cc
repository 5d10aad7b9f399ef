#include "client/epochs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/iterations_testing.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr milliseconds kPatience{10'000};

// What is left of an iteration, where the dataset is batched.
std::vector<int64_t> RestOf(Epochs& epochs, uint64_t iteration) {
  std::vector<int64_t> all;
  while (true) {
    const auto batch = epochs.Next(iteration, kPatience).value();
    if (!batch) return all;
    for (const int64_t number : NumbersOf(*batch, 0, batch->rows())) all.push_back(number);
  }
}

TEST(Epochs, EachIterationReadsAnEpoch) {
  Epochs epochs(ReadNumbers(4, 2));
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    const uint64_t iteration = epochs.Begin().value().value();
    EXPECT_EQ(epochs.reader()->epoch(), Epoch{epoch});
    EXPECT_THAT(RestOf(epochs, iteration), ElementsAre(0, 1, 2, 3));
  }
}

TEST(Epochs, OnlyTheNewestIterationIsGivenElements) {
  Epochs epochs(ReadNumbers(4, 2));
  const uint64_t older = epochs.Begin().value().value();
  const uint64_t newer = epochs.Begin().value().value();
  const auto refused = epochs.Next(older, kPatience);
  EXPECT_EQ(refused.status().code(), Code::kInvalid);
  EXPECT_THAT(refused.status().message(), HasSubstr("another iteration"));
  EXPECT_EQ(epochs.StateOf(older, {}).status().code(), Code::kInvalid);
  EXPECT_THAT(RestOf(epochs, newer), ElementsAre(0, 1, 2, 3));
}

TEST(Epochs, EpochsArePassedOverAndNeverGoneBackTo) {
  Epochs epochs(ReadNumbers(4, 2));
  epochs.SetNext(Epoch{2});
  ASSERT_TRUE(epochs.Begin().value());
  EXPECT_EQ(epochs.reader()->epoch(), Epoch{2});
  epochs.SetNext(Epoch{1});
  EXPECT_THAT(epochs.Begin().status().message(), HasSubstr("does not go back"));
  ASSERT_TRUE(epochs.Begin().value()) << "what was refused is forgotten";
  EXPECT_EQ(epochs.reader()->epoch(), Epoch{3});
}

// A reader that came when the job was in its epoch 2.
std::shared_ptr<Reader> LateReader() {
  auto reader = ReadNumbers(4, 2);
  EXPECT_TRUE(reader->StartEpoch(Epoch{2}).value());
  return reader;
}

TEST(Epochs, WhereTheyAreCountedFromTheFirstThoseThatWereOverAreEmpty) {
  Epochs epochs(LateReader(), Epochs::From::kFirst);
  for (uint32_t epoch = 0; epoch < 2; ++epoch) EXPECT_THAT(RestOf(epochs, epochs.Begin().value().value()), testing::IsEmpty());
  for (uint32_t epoch = 2; epoch < 4; ++epoch) {
    EXPECT_THAT(RestOf(epochs, epochs.Begin().value().value()), ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(epochs.reader()->epoch(), Epoch{epoch});
  }
}

TEST(Epochs, OneThatWasOverIsSavedAsItsOwnAndHasNothingLeft) {
  Epochs epochs(LateReader(), Epochs::From::kFirst);
  const uint64_t iteration = epochs.Begin().value().value();
  const Epochs::Saved saved = epochs.StateOf(iteration, {}).value();
  EXPECT_EQ(saved.epoch, Epoch{0});
  EXPECT_FALSE(epochs.Resume(saved.state, saved.epoch).value());
  EXPECT_THAT(RestOf(epochs, epochs.Begin().value().value()), ElementsAre(0, 1, 2, 3)) << "a state that was loaded says where to go on";
  EXPECT_EQ(epochs.reader()->epoch(), Epoch{2});
}

TEST(Epochs, AJobWithoutMoreEpochsLeavesTheIterationBeforeAsItWas) {
  Epochs epochs(ReadInline(Dataset::Range(0, 4).Batch(2).plan(), {.epochs = 1}).value());
  const uint64_t only = epochs.Begin().value().value();
  ASSERT_TRUE(epochs.Next(only, kPatience).value());
  EXPECT_FALSE(epochs.Begin().value());
  EXPECT_THAT(RestOf(epochs, only), ElementsAre(2, 3));
}

TEST(Epochs, AStateIsAfterTheRowsThatWereTakenOfARun) {
  Epochs epochs(ReadNumbers(10));
  const uint64_t iteration = epochs.Begin().value().value();
  const auto run = epochs.Next(iteration, kPatience).value();
  ASSERT_EQ(run->rows(), 10u);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(epochs.TakeRow(iteration, kPatience).value());
  const std::string state = epochs.StateOf(iteration, {}).value().state;

  Epochs resumed(ReadNumbers(10));
  const uint64_t rest = resumed.Resume(state, Epoch{0}).value().value();
  const auto left = resumed.Next(rest, kPatience).value();
  EXPECT_THAT(NumbersOf(*left, 0, left->rows()), ElementsAre(4, 5, 6, 7, 8, 9));
}

TEST(Epochs, ARunHasNoMoreRowsThanItHas) {
  Epochs epochs(ReadNumbers(3));
  const uint64_t iteration = epochs.Begin().value().value();
  ASSERT_EQ(epochs.Next(iteration, kPatience).value()->rows(), 3u);
  EXPECT_TRUE(epochs.TakeRow(iteration, kPatience).value());
  EXPECT_TRUE(epochs.TakeRow(iteration, kPatience).value());
  EXPECT_FALSE(epochs.TakeRow(iteration, kPatience).value());
}

TEST(Epochs, AnIterationThatWasSavedAtItsEndHasNothingLeft) {
  Epochs epochs(ReadNumbers(4, 2));
  const uint64_t iteration = epochs.Begin().value().value();
  RestOf(epochs, iteration);
  const Epochs::Saved saved = epochs.StateOf(iteration, {}).value();
  Epochs resumed(ReadNumbers(4, 2));
  const auto number = resumed.Resume(saved.state, saved.epoch).value();
  EXPECT_THAT(number ? RestOf(resumed, *number) : std::vector<int64_t>(), testing::IsEmpty());
}

TEST(Epochs, AStateThatWasLoadedEndsTheIterationThatGoesOn) {
  Epochs epochs(ReadNumbers(4, 2));
  const uint64_t iteration = epochs.Begin().value().value();
  ASSERT_TRUE(epochs.Next(iteration, kPatience).value());
  const std::string state = epochs.State({}).value();
  ASSERT_TRUE(epochs.Restore(state).ok());
  EXPECT_EQ(epochs.Next(iteration, kPatience).status().code(), Code::kInvalid);
  EXPECT_THAT(RestOf(epochs, epochs.Begin().value().value()), ElementsAre(2, 3));
}

TEST(Turns, WhoWaitsNoLongerIsPassedOver) {
  Turns turns;
  turns.lock();
  EXPECT_FALSE(turns.try_lock_for(milliseconds(0)));
  EXPECT_FALSE(turns.try_lock_for(milliseconds(0)));
  turns.unlock();
  EXPECT_TRUE(turns.try_lock_for(kPatience));
  turns.unlock();
}

}  // namespace
}  // namespace penstock
