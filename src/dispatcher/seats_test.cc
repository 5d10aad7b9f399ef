// Consumers with an index: who gets the seat, and what a dead one leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// Two declared consumers; the first has delivered rows up to 3 of its lane.
class SeatsTest : public testing::Test {
 protected:
  SeatsTest() {
    h.AddWorker(1);
    a.emplace(h.JoinOk(Of(1, 0), LayoutOf(8)));
    b.emplace(h.JoinOk(Of(2, 1), LayoutOf(8)));
    a->Hold(h, 1);
    b->Hold(h, 1);
    a->Hold(h, 0);
    a->beat.holds.at(0).asked = {3, 0};
    a->Say(h);
  }

  msg::Join Of(uint64_t incarnation, uint32_t index, uint64_t attempt = 0, OnRestart on_restart = OnRestart::kError) {
    msg::Join join = h.JoinOf(incarnation);
    join.consumers = 2;
    join.index = index;
    join.attempt = attempt;
    join.on_restart = on_restart;
    return join;
  }
  // Time passes, and only the second consumer is heard of.
  void OnlySecondLives(seconds duration) {
    for (seconds passed{0}; passed < duration; ++passed) {
      h.Pass(seconds(1));
      b->Hold(h, 0);
    }
  }
  void TearDown() override { EXPECT_EQ(h.core->TakeSnapshot(), h.stored); }

  CoreHarness h;
  std::optional<Scripted> a, b;
};

TEST_F(SeatsTest, ADeadConsumersLanesWaitForIt) {
  OnlySecondLives(seconds(20));
  b->Hold(h, 8);
  for (int beats = 0; beats < 8; ++beats) b->Hold(h, 8);
  EXPECT_EQ(b->reply.grants.size(), 7u) << "all but the dead one's";
  a->Hold(h, 1);
  ASSERT_GE(a->reply.grants.size(), 1u) << "revived, with its own lane and fence";
  EXPECT_EQ(a->reply.grants[0].fence, Fence{1});
}

TEST_F(SeatsTest, OneStartedAnewIsUndecidedAndGetsNothingUntilItBegins) {
  OnlySecondLives(seconds(16));
  const msg::Joined joined = h.JoinOk(Of(3, 0, 0, OnRestart::kContinue), LayoutOf(8));
  EXPECT_TRUE(joined.undecided);
  Scripted anew(joined);
  anew.beat.begun = false;
  EXPECT_TRUE(anew.Hold(h, 4).grants.empty());
  anew.beat.begun = true;
  anew.Hold(h, 1);
  ASSERT_GE(anew.reply.grants.size(), 1u);
  EXPECT_EQ(anew.reply.grants[0].range.from, (Cursor{3, 0})) << "from the asked mark of the one before it";
  EXPECT_EQ(anew.reply.grants[0].fence, Fence{2});
  EXPECT_EQ(a->Error(h).code(), Code::kStale) << "who lost its seat is told so";
}

TEST_F(SeatsTest, BeginningWithoutAWordOnRestartIsRefusedAndTheThreeWaysAreNamed) {
  OnlySecondLives(seconds(16));
  Scripted anew(h.JoinOk(Of(3, 0), LayoutOf(8)));
  const Status error = anew.Error(h);
  EXPECT_EQ(error.code(), Code::kStale);
  for (const char* way : {"load_state_dict", "continue", "restart"}) EXPECT_THAT(error.message(), HasSubstr(way));
}

TEST_F(SeatsTest, OneWhoseConnectionIsGoneKeepsItsSeatForItsLease) {
  h.Feed(SessionClosed{SessionId{1}});
  Scripted anew(h.JoinOk(Of(3, 0, 0, OnRestart::kContinue), LayoutOf(8)));
  EXPECT_TRUE(anew.Hold(h, 1).grants.empty());
  EXPECT_THAT(anew.reply.waiting_for, HasSubstr("the seat of rank-1"));
  for (int i = 0; i < 16; ++i) {
    h.Pass(seconds(1));
    anew.Hold(h, 1);
    b->Hold(h, 0);
  }
  EXPECT_FALSE(anew.reply.grants.empty());
}

TEST_F(SeatsTest, AHigherAttemptTakesTheSeatAtOnceAndALowerOneIsRefused) {
  Scripted anew(h.JoinOk(Of(3, 0, 1, OnRestart::kContinue), LayoutOf(8)));
  EXPECT_FALSE(anew.Hold(h, 1).grants.empty());
  EXPECT_EQ(a->Error(h).code(), Code::kStale);
  const Message late = h.Join(Of(4, 0, 0), LayoutOf(8));
  EXPECT_THAT(std::get<msg::Failed>(late).error.message(), HasSubstr("attempt 0 of consumer 0"));
}

TEST_F(SeatsTest, OneThatDeliveredNothingIsFollowedWithoutAQuestion) {
  OnlySecondLives(seconds(1));
  h.Feed(SessionClosed{SessionId{2}});
  h.Pass(seconds(16));
  EXPECT_FALSE(h.JoinOk(Of(3, 1), LayoutOf(8)).undecided);
}

TEST_F(SeatsTest, AnotherNumberOfConsumersMustRestoreFirst) {
  msg::Join join = Of(3, 2);
  join.consumers = 3;
  const msg::Joined joined = h.JoinOk(join, LayoutOf(8));
  EXPECT_TRUE(joined.undecided);
  EXPECT_EQ(joined.consumers, 3u);
  EXPECT_THAT(Scripted(joined).Error(h).message(), HasSubstr("has consumers 2, this reader declares 3"));
}

TEST_F(SeatsTest, SurviveARestartOfTheDispatcher) {
  h.JoinOk(Of(3, 0, 1, OnRestart::kContinue), LayoutOf(8));
  h.Restart();
  EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
  Scripted anew(h.JoinOk(Of(3, 0, 1, OnRestart::kContinue), LayoutOf(8)));
  EXPECT_FALSE(anew.Hold(h, 1).grants.empty());
}

TEST(Seats, ADeclaredOneThatComesWhenTheEpochWasReadFindsItsEndAndNotAnotherPass) {
  CoreHarness h;
  h.AddWorker(1);
  const auto join = [&](uint64_t incarnation, uint32_t index) {
    msg::Join of = h.JoinOf(incarnation);
    of.consumers = 2;
    of.index = index;
    of.epochs = 0;
    of.even = Even::kUneven;
    return h.JoinOk(of, LayoutOf(1));
  };
  Scripted early(join(1, 0));
  early.Hold(h, 1);
  early.Finish(h, early.reply.grants.at(0), {8, 0}, true, 1, true);
  ASSERT_TRUE(early.Hold(h, 1, true).end);
  const msg::Joined joined = join(2, 1);
  EXPECT_EQ(joined.epoch, Epoch{0});
  Scripted late(joined);
  EXPECT_TRUE(late.Hold(h, 1).end);
  EXPECT_TRUE(late.reply.grants.empty());
}

TEST(Seats, ADeclaredOneThatComesWhenTheJobHasFinishedFindsEmptyEpochsOnce) {
  CoreHarness h;
  h.AddWorker(1);
  const auto join = [&](uint64_t incarnation, uint32_t index) {
    msg::Join of = h.JoinOf(incarnation);
    of.consumers = 2;
    of.index = index;
    of.even = Even::kUneven;
    return h.JoinOk(of, LayoutOf(1));
  };
  const auto leave = [&](const Scripted& reader) {
    h.Say(SessionId{Raw(reader.beat.consumer)}, msg::Leave{reader.beat.job, reader.beat.consumer, {}, {}});
  };
  Scripted early(join(1, 0));
  early.Hold(h, 1);
  early.Finish(h, early.reply.grants.at(0), {8, 0}, true, 1, true);
  ASSERT_TRUE(early.reply.end);
  leave(early);
  EXPECT_TRUE(h.core->Quiet());
  Scripted again(join(2, 0));
  again.beat.begun = true;
  EXPECT_EQ(again.Error(h).code(), Code::kFinished) << "that one has been here";
  h.Restart();
  h.AddWorker(1);
  Scripted late(join(3, 1));
  late.beat.begun = true;
  EXPECT_TRUE(late.Hold(h, 1).end);
  EXPECT_TRUE(late.reply.grants.empty());
  leave(late);
  Scripted later(join(4, 1));
  later.beat.begun = true;
  EXPECT_EQ(later.Error(h).code(), Code::kFinished) << "all have been here";
}

TEST(Seats, OneStartedAnewAfterAnEndReadsWhatTheOneThatLeftGaveBackAfterIt) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.consumers = 1;
  join.on_restart = OnRestart::kContinue;
  Scripted keeper(h.JoinOk(join, LayoutOf(1)));
  keeper.Hold(h, 1);
  keeper.beat.batches = 1;
  ASSERT_TRUE(keeper.Hold(h, 0, true).end) << "it has the tail that is the last batch";
  h.Say(SessionId{1}, msg::Leave{keeper.beat.job, keeper.beat.consumer, {}, {}});
  join.incarnation = 2;
  Scripted anew(h.JoinOk(join, LayoutOf(1)));
  EXPECT_FALSE(anew.Hold(h, 1, true).end);
  EXPECT_EQ(anew.reply.grants.size(), 1u);
  EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
}

TEST(OnDeath, RedeliverGivesADeadOnesLanesToOthers) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.consumers = 2;
  join.on_death = OnDeath::kRedeliver;
  Scripted a(h.JoinOk(join, LayoutOf(2)));
  a.Hold(h, 2);
  join.incarnation = 2;
  join.index = 1;
  Scripted b(h.JoinOk(join, LayoutOf(2)));
  for (int i = 0; i < 20; ++i) {
    h.Pass(seconds(1));
    b.Hold(h, 2);
  }
  ASSERT_EQ(b.reply.grants.size(), 2u);
  EXPECT_EQ(b.reply.grants[0].fence, Fence{2});
}

// ---- strict: no grants, the ring is shared by rule

class StrictTest : public testing::Test {
 protected:
  StrictTest() { h.AddWorker(1); }
  msg::Join Of(uint64_t incarnation, uint32_t index) {
    msg::Join join = h.JoinOf(incarnation);
    join.mode = Mode::kStrict;
    join.consumers = 2;
    join.index = index;
    join.epochs = 2;
    join.on_restart = OnRestart::kContinue;
    return join;
  }
  void TearDown() override { EXPECT_EQ(h.core->TakeSnapshot(), h.stored); }
  CoreHarness h;
};

TEST_F(StrictTest, NeedsDeclaredConsumersAndAPureDataset) {
  msg::Join join = Of(1, 0);
  join.consumers = 0;
  EXPECT_THAT(std::get<msg::Failed>(h.Join(join, LayoutOf(4))).error.message(), HasSubstr("declare their number"));
  Layout impure = LayoutOf(4);
  impure.purity = Purity::kImpure;
  EXPECT_THAT(std::get<msg::Failed>(h.Join(Of(1, 0), impure)).error.message(), HasSubstr("impure"));
}

TEST_F(StrictTest, StartsWhenAllIndicesHaveJoined) {
  const msg::Joined joined = h.JoinOk(Of(1, 0), LayoutOf(4));
  EXPECT_EQ(joined.places, 2u);
  EXPECT_EQ(joined.even, Even::kDrop);
  Scripted a(joined);
  EXPECT_FALSE(a.Hold(h, 4).started);
  EXPECT_THAT(a.reply.waiting_for, HasSubstr("consumers 1 of 2"));
  h.pushed.clear();
  h.JoinOk(Of(2, 1), LayoutOf(4));
  ASSERT_FALSE(h.pushed.empty()) << "who waits is told at once";
  EXPECT_TRUE(std::get<msg::BeatReply>(h.pushed[0].message).started);
  EXPECT_TRUE(a.Hold(h, 4).grants.empty());
}

TEST_F(StrictTest, AnEpochEndsWhenAllHaveSaidSo) {
  Scripted a(h.JoinOk(Of(1, 0), LayoutOf(4)));
  Scripted b(h.JoinOk(Of(2, 1), LayoutOf(4)));
  EXPECT_FALSE(a.Hold(h, 0, true).epoch_done);
  b.Hold(h, 0, true);
  EXPECT_TRUE(b.reply.epoch_done);
  a.beat.epoch = b.beat.epoch = Epoch{1};
  a.Hold(h, 0, true);
  b.Hold(h, 0, true);
  h.Feed(SessionClosed{SessionId{1}});
  EXPECT_EQ(Scripted(h.JoinOk(Of(3, 0), LayoutOf(4))).Error(h).code(), Code::kFinished);
}

TEST_F(StrictTest, OneStartedAnewIsToldWhereTheOneBeforeItStood) {
  Scripted a(h.JoinOk(Of(1, 0), LayoutOf(4)));
  Scripted b(h.JoinOk(Of(2, 1), LayoutOf(4)));
  a.beat.batches = 5;
  a.beat.position = "where";
  a.Say(h);
  h.Feed(SessionClosed{SessionId{1}});
  h.Restart();
  const msg::Joined joined = h.JoinOk(Of(3, 0), LayoutOf(4));
  EXPECT_TRUE(joined.undecided);
  EXPECT_EQ(joined.position, "where");
}

TEST_F(StrictTest, OneStartedAnewReadsNothingBeforeTheLeaseOfTheOneBeforeItHasEnded) {
  Scripted a(h.JoinOk(Of(1, 0), LayoutOf(4)));
  Scripted b(h.JoinOk(Of(2, 1), LayoutOf(4)));
  a.beat.batches = 5;
  a.Say(h);
  h.Feed(SessionClosed{SessionId{1}});
  Scripted anew(h.JoinOk(Of(3, 0), LayoutOf(4)));
  anew.beat.begun = true;
  EXPECT_FALSE(anew.Hold(h, 0).started) << "that one may only have lost its connection";
  for (int i = 0; i < 20; ++i) {
    h.Pass(seconds(1));
    b.Hold(h, 0);
    anew.Hold(h, 0);
  }
  EXPECT_TRUE(anew.reply.started);
}

TEST_F(StrictTest, ASeatIsNotForOneThatDiedWhileItWaitedForIt) {
  Scripted a(h.JoinOk(Of(1, 0), LayoutOf(4)));
  Scripted b(h.JoinOk(Of(2, 1), LayoutOf(4)));
  a.beat.batches = 5;
  a.Say(h);
  h.Feed(SessionClosed{SessionId{1}});
  h.Pass(seconds(8));
  Scripted died(h.JoinOk(Of(3, 0), LayoutOf(4)));
  died.beat.begun = true;
  died.Hold(h, 0);
  h.Feed(SessionClosed{SessionId{3}});
  Scripted anew(h.JoinOk(Of(4, 0), LayoutOf(4)));
  anew.beat.begun = true;
  for (int i = 0; i < 10; ++i) {
    b.Hold(h, 0);
    anew.Hold(h, 0);
    h.Pass(seconds(1));
  }
  EXPECT_TRUE(anew.Hold(h, 0).started);
}

TEST_F(StrictTest, WhatADeadOneHadToReadWaitsForItWhateverOnDeathSays) {
  msg::Join join = Of(1, 0);
  join.on_death = OnDeath::kRedeliver;
  Scripted a(h.JoinOk(join, LayoutOf(4)));
  Scripted b(h.JoinOk(Of(2, 1), LayoutOf(4)));
  a.beat.batches = 5;
  a.beat.position = "where";
  a.Say(h);
  for (int i = 0; i < 200; ++i) {
    h.Pass(seconds(1));
    b.Hold(h, 0);
  }
  EXPECT_EQ(h.JoinOk(Of(3, 0), LayoutOf(4)).position, "where");
}

// Two strict consumers; the first closes, and the dispatcher is started again.
class StrictLeaveTest : public StrictTest {
 protected:
  StrictLeaveTest() : a(h.JoinOk(Of(1, 0), LayoutOf(4))), b(h.JoinOk(Of(2, 1), LayoutOf(4))) { h.pushed.clear(); }
  void FirstLeaves() {
    h.Say(SessionId{1}, msg::Leave{a.beat.job, a.beat.consumer, {}, {}});
    h.Restart();
    h.AddWorker(1);
  }
  Scripted a, b;
};

TEST_F(StrictLeaveTest, OneStartedAnewGoesOnWhereTheOneThatLeftStood) {
  a.beat.epoch = Epoch{1};
  a.beat.batches = 5;
  a.beat.position = "where";
  a.Say(h);
  FirstLeaves();
  for (uint64_t incarnation : {3, 4}) {  // one that goes before it has begun to read takes nothing with it
    Scripted anew(h.JoinOk(Of(incarnation, 0), LayoutOf(4)));
    EXPECT_EQ(anew.beat.epoch, Epoch{1});
    h.Say(SessionId{incarnation}, msg::Leave{anew.beat.job, anew.beat.consumer, {}, {}});
  }
  const msg::Joined joined = h.JoinOk(Of(5, 0), LayoutOf(4));
  EXPECT_TRUE(joined.undecided);
  EXPECT_EQ(joined.position, "where");
  Scripted(joined).Say(h);
  EXPECT_EQ(std::get<msg::Failed>(h.Join(Of(6, 0), LayoutOf(4))).error.code(), Code::kExists) << "it has the seat";
}

TEST_F(StrictLeaveTest, AJoinThatComesAgainAfterItsConsumerHasLeftChangesNothing) {
  const msg::Beat first = a.beat;
  a.beat.batches = 5;
  a.beat.position = "where";
  a.Hold(h, 0, true);
  FirstLeaves();
  const Message again = h.Join(Of(1, 0), LayoutOf(4));
  ASSERT_TRUE(std::holds_alternative<msg::Failed>(again));
  EXPECT_EQ(std::get<msg::Failed>(again).error.code(), Code::kStale);
  EXPECT_TRUE(std::holds_alternative<msg::Failed>(h.Say(SessionId{1}, first)));
  const msg::Joined anew = h.JoinOk(Of(3, 0), LayoutOf(4));
  EXPECT_EQ(anew.position, "where");
  EXPECT_TRUE(Scripted(anew).Say(h).end);
}

TEST_F(StrictLeaveTest, AJobFinishesThoughOneLeavesAfterItsEndBeforeTheOthers) {
  a.beat.epoch = Epoch{1};
  a.Hold(h, 0, true);
  FirstLeaves();
  EXPECT_EQ(b.Hold(h, 0).waiting_for, "") << "that one has nothing more to read";
  b.Hold(h, 0, true);
  b.beat.epoch = Epoch{1};
  EXPECT_TRUE(b.Hold(h, 0, true).epoch_done);
  h.Say(SessionId{2}, msg::Leave{b.beat.job, b.beat.consumer, {}, {}});
  EXPECT_EQ(Scripted(h.JoinOk(Of(3, 0), LayoutOf(4))).Error(h).code(), Code::kFinished);
}

TEST_F(StrictLeaveTest, TheEpochWaitsForOneThatLeftBeforeItsEnd) {
  FirstLeaves();
  EXPECT_THAT(b.Hold(h, 0).waiting_for, HasSubstr("rank-1, which has left"));
  EXPECT_EQ(std::get<msg::StatusReply>(h.Say(SessionId{9}, msg::StatusAsk{})).jobs.at(0).state, "held for rank-1 (left): start it anew, or restore");
  EXPECT_FALSE(b.Hold(h, 0, true).epoch_done);
  Scripted anew(h.JoinOk(Of(3, 0), LayoutOf(4)));
  EXPECT_TRUE(anew.Hold(h, 0, true).epoch_done);
}

TEST_F(StrictLeaveTest, OneStartedAnewAfterTheEndOfTheEpochHasComeToItToo) {
  a.beat.batches = 5;
  a.Hold(h, 0, true);
  FirstLeaves();
  Scripted anew(h.JoinOk(Of(3, 0), LayoutOf(4)));
  EXPECT_TRUE(anew.Hold(h, 0).end);
  h.Say(SessionId{3}, msg::Leave{anew.beat.job, anew.beat.consumer, {}, {}});
  EXPECT_TRUE(b.Hold(h, 0, true).epoch_done);
}

}  // namespace
}  // namespace penstock::dispatcher
