#include "client/iterations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/iterations_testing.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Iterations::Kind;
constexpr auto kJob = StateOptions::Scope::kJob;

// What an iteration gives next, once it does not wait any more.
Result<Iteration::Step> StepOf(Iteration& iteration) {
  while (true) {
    Result<Iteration::Step> step = iteration.Next(milliseconds(10));
    if (!step.ok() || !std::holds_alternative<Iteration::Waiting>(*step)) return step;
  }
}

std::vector<int64_t> TakeAll(Iteration& iteration, size_t most = 1000) {
  std::vector<int64_t> all;
  while (all.size() < most) {
    const Iteration::Step step = StepOf(iteration).value();
    const auto* element = std::get_if<Iteration::Element>(&step);
    if (element == nullptr) break;
    for (const int64_t number : NumbersOf(*element->batch, element->first, element->end)) all.push_back(number);
  }
  return all;
}

// Iterations over `read`, and how often it was joined.
struct Counted {
  template <class Read>
  Counted(Kind kind, Read read)
      : all(std::make_shared<Iterations>(kind, Iterations::Join([this, read]() -> Result<std::shared_ptr<Reader>> {
                                           ++joins;
                                           return read();
                                         }),
                                         kJob)) {}
  std::atomic<int> joins = 0;
  std::shared_ptr<Iterations> all;
};

TEST(Iterations, ElementsAreBatchesOrRows) {
  for (const int64_t batch : {0, 2}) {
    Counted counted(Kind::kAlone, [batch] { return ReadNumbers(5, batch); });
    Iteration iteration(counted.all);
    const Iteration::Step first = StepOf(iteration).value();
    const auto& element = std::get<Iteration::Element>(first);
    EXPECT_EQ(element.batched, batch > 0);
    EXPECT_EQ(element.end - element.first, batch > 0 ? 2u : 1u);
    EXPECT_EQ(TakeAll(iteration).size(), batch > 0 ? 3u : 4u);
    EXPECT_TRUE(std::holds_alternative<Iteration::Ended>(StepOf(iteration).value())) << "and stays so";
  }
}

TEST(Iterations, AnErrorIsSaidOnceAndTheIterationIsAtItsEnd) {
  const BrokenFile broken;
  Counted counted(Kind::kAlone, [&broken] { return broken.Read(); });
  Iteration iteration(counted.all);
  EXPECT_EQ(StepOf(iteration).status().code(), Code::kData);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(std::holds_alternative<Iteration::Ended>(StepOf(iteration).value()));
}

TEST(Iterations, AnErrorOfTheJoinIsSaidOnceToo) {
  auto all = std::make_shared<Iterations>(
      Kind::kShared, []() -> Result<std::shared_ptr<Reader>> { return Status(Code::kUnavailable, "nobody is there"); }, kJob);
  Iteration iteration(all);
  EXPECT_THAT(StepOf(iteration).status().message(), HasSubstr("nobody is there"));
  EXPECT_TRUE(std::holds_alternative<Iteration::Ended>(StepOf(iteration).value()));
}

TEST(Iterations, ThoseOfASharedJobAreItsEpochsOneAfterTheOther) {
  Counted counted(Kind::kShared, [] { return ReadNumbers(4, 2); });
  Iteration older(counted.all);
  EXPECT_THAT(TakeAll(older, 2), ElementsAre(0, 1));
  Iteration newer(counted.all);
  EXPECT_THAT(TakeAll(newer, 2), ElementsAre(0, 1));
  EXPECT_THAT(StepOf(older).status().message(), HasSubstr("another iteration"));
  EXPECT_THAT(TakeAll(newer), ElementsAre(2, 3));
  EXPECT_EQ(counted.joins, 1);
}

TEST(Iterations, ThoseThatAreAloneGoOnSideBySideAndTakeUpAReaderThatNoOtherReads) {
  Counted counted(Kind::kAlone, [] { return ReadNumbers(4, 2); });
  {
    Iteration one(counted.all);
    Iteration other(counted.all);
    EXPECT_THAT(TakeAll(one, 2), ElementsAre(0, 1));
    EXPECT_THAT(TakeAll(other), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(TakeAll(one), ElementsAre(2, 3));
    EXPECT_EQ(counted.joins, 2);
  }
  Iteration third(counted.all);
  EXPECT_THAT(TakeAll(third), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(counted.joins, 2);
}

TEST(Iterations, AReaderThatFailedIsNotTakenUpAgain) {
  const BrokenFile broken;
  Counted counted(Kind::kAlone, [&broken] { return broken.Read(); });
  for (int i = 0; i < 2; ++i) {
    Iteration iteration(counted.all);
    EXPECT_FALSE(StepOf(iteration).ok());
  }
  EXPECT_EQ(counted.joins, 2);
}

TEST(Iterations, AnIterationGoesOnWhereAnotherWasSaved) {
  Counted counted(Kind::kAlone, [] { return ReadNumbers(5); });
  Iteration iteration(counted.all);
  EXPECT_EQ(iteration.Save().value(), "") << "before its first element";
  TakeAll(iteration, 2);
  const std::string state = iteration.Save().value();
  TakeAll(iteration);
  const std::string ended = iteration.Save().value();

  Iteration resumed(counted.all);
  ASSERT_TRUE(resumed.Restore(state).ok());
  EXPECT_THAT(TakeAll(resumed), ElementsAre(2, 3, 4));
  ASSERT_TRUE(resumed.Restore(ended).ok());
  EXPECT_TRUE(TakeAll(resumed).empty());
  EXPECT_EQ(resumed.Save().value(), ended);
  EXPECT_EQ(resumed.Restore("what is this").code(), Code::kInvalid);
}

TEST(Iterations, OneThatIsGivenUpWhileItJoinsReadsNoEpoch) {
  std::promise<std::shared_ptr<Reader>> arrives;
  auto joined = arrives.get_future().share();
  Counted counted(Kind::kShared, [joined] { return joined.get(); });
  {
    Iteration given_up(counted.all);
    EXPECT_TRUE(std::holds_alternative<Iteration::Waiting>(given_up.Next(milliseconds(1)).value()));
  }
  const std::shared_ptr<Reader> reader = ReadNumbers(4, 2);
  arrives.set_value(reader);
  Iteration iteration(counted.all);
  EXPECT_THAT(TakeAll(iteration), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(reader->epoch(), Epoch{0});
}

TEST(Iterations, OffersLiveAsLongAsSomebodyHoldsThem) {
  auto offered = std::make_shared<Iterations>(std::make_shared<Epochs>(ReadNumbers(1)), kJob);
  Offer("numbers", offered);
  EXPECT_EQ(FindOffered("numbers"), offered);
  EXPECT_EQ(FindOffered("others"), nullptr);
  offered.reset();
  EXPECT_EQ(FindOffered("numbers"), nullptr);
}

}  // namespace
}  // namespace penstock
