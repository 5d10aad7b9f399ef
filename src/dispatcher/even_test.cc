// Consumers of a shared job end an epoch at one step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

using testing::HasSubstr;

// Two declared consumers, two lanes, batches of 4 rows.
class EvenTest : public testing::Test {
 protected:
  void Start(Even even = Even::kAuto, uint32_t lanes = 2, uint32_t consumers = 2, uint32_t epochs = 1) {
    h.AddWorker(1);
    Layout layout = LayoutOf(lanes);
    layout.drop_remainder = drop_remainder;
    for (uint32_t i = 0; i < consumers; ++i) {
      msg::Join join = h.JoinOf(1 + i);
      join.consumers = consumers;
      join.index = i;
      join.even = even;
      join.epochs = epochs;
      readers.emplace_back(h.JoinOk(join, layout));
    }
  }
  // The lanes of a reader have ended; these are left: batches that it has, and rows on the shelf of each grant.
  msg::BeatReply Ended(Scripted& reader, uint64_t batches, const std::vector<uint64_t>& rows) {
    msg::Beat& beat = reader.beat;
    beat.batches = batches;
    beat.ready_batches = 0;
    beat.holds.clear();
    for (size_t i = 0; i < reader.reply.grants.size(); ++i) {
      const msg::Grant& grant = reader.reply.grants[i];
      beat.holds.push_back({grant.range.lane, grant.range.from, grant.fence, {grant.range.from.seq + 1, 0}, false, rows.at(i), true});
      beat.ready_batches += rows.at(i) / 4;
    }
    beat.want = 6;
    beat.idle = beat.ready_batches == 0;
    return reader.Say(h);
  }
  void TearDown() override { EXPECT_EQ(h.core->TakeSnapshot(), h.stored); }

  CoreHarness h;
  std::vector<Scripted> readers;
  bool drop_remainder = false;
};

TEST_F(EvenTest, NobodyIsHeldUpBeforeAllLanesWereGranted) {
  Start();
  EXPECT_EQ(readers[0].Hold(h, 1).limit, msg::kNoLimit);
  readers[1].Hold(h, 1);
  EXPECT_NE(readers[0].Hold(h, 1).limit, msg::kNoLimit);
}

TEST_F(EvenTest, AllGoAsFarAsTheOneThatCanComeLeastFar) {
  Start();
  for (Scripted& reader : readers) reader.Hold(h, 1);
  for (Scripted& reader : readers) reader.Hold(h, 0);
  readers[0].beat.batches = 3;
  readers[0].beat.ready_batches = 4;
  readers[0].Say(h);
  readers[1].beat.batches = 3;
  readers[1].beat.ready_batches = 1;
  EXPECT_EQ(readers[1].Say(h).limit, 4u);
  EXPECT_EQ(readers[1].reply.steps, msg::kNoLimit) << "lanes still go on";
  readers[0].beat.batches = 4;
  readers[0].Say(h);
  EXPECT_THAT(readers[0].reply.waiting_for, HasSubstr("one step"));
}

TEST_F(EvenTest, TheNumberOfStepsIsFinalWhenNothingMoreCanBecomeReady) {
  Start();
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 2, {5});
  h.pushed.clear();
  Ended(readers[1], 2, {8});
  EXPECT_EQ(readers[1].reply.steps, 3u);
  ASSERT_FALSE(h.pushed.empty()) << "the other is told at once";
  EXPECT_EQ(std::get<msg::BeatReply>(h.pushed.back().message).steps, 3u);
  EXPECT_FALSE(readers[1].reply.end) << "it has rows to deliver";
  h.Restart();
  EXPECT_EQ(Ended(readers[0], 3, {1}).steps, 3u) << "what was told stays";
}

TEST_F(EvenTest, PaddingGoesToTheOneThatComesFurthest) {
  Start(Even::kPad);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 2, {5});
  Ended(readers[1], 2, {8});
  EXPECT_EQ(readers[1].reply.steps, 4u);
}

TEST_F(EvenTest, PaddingMakesWholeBatchesOfWhatIsLessThanOneInSeveralPlaces) {
  for (const bool dropped : {false, true}) {
    h = CoreHarness();
    readers.clear();
    drop_remainder = dropped;
    Start(Even::kPad);
    for (Scripted& reader : readers) reader.Hold(h, 1);
    Ended(readers[0], 2, {3});
    Ended(readers[1], 2, {3});
    ASSERT_EQ(readers[1].reply.revoke.size(), 1u) << "22 rows make five batches and a short one, not four and two short ones";
    EXPECT_EQ(readers[1].reply.steps, msg::kNoLimit);
    readers[1].Finish(h, readers[1].reply.revoke[0], {1, 0}, false, 0, true);
    readers[0].reply = std::get<msg::BeatReply>(h.pushed.back().message);
    ASSERT_EQ(readers[0].reply.grants.size(), 2u);
    EXPECT_EQ(readers[0].reply.grants[1].range.to, 2u) << "one row is what it lacks";
    Ended(readers[1], 2, {2});
    readers[0].beat.ready_batches = 1;
    Ended(readers[0], 2, {3, 1});
    EXPECT_TRUE(readers[0].reply.revoke.empty());
    EXPECT_EQ(readers[0].reply.steps, 3u);
  }
}

TEST_F(EvenTest, OfTwoWithoutABatchToRepeatOneGivesTheOtherWhatItLacksAndKeepsARow) {
  Start(Even::kPad);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 0, {3});
  Ended(readers[1], 0, {2});
  ASSERT_EQ(readers[1].reply.revoke.size(), 1u) << "5 rows make one short batch, not two";
  readers[1].Finish(h, readers[1].reply.revoke[0], {1, 0}, false, 0, true);
  readers[0].reply = std::get<msg::BeatReply>(h.pushed.back().message);
  Ended(readers[1], 0, {1});
  readers[0].beat.ready_batches = 1;
  Ended(readers[0], 0, {3, 1});
  EXPECT_EQ(readers[0].reply.steps, 1u);
}

TEST_F(EvenTest, TwoThatKeepTheirLastRowsDoNotPassARowToAndFro) {
  Start(Even::kPad, 3);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  readers[0].Hold(h, 1);
  ASSERT_EQ(readers[0].reply.grants.size(), 2u);
  Ended(readers[0], 0, {1, 1});
  Ended(readers[1], 0, {1});
  EXPECT_TRUE(readers[1].reply.revoke.empty());
  EXPECT_EQ(readers[1].reply.steps, 1u) << "no row makes another batch whole";
}

TEST_F(EvenTest, WhereShortBatchesAreDroppedPaddingHasNoStepForOne) {
  drop_remainder = true;
  Start(Even::kPad);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 2, {1});
  EXPECT_EQ(Ended(readers[1], 2, {0}).steps, 2u) << "all would repeat their last batch";
}

TEST_F(EvenTest, WhereFewerRowsThanLoopsAreLeftPaddingHasNothingToRepeatAndTheyAreDropped) {
  Start(Even::kPad);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 0, {1});
  EXPECT_EQ(Ended(readers[1], 0, {0}).steps, 0u);
}

TEST_F(EvenTest, WhatALoopAlreadyHasIsNotTakenFromIt) {
  Start();
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 2, {0});
  Ended(readers[1], 5, {0});
  EXPECT_EQ(readers[1].reply.steps, 5u) << "the other is padded";
}

TEST_F(EvenTest, TheOneThatIsAheadGivesOfItsReadyBatches) {
  Start(Even::kAuto, 4);
  for (int beats = 0; beats < 3; ++beats) {
    for (Scripted& reader : readers) reader.Hold(h, 2);
  }
  ASSERT_EQ(readers[0].reply.grants.size(), 2u);
  ASSERT_EQ(readers[1].reply.grants.size(), 2u);
  Ended(readers[0], 1, {0, 2});
  Ended(readers[1], 1, {24, 8});
  EXPECT_EQ(readers[1].reply.steps, msg::kNoLimit);
  ASSERT_EQ(readers[1].reply.revoke.size(), 1u) << "6 batches would leave it with 2 and the other with 6; 2 leave 6 and 2: either evens out by 4";
}

TEST_F(EvenTest, WhereTheOneThatIsFurthestHasNothingToGiveTheNextDoes) {
  Start(Even::kAuto, 3, 3);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 0, {0});
  Ended(readers[2], 0, {16});
  ASSERT_EQ(readers[1].reply.grants.size(), 1u);
  const msg::Grant grant = readers[1].reply.grants[0];
  readers[1].beat.holds = {{grant.range.lane, grant.range.from, grant.fence, grant.range.from, true, 12}};
  readers[1].beat.ready_batches = 3;
  EXPECT_EQ(readers[1].Say(h).revoke.size(), 1u) << "all four batches of the third would only change who has none";
}

// Its memory may be full of what it may not deliver yet: it would not come to the lane before the other has come further.
TEST_F(EvenTest, ALaneThatGivesNothingToOneThatIsAStepAheadGoesToTheOneThatWaits) {
  Start(Even::kAuto, 4);
  for (int beats = 0; beats < 3; ++beats) {
    for (Scripted& reader : readers) reader.Hold(h, 2);
  }
  msg::Beat& beat = readers[0].beat;
  beat.holds[0].ended = true;
  beat.holds[0].ready_rows = 4;
  beat.batches = beat.ready_batches = 1;
  readers[0].Say(h);
  Ended(readers[1], 1, {0, 0});
  ASSERT_EQ(readers[0].Say(h).revoke.size(), 1u);
  EXPECT_EQ(readers[0].reply.revoke[0], readers[0].reply.grants[1]);
}

TEST_F(EvenTest, OneLongLaneIsDealtSoThatBothComeAsFar) {
  Start();
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 1, {2});
  Ended(readers[1], 1, {40});
  ASSERT_EQ(readers[1].reply.revoke.size(), 1u) << "all it has ahead is this lane";
  const msg::Grant lane = readers[1].reply.revoke[0];
  h.pushed.clear();
  readers[1].beat.ready_batches = 0;
  readers[1].Finish(h, lane, {4, 0}, false, 6, true);
  ASSERT_FALSE(h.pushed.empty());
  const auto first = std::get<msg::BeatReply>(h.pushed.back().message).grants;
  ASSERT_EQ(first.size(), 2u) << "its own tail, and a piece";
  EXPECT_EQ(first[1].range.to - first[1].range.from.seq, 18u) << "50 rows make 6 steps of 4 for both, and it has 6 rows";
  ASSERT_EQ(readers[1].reply.grants.size(), 1u) << "the rest goes back";
  EXPECT_EQ(readers[1].reply.grants[0].range.from.seq, first[1].range.to);
}

// The first lacks 4 rows, and is dealt 4 source rows of the second's lane.
class EvenDealTest : public EvenTest {
 protected:
  EvenDealTest() {
    Start();
    for (Scripted& reader : readers) reader.Hold(h, 1);
    Ended(readers[0], 1, {0});
    Ended(readers[1], 1, {8});
    GivesUp(readers[1], {4, 0});
  }
  // Of its grant that begins there.
  static uint64_t SourceRows(const Scripted& reader, Seq from) {
    for (const msg::Grant& grant : reader.reply.grants) {
      if (grant.range.from.seq == from) return grant.range.to - from;
    }
    return 0;
  }
  void GivesUp(Scripted& reader, Cursor at) {
    ASSERT_EQ(reader.reply.revoke.size(), 1u);
    const msg::Grant lane = reader.reply.revoke[0];
    h.pushed.clear();
    reader.beat.ready_batches = 0;
    reader.Finish(h, lane, at, false, 6, true);
    ASSERT_FALSE(h.pushed.empty());
    Scripted& other = &reader == &readers[0] ? readers[1] : readers[0];
    other.reply = std::get<msg::BeatReply>(h.pushed.back().message);
  }
};

TEST_F(EvenDealTest, OfRowsThatCameFromFewSourceRowsLessIsMovedEachTime) {
  ASSERT_EQ(SourceRows(readers[0], 4), 4u);
  Ended(readers[0], 1, {0, 8});
  Ended(readers[1], 1, {0});
  readers[0].Say(h);
  GivesUp(readers[0], {4, 0});
  EXPECT_LT(SourceRows(readers[1], 4), 4u) << "all four would only change who has too much";
}

TEST_F(EvenDealTest, APieceThatGoesOnAndIsAllThatIsLeftIsHalved) {
  Ended(readers[1], 1, {0});
  readers[0].beat.holds.clear();
  for (const msg::Grant& grant : readers[0].reply.grants) {
    const bool piece = grant.range.from.seq == 4;
    readers[0].beat.holds.push_back({grant.range.lane, grant.range.from, grant.fence, grant.range.from, piece, piece ? 8u : 0u, !piece});
  }
  readers[0].beat.ready_batches = 2;
  readers[0].Say(h);
  GivesUp(readers[0], {4, 0});
  EXPECT_EQ(SourceRows(readers[1], 4), 2u);
  EXPECT_EQ(SourceRows(readers[0], 6), 2u);
}

// It would go back to the one that gave it up, be called back again, and so on for ever.
TEST_F(EvenTest, WhatComesBackWhileADealIsOnItsWayIsNoPartOfIt) {
  Start(Even::kAuto, 3, 3);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 1, {0});
  Ended(readers[2], 1, {4});
  Ended(readers[1], 1, {16});
  ASSERT_EQ(readers[1].reply.revoke.size(), 1u) << "32 rows make two steps for all, and the first lacks four rows";
  const msg::Grant lane = readers[1].reply.revoke[0];
  h.Say(SessionId{3}, msg::Leave{readers[2].beat.job, readers[2].beat.consumer, {}, {}});
  h.pushed.clear();
  readers[1].beat.ready_batches = 0;
  readers[1].Finish(h, lane, {4, 0}, false, 6, true);
  ASSERT_FALSE(h.pushed.empty());
  const auto dealt = std::get<msg::BeatReply>(h.pushed.back().message).grants;
  const msg::Range piece{lane.range.lane, {4, 0}, 8};
  EXPECT_TRUE(std::any_of(dealt.begin(), dealt.end(), [&](const msg::Grant& grant) { return grant.range == piece; }));
}

TEST_F(EvenTest, AfterTheStepsAreKnownTailsStayAndTheEpochEndsWithTheLastOfThem) {
  Start();
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 2, {3});
  Ended(readers[1], 2, {3});
  ASSERT_EQ(readers[1].reply.steps, 2u);
  EXPECT_TRUE(readers[1].reply.revoke.empty());
  h.Say(SessionId{1}, msg::Leave{readers[0].beat.job, readers[0].beat.consumer, {}, {}});
  readers[1].Finish(h, readers[1].reply.grants.at(0), {9, 0}, true, 0, true);
  EXPECT_TRUE(readers[1].reply.epoch_done) << "what the other left is dropped";
}

TEST_F(EvenTest, ADeclaredConsumerThatNeverCameIsWaitedFor) {
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.consumers = 2;
  Scripted alone(h.JoinOk(join, LayoutOf(2)));
  EXPECT_EQ(alone.Hold(h, 1).limit, 0u) << "a lane is left";
  for (int beats = 0; beats < 3; ++beats) alone.Hold(h, 2);
  EXPECT_EQ(alone.reply.limit, 0u);
  EXPECT_THAT(alone.reply.waiting_for, HasSubstr("consumers 1 of 2 have joined"));
  join = h.JoinOf(2);
  join.consumers = 2;
  join.index = 1;
  Scripted late(h.JoinOk(join, LayoutOf(2)));
  EXPECT_EQ(late.Hold(h, 1).waiting_for.find("joined"), std::string::npos);
}

TEST_F(EvenTest, OneThatIsStillInTheEpochBeforeIsWaitedFor) {
  Start(Even::kAuto, 4, 2, 2);
  for (int beats = 0; beats < 3; ++beats) {
    for (Scripted& reader : readers) reader.Hold(h, 2);
  }
  const auto goes_on = [&](Scripted& reader) {
    reader.beat.epoch = Epoch{1};
    return reader.Hold(h, 1);
  };
  EXPECT_EQ(goes_on(readers[0]).limit, 0u) << "lanes are left, but not for long";
  goes_on(readers[1]);
  EXPECT_EQ(readers[0].Hold(h, 0).limit, msg::kNoLimit);
}

TEST_F(EvenTest, OneThatLeavesBeforeItsFirstBatchIsNotWaitedFor) {
  Start(Even::kAuto, 4);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  h.Say(SessionId{2}, msg::Leave{readers[1].beat.job, readers[1].beat.consumer, {}, {}});
  EXPECT_EQ(readers[0].Hold(h, 1).limit, msg::kNoLimit);
}

TEST_F(EvenTest, WhereLanesAreGrantedInRangesNobodyRunsAheadFromTheStart) {
  Start(Even::kPad, 1);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  readers[0].beat.batches = 1;
  readers[0].beat.ready_batches = 7;
  readers[0].Say(h);
  readers[1].beat.ready_batches = 2;
  EXPECT_EQ(readers[1].Say(h).limit, 2u);
  EXPECT_EQ(readers[1].reply.steps, msg::kNoLimit) << "the lane has not ended";
}

TEST_F(EvenTest, AQuickLoopGetsNoMoreThanItsPart) {
  Start(Even::kAuto, 6);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Scripted& quick = readers[0];
  for (uint64_t lanes = 1; lanes <= 2; ++lanes) {
    quick.beat.batches = 10 * lanes;
    quick.Finish(h, quick.reply.grants.at(0), {40, 0}, true, 1, false);
    EXPECT_EQ(quick.reply.grants.size(), 1u) << "after lane " << lanes << " of three";
  }
  quick.beat.batches = 30;
  quick.Finish(h, quick.reply.grants.at(0), {40, 0}, true, 1, true);
  EXPECT_TRUE(quick.reply.grants.empty()) << "what is left is for the other";
  EXPECT_TRUE(quick.reply.revoke.empty());
  EXPECT_EQ(readers[1].Hold(h, 2).grants.size(), 3u);
}

TEST_F(EvenTest, ALaneWhoseLastRowsTheLoopHasIsNotWaitedFor) {
  Start();
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 2, {0});
  // Its loop has the one batch of its lane, and has not come back for more.
  const msg::Grant lane = readers[1].reply.grants.at(0);
  readers[1].beat.holds = {{lane.range.lane, lane.range.from, lane.fence, lane.range.from, false, 0, true}};
  readers[1].beat.batches = 3;
  EXPECT_EQ(readers[1].Say(h).steps, 3u);
}

TEST_F(EvenTest, OneWithoutARowIsGivenOneThoughTheOthersHaveNoneBeyondTheirSteps) {
  Start(Even::kAuto, 3, 3);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 0, {0});
  Ended(readers[1], 1, {8});
  Ended(readers[2], 3, {0});
  EXPECT_EQ(readers[2].reply.steps, msg::kNoLimit) << "the first has nothing to repeat yet";
  EXPECT_EQ(readers[1].Say(h).revoke.size(), 1u);
}

TEST_F(EvenTest, OneWithoutARowIsGivenOneAlsoByOneThatHasReadyRowsAloneAndKeepsSome) {
  Start(Even::kPad, 3, 3);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  Ended(readers[0], 0, {0});
  Ended(readers[1], 0, {8});
  Ended(readers[2], 3, {0});
  EXPECT_EQ(readers[2].reply.steps, msg::kNoLimit) << "the first has nothing to repeat yet, and the one that came furthest nothing to give";
  EXPECT_EQ(readers[1].Say(h).revoke.size(), 1u);
}

// The last source row that there can be in a lane became 8 rows, which are all that is left.
class EvenSourceRowTest : public EvenTest {
 protected:
  void Left(Even even) {
    Start(even);
    for (Scripted& reader : readers) reader.Hold(h, 1);
    Ended(readers[0], 0, {0});
    const msg::Grant lane = readers[1].reply.grants.at(0);
    readers[1].beat.holds = {{lane.range.lane, lane.range.from, lane.fence, {kLaneEnd - 1, 0}, false, 8, true}};
    readers[1].beat.ready_batches = 2;
    ASSERT_EQ(readers[1].Say(h).revoke.size(), 1u);
    h.pushed.clear();
    readers[1].beat.ready_batches = 0;
    readers[1].Finish(h, lane, {kLaneEnd - 1, 0}, false, 6, true);
    ASSERT_FALSE(h.pushed.empty());
    readers[0].reply = std::get<msg::BeatReply>(h.pushed.back().message);
  }
};

TEST_F(EvenSourceRowTest, TheRowsOfASourceRowAreDividedWhereEachLacksSome) {
  for (const Even even : {Even::kDrop, Even::kPad}) {
    h = CoreHarness();
    readers.clear();
    Left(even);
    ASSERT_EQ(readers[0].reply.grants.size(), 2u) << "its own lane, and what it was given";
    const LaneKey lane = readers[1].reply.grants.at(0).range.lane;
    EXPECT_EQ(readers[0].reply.grants[1].range, (msg::Range{lane, {kLaneEnd - 1, 0}, kLaneEnd, 4}));
    EXPECT_EQ(readers[1].reply.grants[0].range, (msg::Range{lane, {kLaneEnd - 1, 4}, kLaneEnd}));
    Ended(readers[0], 0, {0, 4});
    EXPECT_EQ(Ended(readers[1], 0, {4}).steps, 1u);
  }
}

TEST_F(EvenTest, OneAloneHasNobodyToEndWithAndLosesNothing) {
  Start(Even::kDrop, 1, 1);
  readers[0].Hold(h, 1);
  EXPECT_EQ(Ended(readers[0], 2, {3}).steps, msg::kNoLimit) << "the short batch is its own";
  EXPECT_EQ(readers[0].reply.limit, msg::kNoLimit);
}

TEST_F(EvenTest, UnevenHoldsNobodyUp) {
  Start(Even::kUneven);
  for (Scripted& reader : readers) reader.Hold(h, 1);
  for (Scripted& reader : readers) EXPECT_EQ(reader.Hold(h, 1).limit, msg::kNoLimit);
}

}  // namespace
}  // namespace penstock::dispatcher
