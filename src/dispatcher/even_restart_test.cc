// A rank of a shared job that ends at one step is started anew alone: the steps that its seat had before count.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

using std::chrono::seconds;

// Two declared consumers, batches of 4 rows; the second one is lost.
class EvenRestartTest : public testing::Test {
 protected:
  void Start(uint32_t lanes, Even how = Even::kAuto, bool drop_remainder = false) {
    layout = LayoutOf(lanes);
    layout.drop_remainder = drop_remainder;
    even = how;
    h.AddWorker(1);
    a.emplace(h.JoinOk(Of(1, 0), layout));
    b.emplace(h.JoinOk(Of(2, 1), layout));
    for (Scripted* reader : {&*a, &*b}) reader->Hold(h, 1);
  }
  msg::Join Of(uint64_t incarnation, uint32_t index) {
    msg::Join join = h.JoinOf(incarnation);
    join.consumers = 2;
    join.index = index;
    join.epochs = 2;
    join.even = even;
    join.on_restart = OnRestart::kContinue;
    return join;
  }
  // Its loop came back for more after all of them.
  void Had(Scripted& reader, uint64_t batches, uint64_t ready) {
    reader.beat.tag += batches - std::min(batches, reader.beat.batches);
    reader.beat.batches = batches;
    reader.beat.ready_batches = ready;
    reader.Hold(h, 0);
  }
  // The lease of all but the first ends.
  void OnlyFirstLives() {
    for (int second = 0; second < 16; ++second) {
      h.Pass(seconds(1));
      a->Say(h);
    }
  }
  // It gives back its only grant at `upto`.
  void Leaves(Scripted& reader, Cursor upto, bool ended) {
    const msg::Grant& grant = reader.reply.grants.at(0);
    h.Say(SessionId{Raw(reader.beat.consumer)},
          msg::Leave{reader.beat.job, reader.beat.consumer, {}, {{grant.range.lane, grant.range.from, grant.fence, upto, ended}}});
  }
  Scripted StartAnew(uint64_t incarnation = 3, uint32_t index = 1) {
    Scripted anew(h.JoinOk(Of(incarnation, index), layout));
    anew.beat.tag = anew.Hold(h, 0).first_tag;
    return anew;
  }
  // No lane of the reader goes on: batches of its own start, and rows of each lane on its shelf.
  static void Ended(CoreHarness& h, Scripted& reader, uint64_t batches, uint64_t rows) {
    reader.beat.holds.clear();
    for (const msg::Grant& grant : reader.reply.grants) {
      reader.beat.holds.push_back({grant.range.lane, grant.range.from, grant.fence, {grant.range.from.seq + 1, 0}, false, rows, true});
    }
    reader.beat.batches = batches;
    reader.beat.ready_batches = rows / 4 * reader.reply.grants.size();
    reader.beat.idle = rows < 4;
    reader.Say(h);
  }
  // All that it was granted was delivered, to the end of each lane, and its loop waits for END.
  static void Through(CoreHarness& h, Scripted& reader, uint64_t batches) {
    reader.beat.batches = reader.beat.tag = batches;
    reader.beat.ready_batches = 0;
    reader.beat.finished.clear();
    for (const msg::Grant& grant : std::exchange(reader.reply.grants, {})) {
      reader.beat.finished.push_back({grant.range.lane, grant.range.from, grant.fence, {20, 0}, true});
    }
    reader.Hold(h, 1, true);
    reader.beat.finished.clear();
  }
  void TearDown() override { EXPECT_EQ(h.core->TakeSnapshot(), h.stored); }

  CoreHarness h;
  Layout layout;
  Even even = Even::kAuto;
  std::optional<Scripted> a, b;
};

TEST_F(EvenRestartTest, TheOthersWaitForItWhereItsSeatWasAndNotAtTheEpochsStart) {
  Start(2);
  Had(*a, 7, 3);
  Had(*b, 5, 2);
  OnlyFirstLives();
  Scripted anew = StartAnew();
  ASSERT_EQ(anew.reply.grants.size(), 1u);
  EXPECT_EQ(anew.reply.limit, 0u) << "none of its own beyond the five before it";
  EXPECT_EQ(a->Say(h).limit, 5u);
  Had(anew, 0, 2);
  EXPECT_EQ(anew.reply.limit, 2u);
  EXPECT_EQ(a->Say(h).limit, 7u);
}

TEST_F(EvenRestartTest, ABatchThatTheLostLoopHadInItsHandsIsAStepOfTheNewOne) {
  Start(2);
  Had(*a, 7, 3);
  Had(*b, 4, 3);
  b->beat.batches = 5;
  b->Say(h);
  OnlyFirstLives();
  Scripted anew = StartAnew();
  EXPECT_EQ(anew.reply.first_tag, 4u);
  Had(anew, 0, 3);
  EXPECT_EQ(anew.reply.limit, 3u);
  EXPECT_EQ(a->Say(h).limit, 7u);
}

TEST_F(EvenRestartTest, ItGetsWhatIsLeftOfTheSteps) {
  Start(2);
  Had(*a, 7, 0);
  Had(*b, 5, 2);
  OnlyFirstLives();
  Scripted anew = StartAnew();
  Had(anew, 1, 0);
  Ended(h, *a, 7, 8);
  Ended(h, anew, 1, 12);
  EXPECT_EQ(anew.reply.steps, 4u) << "of 9: 18 batches are there in all";
  EXPECT_EQ(a->Say(h).steps, 9u);
  h.Restart();
  EXPECT_EQ(anew.Say(h).steps, 4u) << "what was told stays";
}

TEST_F(EvenRestartTest, ItKeepsItsLanesWhereTheOthersHaveHadAllTheirSteps) {
  Start(4);
  for (int more = 0; more < 2; ++more) b->Hold(h, 1);
  ASSERT_EQ(b->reply.grants.size(), 3u);
  b->beat.tag = 3;
  Ended(h, *a, 7, 8);
  Ended(h, *b, 3, 8);
  ASSERT_EQ(a->Say(h).steps, 9u);
  OnlyFirstLives();
  Through(h, *a, 9);
  ASSERT_FALSE(a->reply.end) << "one is not heard of";
  Scripted anew = StartAnew();
  EXPECT_EQ(anew.reply.steps, 6u);
  EXPECT_EQ(anew.reply.grants.size(), 3u);
  EXPECT_TRUE(anew.reply.revoke.empty()) << "the other has had fewer lanes, but has no step left for one more";
  Through(h, anew, 6);
  EXPECT_TRUE(anew.reply.end);
}

TEST_F(EvenRestartTest, TheStepsOfAllStartsBeforeItCountAndASecondDispatcherKnowsThem) {
  Start(2);
  Had(*a, 7, 3);
  Had(*b, 2, 5);
  OnlyFirstLives();
  Scripted second = StartAnew(3);
  h.Restart();
  a->Say(h);
  Had(second, 3, 2);
  OnlyFirstLives();
  Scripted third = StartAnew(4);
  Had(third, 0, 3);
  EXPECT_EQ(third.reply.limit, 3u);
  EXPECT_EQ(a->Say(h).limit, 8u);
}

TEST_F(EvenRestartTest, ADispatcherThatWasStartedAnewKnowsTheStepsOfOneThatDiedMeanwhile) {
  Start(4);
  Had(*a, 7, 3);
  b->beat.batches = b->beat.tag = 5;
  b->Finish(h, b->reply.grants.at(0), {20, 0}, true, 1, false);
  ASSERT_EQ(b->reply.grants.size(), 1u);
  h.Restart();
  OnlyFirstLives();
  for (int beats = 0; beats < 3; ++beats) a->Hold(h, 1);  // all lanes are out
  Scripted anew = StartAnew();
  Had(anew, 0, 1);
  EXPECT_EQ(anew.reply.limit, 1u);
  EXPECT_EQ(a->Say(h).limit, 6u);
}

TEST_F(EvenRestartTest, ADispatcherThatWasStartedAnewGivesItTheRowsThatItsStepsLeave) {
  Start(4);
  b->Hold(h, 1);
  ASSERT_EQ(b->reply.grants.size(), 2u);
  const msg::Grant ended = b->reply.grants[0];
  const msg::Grant open = b->reply.grants[1];
  b->beat.batches = b->beat.tag = 7;
  b->beat.holds = {{open.range.lane, open.range.from, open.fence, {8, 0}, true, 0}};
  b->beat.finished = {{ended.range.lane, ended.range.from, ended.fence, {20, 0}, true}};
  b->Say(h);
  h.Restart();
  OnlyFirstLives();
  const Scripted anew = StartAnew();
  ASSERT_EQ(anew.reply.grants.size(), 1u);
  EXPECT_EQ(anew.reply.first_tag, 7u);
  EXPECT_EQ(anew.reply.grants[0].range.from, (Cursor{8, 0})) << "5 batches of the one lane, 2 of the other";
}

TEST_F(EvenRestartTest, AnEpochWhoseLastRowsCameWhileOneWasNotHeardOfEndsForAllWhereThatOneIs) {
  Start(2);
  Had(*a, 3, 0);
  Through(h, *b, 5);
  OnlyFirstLives();
  h.Restart();
  Through(h, *a, 3);
  EXPECT_TRUE(a->reply.end);
  EXPECT_EQ(a->reply.steps, 5u) << "nothing more can come to anybody: there is nothing to wait for";
  b->Say(h);
  EXPECT_TRUE(b->reply.end);
  EXPECT_EQ(b->reply.steps, 5u);
}

TEST_F(EvenRestartTest, OneThatLeftAndIsStartedAnewGoesOnAtItsStep) {
  Start(2);
  Had(*a, 7, 3);
  Had(*b, 5, 2);
  h.Say(SessionId{2}, msg::Leave{b->beat.job, b->beat.consumer, {}, {}});
  h.Restart();
  a->Say(h);
  Scripted anew = StartAnew();
  Had(anew, 0, 1);
  EXPECT_EQ(anew.reply.limit, 1u);
  EXPECT_EQ(a->Say(h).limit, 6u);
}

TEST_F(EvenRestartTest, WherePaddingNeedsABatchToRepeatOneThatHasNoneIsGivenARow) {
  Start(2, Even::kPad);
  Had(*a, 7, 0);
  Had(*b, 7, 0);
  Leaves(*b, {28, 0}, true);
  Scripted anew = StartAnew();
  ASSERT_TRUE(anew.reply.grants.empty());
  Ended(h, *a, 7, 3);
  ASSERT_EQ(a->reply.revoke.size(), 1u) << "31 rows and 28 make eight steps for each";
  EXPECT_EQ(a->reply.steps, msg::kNoLimit);
  a->Finish(h, a->reply.grants.at(0), {28, 0}, false, 0, false);
  anew.Hold(h, 0);
  ASSERT_EQ(anew.reply.grants.size(), 1u);
  EXPECT_EQ(anew.reply.grants[0].range.to, 29u) << "one is enough";
  Ended(h, *a, 7, 2);
  Ended(h, anew, 0, 1);
  ASSERT_EQ(a->Say(h).revoke.size(), 1u) << "one short batch for both is enough, too";
  a->Finish(h, a->reply.grants.at(0), {29, 0}, false, 0, false);
  anew.Hold(h, 0);
  ASSERT_EQ(anew.reply.grants.size(), 2u);
  Ended(h, anew, 0, 1);
  EXPECT_EQ(anew.reply.steps, 1u);
  EXPECT_EQ(a->Say(h).steps, 8u);
}

TEST_F(EvenRestartTest, WhereShortBatchesAreDroppedItIsGivenAWholeOne) {
  Start(2, Even::kPad, true);
  Had(*a, 7, 0);
  Had(*b, 7, 0);
  Leaves(*b, {28, 0}, true);
  Scripted anew = StartAnew();
  for (const uint64_t rows : {6, 4}) {
    Ended(h, *a, 7, rows);
    if (rows == 4) Ended(h, anew, 0, 2);
    ASSERT_EQ(a->Say(h).revoke.size(), 1u) << "two rows make no batch";
    const msg::Grant lane = a->reply.revoke[0];
    a->Finish(h, lane, lane.range.from.seq == 0 ? Cursor{28, 0} : lane.range.from, false, 0, false);
    anew.Say(h);
  }
  ASSERT_EQ(anew.reply.grants.size(), 2u);
  EXPECT_EQ(anew.reply.grants[0].range.to, 30u);
  EXPECT_EQ(anew.reply.grants[1].range.to, 32u);
  Ended(h, *a, 7, 2);
  Ended(h, anew, 0, 2);
  EXPECT_EQ(anew.reply.steps, 1u);
  EXPECT_EQ(a->Say(h).steps, 8u);
}

TEST_F(EvenRestartTest, WhereNobodyHasARowToGiveToOneWithoutABatchToRepeatThereIsNoStepMore) {
  Start(2, Even::kPad);
  Had(*a, 7, 0);
  Had(*b, 7, 0);
  Leaves(*b, {28, 0}, true);
  Leaves(*a, {28, 0}, false);
  Scripted first = StartAnew(3, 0);
  for (int beats = 0; beats < 2; ++beats) first.Hold(h, 1);
  ASSERT_EQ(first.reply.grants.size(), 2u);
  first.Finish(h, first.reply.grants.at(1), {44, 0}, true, 0, false);
  Scripted second = StartAnew(4, 1);
  Ended(h, first, 0, 1);
  EXPECT_EQ(second.Say(h).steps, 0u) << "of seven, which all have had";
  EXPECT_EQ(first.Say(h).steps, 0u);
}

TEST_F(EvenRestartTest, TheNextEpochIsItsOwn) {
  Start(2);
  Had(*a, 7, 0);
  Had(*b, 5, 2);
  OnlyFirstLives();
  Scripted anew = StartAnew();
  for (Scripted* reader : {&*a, &anew}) {
    reader->beat.epoch = Epoch{1};
    Had(*reader, 0, 0);
    reader->beat.holds.clear();
    reader->beat.finished.clear();
    for (const msg::Grant& grant : reader->reply.grants) {
      reader->beat.finished.push_back({grant.range.lane, grant.range.from, grant.fence, grant.range.from, false});
    }
    reader->Say(h);
    reader->beat.finished.clear();
  }
  for (int beats = 0; beats < 2; ++beats) {
    for (Scripted* reader : {&*a, &anew}) reader->Hold(h, 1);
  }
  Had(*a, 1, 3);
  Had(anew, 1, 2);
  EXPECT_EQ(anew.reply.epoch, Epoch{1});
  EXPECT_EQ(anew.reply.limit, 3u);
}

TEST_F(EvenRestartTest, ItsTagsGoOnInEveryEpochAndAfterARestartOfTheDispatcher) {
  Start(2);
  Had(*b, 5, 2);
  OnlyFirstLives();
  Scripted anew = StartAnew();
  EXPECT_EQ(anew.reply.first_tag, 5u);
  EXPECT_EQ(a->Say(h).first_tag, 0u);
  h.Restart();
  anew.beat.epoch = Epoch{1};
  EXPECT_EQ(anew.Say(h).first_tag, 5u);
}

}  // namespace
}  // namespace penstock::dispatcher
