// Restoring as one act of a cohort.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dispatcher/core_harness.h"
#include "plan/position.h"

namespace penstock::dispatcher {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() { h.AddWorker(1); }
  void TearDown() override {
    EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
    h.Restart();
    EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
  }

  msg::Joined JoinAs(uint64_t incarnation, uint32_t index, uint32_t consumers, uint64_t attempt = 0) {
    msg::Join join = h.JoinOf(incarnation);
    join.consumers = consumers;
    join.index = index;
    join.mode = mode;
    join.attempt = attempt;
    join.epochs = 2;
    join.rebuild = rebuilds;
    return h.JoinOk(join, layout);
  }
  Position State(Position::Kind kind = Position::Kind::kPosition) {
    Position state;
    state.kind = kind;
    state.job = "train";
    state.dataset = state.rows = "id-of-plan";
    state.manifest = "hash";
    state.mode = mode;
    state.batch = 4;
    state.consumers = 2;
    state.tag = 7;
    return state;
  }
  Position Part(uint32_t index) {
    Position part = State(Position::Kind::kPart);
    part.index = index;
    return part;
  }
  msg::Restore Word(const msg::Joined& joined, const std::string& state, uint64_t attempt = 0) {
    msg::Restore restore;
    restore.job = joined.job;
    restore.consumer = joined.consumer;
    restore.consumers = joined.consumers;
    restore.index = joined.index;
    restore.generation = joined.generation;
    restore.attempt = attempt;
    restore.state = state;
    return restore;
  }
  // Says it without waiting for an answer: the request's number is kept.
  void Enlist(const msg::Restore& word) {
    h.Feed(PeerMessage{SessionId{Raw(word.consumer)}, RequestId{++requests}, word});
    for (const Send& send : h.actions.sends) {
      if (send.request != RequestId{}) answers[send.session] = send.message;
    }
  }
  msg::Joined JoinedOf(uint64_t incarnation) { return std::get<msg::Joined>(answers.at(SessionId{incarnation})); }
  Status ErrorOf(uint64_t incarnation) { return std::get<msg::Failed>(answers.at(SessionId{incarnation})).error; }

  CoreHarness h;
  Layout layout = LayoutOf(4);
  Mode mode = Mode::kShared;
  bool rebuilds = false;  // those who join
  uint64_t requests = 5000;
  std::map<SessionId, Message> answers;
};

TEST_F(RestoreTest, AllOfTheCohortGetTheSameAnswerWhenTheLastHasSpoken) {
  const msg::Joined a = JoinAs(1, 0, 2);
  const msg::Joined b = JoinAs(2, 1, 2);
  Position state = State();
  state.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, kLaneEndCursor);
  state.delivered.Add({Epoch{0}, {}, LaneId{1}}, {3, 0}, {6, 0});
  Enlist(Word(a, ToJson(state)));
  EXPECT_THAT(answers, IsEmpty());
  Enlist(Word(b, ToJson(state)));
  EXPECT_EQ(JoinedOf(1).generation, Generation{1});
  EXPECT_EQ(JoinedOf(2).generation, Generation{1});
  EXPECT_EQ(ParsePosition(JoinedOf(1).base)->delivered, state.delivered);

  std::vector<msg::Range> granted;
  for (uint64_t id : {1, 2}) {
    Scripted reader(JoinedOf(id));
    reader.beat.generation = Generation{1};
    for (const msg::Grant& grant : reader.Hold(h, 6).grants) granted.push_back(grant.range);
    for (int i = 0; i < 3; ++i) reader.Hold(h, 6);
  }
  const LaneKey one{Epoch{0}, {}, LaneId{1}};
  EXPECT_THAT(granted, testing::IsSupersetOf({msg::Range{one, {0, 0}, 3}, msg::Range{one, {6, 0}, kLaneEnd}}));
  for (const msg::Range& range : granted) EXPECT_NE(range.lane.lane, LaneId{0}) << "what was delivered is not granted again";
}

TEST_F(RestoreTest, RepeatedItGivesTheSameAnswerAndNoNewGeneration) {
  const msg::Joined a = JoinAs(1, 0, 1);
  Position state = State();
  state.consumers = 1;
  Enlist(Word(a, ToJson(state)));
  h.Restart();
  Enlist(Word(a, ToJson(state)));
  EXPECT_EQ(JoinedOf(1).generation, Generation{1});
  Enlist(Word(JoinedOf(1), ToJson(state)));
  EXPECT_EQ(JoinedOf(1).generation, Generation{2}) << "said of the new generation it is a new restore";
}

TEST_F(RestoreTest, AnotherNumberOfConsumersTakesTheJobOverAndTheOldOnesAreShutOut) {
  Scripted old(JoinAs(1, 0, 2));
  JoinAs(2, 1, 2);
  old.Hold(h, 2);
  std::vector<msg::Joined> cohort;
  for (uint32_t i = 0; i < 3; ++i) cohort.push_back(JoinAs(10 + i, i, 3));
  EXPECT_TRUE(cohort[0].undecided);
  h.pushed.clear();
  for (const msg::Joined& joined : cohort) Enlist(Word(joined, ToJson(State())));
  EXPECT_EQ(JoinedOf(12).consumers, 3u);
  EXPECT_FALSE(JoinedOf(12).undecided);
  ASSERT_FALSE(h.pushed.empty()) << "the old ones are told at once";
  EXPECT_EQ(std::get<msg::BeatReply>(h.pushed[0].message).generation, Generation{1});
  EXPECT_EQ(old.Error(h).code(), Code::kStale);
}

TEST_F(RestoreTest, PartsOfAllTogetherAreThePosition) {
  const msg::Joined a = JoinAs(1, 0, 2);
  const msg::Joined b = JoinAs(2, 1, 2);
  Position first = Part(0);
  Position second = Part(1);
  first.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, {5, 0});
  second.delivered.Add({Epoch{0}, {}, LaneId{0}}, {5, 0}, kLaneEndCursor);
  Enlist(Word(a, ToJson(first)));
  Enlist(Word(b, ToJson(second)));
  EXPECT_TRUE(ParsePosition(JoinedOf(1).base)->delivered.epochs.at(Epoch{0}).Whole(LaneId{0}));
}

TEST_F(RestoreTest, PartsOfALaterEpochDoNotLeadBackBehindIt) {
  const msg::Joined a = JoinAs(1, 0, 2);
  const msg::Joined b = JoinAs(2, 1, 2);
  for (const msg::Joined& joined : {a, b}) {
    Position part = Part(joined.index);
    part.epoch = Epoch{1};  // the loops were sent there, and had nothing of the one before
    part.delivered.Add({Epoch{1}, {}, LaneId{joined.index}}, {}, kLaneEndCursor);
    Enlist(Word(joined, ToJson(part)));
  }
  EXPECT_EQ(JoinedOf(1).epoch, Epoch{1});
  EXPECT_EQ(ParsePosition(JoinedOf(1).base)->delivered.epochs_done, Epoch{1});
}

TEST_F(RestoreTest, PartsThatWereSavedTooFarApartAreRefused) {
  const msg::Joined a = JoinAs(1, 0, 2);
  const msg::Joined b = JoinAs(2, 1, 2);
  Position ahead = Part(1);
  ahead.epoch = Epoch{9};
  ahead.delivered.epochs_done = Epoch{5};  // of those before it says nothing
  Enlist(Word(a, ToJson(Part(0))));
  Enlist(Word(b, ToJson(ahead)));
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("epochs 0 and 9"));
}

TEST_F(RestoreTest, APartOfConsumersThatWereNotDeclaredIsNoPosition) {
  Position part = Part(0);
  part.consumers = 0;
  Enlist(Word(JoinAs(1, 0, 1), ToJson(part)));
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("were not declared"));
}

TEST_F(RestoreTest, APartOfOneThatWasStartedAnewIsRefused) {
  const msg::Joined a = JoinAs(1, 0, 2);
  const msg::Joined b = JoinAs(2, 1, 2);
  Position anew = Part(1);
  anew.seated_at = 3;
  Enlist(Word(a, ToJson(Part(0))));
  Enlist(Word(b, ToJson(anew)));
  EXPECT_THAT(ErrorOf(2).message(), HasSubstr("consumer 1 was started anew at step 3"));
}

TEST_F(RestoreTest, APositionAtAnEpochsEndIsThatEndAndNotTheNextOnesStart) {
  const msg::Joined a = JoinAs(1, 0, 1);
  Position state = State();
  for (uint32_t lane = 0; lane < 4; ++lane) state.delivered.Add({Epoch{0}, {}, LaneId{lane}}, {}, kLaneEndCursor);
  Enlist(Word(a, ToJson(state)));
  EXPECT_EQ(JoinedOf(1).epoch, Epoch{0});
  Scripted reader(JoinedOf(1));
  reader.beat.generation = Generation{1};
  EXPECT_TRUE(reader.Hold(h, 2).end);
  EXPECT_THAT(reader.reply.grants, IsEmpty());
  reader.beat.epoch = Epoch{1};
  EXPECT_FALSE(reader.Hold(h, 2).end);
  EXPECT_EQ(reader.reply.grants.size(), 2u);
}

TEST_F(RestoreTest, AStateThatLeavesOutMoreLanesThanAreEverOpenIsRefused) {
  layout.lanes = kEndlessLanes;
  const msg::Joined a = JoinAs(1, 0, 1);
  Position state = State();
  state.delivered.Add({Epoch{0}, {}, LaneId{4294967290}}, {}, {5, 0});
  Enlist(Word(a, ToJson(state)));
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("leaves out 4294967290 before it"));
}

TEST_F(RestoreTest, AnUncoveredMemberIsRefusedByName) {
  Enlist(Word(JoinAs(1, 0, 1), ToJson(Part(0))));
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("the part of consumer 1 of 2 is missing"));
}

TEST_F(RestoreTest, MixedStepsAndGenerationsAreRefusedToAll) {
  const msg::Joined a = JoinAs(1, 0, 2);
  const msg::Joined b = JoinAs(2, 1, 2);
  Position later = Part(1);
  later.tag = 8;
  Enlist(Word(a, ToJson(Part(0))));
  Enlist(Word(b, ToJson(later)));
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("steps 7 and 8"));
  EXPECT_THAT(ErrorOf(2).message(), HasSubstr("steps 7 and 8"));
  Position other = Part(1);
  other.generation = Generation{3};
  Enlist(Word(a, ToJson(Part(0))));
  Enlist(Word(b, ToJson(other)));
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("generations 0 and 3"));
}

TEST_F(RestoreTest, AnotherDatasetManifestModeOrSeedIsRefusedByName) {
  const msg::Joined a = JoinAs(1, 0, 1);
  const auto refused = [&](void (*change)(Position&)) {
    Position state = State();
    change(state);
    Enlist(Word(a, ToJson(state)));
    return ErrorOf(1).message();
  };
  EXPECT_THAT(refused([](Position& p) { p.rows = "other"; }), HasSubstr("rows other"));
  EXPECT_THAT(refused([](Position& p) { p.manifest = "other"; }),
              HasSubstr("manifest (other input files, or counted rows that were cut for another batch size) other"));
  EXPECT_THAT(refused([](Position& p) { p.mode = Mode::kReplicated; }), HasSubstr("mode replicated"));
  EXPECT_THAT(refused([](Position& p) { p.seed = 9; }), HasSubstr("seed 9"));
  EXPECT_THAT(refused([](Position& p) { p.delivered.Add({Epoch{0}, {}, LaneId{9}}, {}, kLaneEndCursor); }), HasSubstr("lanes up to 10"));
  Enlist(Word(a, "{}"));
  EXPECT_FALSE(ErrorOf(1).ok());
}

TEST_F(RestoreTest, AnotherBatchSizeIsRestoredInSharedAndRefusedInStrict) {
  Position state = State();
  state.batch = 16;
  Enlist(Word(JoinAs(1, 0, 1), ToJson(state)));
  EXPECT_EQ(JoinedOf(1).generation, Generation{1});
}

TEST_F(RestoreTest, InStrictAnotherBatchSizeOrRingIsRefused) {
  mode = Mode::kStrict;
  const msg::Joined a = JoinAs(1, 0, 1);
  Position state = State();
  state.ring.emplace();
  state.batch = 16;
  Enlist(Word(a, ToJson(state)));
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("batch 16"));
  state.batch = 4;
  state.places = 5;
  Enlist(Word(a, ToJson(state)));
  EXPECT_EQ(JoinedOf(1).places, 5u) << "the ring is that of the job's first start";
}

TEST_F(RestoreTest, InStrictHowFarOneCameThatLeftIsForgotten) {
  mode = Mode::kStrict;
  Scripted a(JoinAs(1, 0, 2));
  const msg::Joined b = JoinAs(2, 1, 2);
  a.beat.batches = 5;
  a.Hold(h, 0, true);
  h.Say(SessionId{1}, msg::Leave{a.beat.job, a.beat.consumer, {}, {}});
  Enlist(Word(JoinAs(3, 0, 2), ""));
  Enlist(Word(b, ""));
  Scripted again(JoinedOf(2));
  again.beat.generation = Generation{1};
  EXPECT_FALSE(again.Hold(h, 0, true).epoch_done) << "the first has not read it in this generation";
}

TEST_F(RestoreTest, AHigherAttemptSendsTheLowerOneAway) {
  const msg::Joined a = JoinAs(1, 0, 2);
  Enlist(Word(a, ToJson(State())));
  const msg::Joined anew = JoinAs(3, 0, 2, 1);
  Enlist(Word(anew, ToJson(State()), 1));
  EXPECT_EQ(ErrorOf(1).code(), Code::kStale);
  Enlist(Word(JoinAs(4, 1, 2, 1), ToJson(State()), 1));
  EXPECT_EQ(JoinedOf(3).generation, Generation{1});
}

TEST_F(RestoreTest, WhileSomeRestoreEverybodyIsToldWhoIsMissing) {
  const msg::Joined a = JoinAs(1, 0, 3);
  Scripted second(JoinAs(2, 1, 3));
  Enlist(Word(a, ToJson(State())));
  EXPECT_THAT(Scripted(a).Say(h).waiting_for, HasSubstr("consumers 1 (rank-2), 2 of 3 to load their state"));
  EXPECT_THAT(second.Say(h).waiting_for, HasSubstr("consumers 1 (rank-2), 2 of 3"));
}

TEST_F(RestoreTest, WhoDidNotComeIsNamedAfterADeadline) {
  const msg::Joined a = JoinAs(1, 0, 3);
  Enlist(Word(a, ToJson(State())));
  Scripted beats(a);
  for (int i = 0; i < 280 && answers.empty(); ++i) {
    h.Pass(std::chrono::milliseconds(250));
    for (const Send& send : h.actions.sends) {
      if (send.request != RequestId{}) answers[send.session] = send.message;
    }
    if (i % 4 == 3) beats.Hold(h, 0);
  }
  EXPECT_THAT(ErrorOf(1).message(), HasSubstr("1, 2"));
}

TEST_F(RestoreTest, NoStateAtAllIsTheJobsStart) {
  Scripted a(JoinAs(1, 0, 1));
  a.Hold(h, 4);
  a.beat.batches = 3;
  a.Hold(h, 4);
  msg::Joined joined;
  joined.job = a.beat.job;
  joined.consumer = a.beat.consumer;
  joined.consumers = 1;
  Enlist(Word(joined, ""));
  Scripted anew(JoinedOf(1));
  anew.beat.generation = Generation{1};
  anew.Hold(h, 6);
  EXPECT_EQ(anew.reply.grants.size(), 4u);
}

TEST_F(RestoreTest, AFinishedJobIsMadeAgain) {
  layout = LayoutOf(1);
  Scripted a(JoinAs(1, 0, 1));
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    a.beat.epoch = Epoch{epoch};
    a.Hold(h, 1);
    a.Finish(h, a.reply.grants.at(0), {9, 0}, true, 1, true);
  }
  h.Say(SessionId{1}, msg::Leave{a.beat.job, a.beat.consumer, {}, {}});
  Position state = State();
  state.generation = Generation{4};
  state.epoch = state.delivered.epochs_done = Epoch{1};
  Enlist(Word(JoinAs(2, 0, 1), ToJson(state)));
  EXPECT_EQ(JoinedOf(2).generation, Generation{5});
  EXPECT_EQ(JoinedOf(2).epoch, Epoch{1});
  Scripted again(JoinedOf(2));
  again.beat.generation = Generation{5};
  EXPECT_EQ(again.Hold(h, 1).grants.size(), 1u);
}

TEST_F(RestoreTest, ARangedLaneGoesOnWhereItWasWithItsHolesFirst) {
  layout = LayoutOf(1);
  layout.serial = true;
  layout.serial_range = 60;
  Position state = State();
  state.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, {40, 0});
  state.delivered.Add({Epoch{0}, {}, LaneId{0}}, {60, 2}, {150, 0});
  Enlist(Word(JoinAs(1, 0, 1), ToJson(state)));
  Scripted a(JoinedOf(1));
  a.beat.generation = Generation{1};
  a.Hold(h, 2);
  a.Hold(h, 2);
  ASSERT_EQ(a.reply.grants.size(), 2u);
  EXPECT_EQ(a.reply.grants[0].range, (msg::Range{{Epoch{0}, {}, LaneId{0}}, {40, 0}, 61, 2}));
  EXPECT_EQ(a.reply.grants[1].range, (msg::Range{{Epoch{0}, {}, LaneId{0}}, {150, 0}, 210}));
}

TEST_F(RestoreTest, RowsThatMayHaveComeTwiceBeforeItAreCounted) {
  layout = LayoutOf(1);
  Scripted dead(JoinAs(1, 0, 1));
  ASSERT_EQ(dead.Hold(h, 1).grants.size(), 1u);
  h.Pass(std::chrono::seconds(16));
  const msg::Joined joined = JoinAs(2, 0, 1);
  Scripted heir(joined);
  ASSERT_EQ(heir.Hold(h, 1, true).grants.size(), 1u) << "the lane of the one that was in its seat";
  heir.Hold(h, 0);
  heir.beat.holds[0].asked = {8, 0};
  heir.Say(h);
  EXPECT_EQ(h.core->counts().redelivered, 0u) << "known when the lane is done";
  Enlist(Word(joined, ToJson(State())));
  EXPECT_EQ(h.core->counts().redelivered, 8u);
}

// One consumer's batch ended within what a source row became, and the next rows went to another: a cut may have those and not the batch.
TEST_F(RestoreTest, AHoleThatEndsWithinTheRowsOfASourceRowIsGrantedWithoutThoseThatWereDelivered) {
  layout = LayoutOf(1);
  Position state = State();
  const LaneKey lane{Epoch{0}, {}, LaneId{0}};
  state.delivered.Add(lane, {}, {9, 2});
  state.delivered.Add(lane, {13, 1}, kLaneEndCursor);
  Enlist(Word(JoinAs(1, 0, 1), ToJson(state)));
  Scripted a(JoinedOf(1));
  a.beat.generation = Generation{1};
  ASSERT_EQ(a.Hold(h, 1).grants.size(), 1u);
  EXPECT_EQ(a.reply.grants[0].range, (msg::Range{lane, {9, 2}, 14, 1}));
  EXPECT_EQ(h.core->counts().redelivered, 0u);
  h.Restart();
  ASSERT_EQ(a.Hold(h, 1).grants.size(), 1u);
  EXPECT_EQ(a.reply.grants[0].range.end(), (Cursor{13, 1})) << "as it was stored";
  EXPECT_TRUE(a.Finish(h, a.reply.grants[0], {13, 1}, false, 1, true).end) << "nothing is left of the epoch";
}

TEST_F(RestoreTest, HolesThatShareASourceRowAreGrantsOfTheirOwn) {
  layout = LayoutOf(1);
  Position state = State();
  const LaneKey lane{Epoch{0}, {}, LaneId{0}};
  state.delivered.Add(lane, {}, {13, 0});
  state.delivered.Add(lane, {13, 1}, {13, 2});
  state.delivered.Add(lane, {20, 0}, kLaneEndCursor);
  Enlist(Word(JoinAs(1, 0, 1), ToJson(state)));
  Scripted a(JoinedOf(1));
  a.beat.generation = Generation{1};
  a.Hold(h, 2);
  a.Hold(h, 2);
  ASSERT_EQ(a.reply.grants.size(), 2u);
  EXPECT_EQ(a.reply.grants[0].range, (msg::Range{lane, {13, 0}, 14, 1}));
  EXPECT_EQ(a.reply.grants[1].range, (msg::Range{lane, {13, 2}, 20}));
  h.Restart();
  EXPECT_EQ(a.Hold(h, 0).grants.size(), 2u) << "as they were stored";
  const msg::Grant second = a.reply.grants[1];
  a.Finish(h, second, {20, 0}, false, 0, false);
  ASSERT_EQ(a.reply.grants.size(), 1u);
  EXPECT_EQ(a.reply.grants[0].range.from, (Cursor{13, 0})) << "the other is still its own";
}

TEST_F(RestoreTest, ALostJobIsRebuiltFromItsLiveConsumers) {
  std::vector<msg::Joined> joined{JoinAs(1, 0, 2), JoinAs(2, 1, 2)};
  for (uint32_t i = 0; i < 2; ++i) {
    Position part = Part(i);
    part.tag = 5 + i;  // each goes on from where it is
    part.delivered.Add({Epoch{0}, {}, LaneId{i}}, {}, kLaneEndCursor);
    msg::Restore word = Word(joined[i], ToJson(part));
    word.rebuild = true;
    Enlist(word);
  }
  EXPECT_EQ(ParsePosition(JoinedOf(1).base)->delivered.epochs.at(Epoch{0}).LanesText(), "0-1");
}

// One that joined, and was told nothing yet when its job made way for another start, tells of itself before its user has it load a state.
TEST_F(RestoreTest, WhatIsLoadedGoesBeforeWhatLoopsTellOfThemselves) {
  for (const bool told_first : {false, true}) {
    h = CoreHarness();
    h.AddWorker(1);
    const msg::Joined a = JoinAs(1, 0, 2);
    const msg::Joined b = JoinAs(2, 1, 2);
    Position part = Part(1);
    part.tag = 0;
    msg::Restore told = Word(b, ToJson(part));
    told.rebuild = true;
    if (told_first) Enlist(told);
    Enlist(Word(a, ToJson(State())));
    if (!told_first) Enlist(told);
    EXPECT_EQ(ErrorOf(2).code(), Code::kUnavailable) << "it says it again, until it loads a state";
    Enlist(Word(b, ToJson(State())));
    EXPECT_EQ(JoinedOf(1).generation, Generation{1});
    EXPECT_EQ(JoinedOf(2).generation, Generation{1});
  }
}

TEST_F(RestoreTest, OneThatHasNothingToTellOfAJobThatIsBeingReadIsToldToReadIt) {
  Scripted a(JoinAs(1, 0, 2));
  const msg::Joined b = JoinAs(2, 1, 2);
  a.Hold(h, 1);
  Position part = Part(1);
  part.tag = 0;
  msg::Restore told = Word(b, ToJson(part));
  told.rebuild = true;
  Enlist(told);
  EXPECT_EQ(ErrorOf(2).code(), Code::kExists);
  a.Hold(h, 1);
  EXPECT_EQ(a.reply.generation, Generation{0});
}

TEST_F(RestoreTest, OneThatIsStartedAnewWhileTheOthersRebuildTheJobIsToldSo) {
  rebuilds = true;
  const msg::Joined lives = JoinAs(1, 0, 2);
  rebuilds = false;
  Scripted anew(JoinAs(2, 1, 2));
  EXPECT_TRUE(lives.undecided) << "what it has is to come";
  anew.Hold(h, 1);
  Position part = Part(0);
  part.tag = 5;
  part.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, kLaneEndCursor);
  msg::Restore word = Word(lives, ToJson(part));
  word.rebuild = true;
  Enlist(word);
  const Status refused = anew.Error(h);
  EXPECT_EQ(refused.code(), Code::kStale);
  EXPECT_THAT(refused.message(), HasSubstr("load_state_dict"));
}

TEST_F(RestoreTest, ALostStrictJobIsRebuiltWithEachConsumerAtItsOwnStep) {
  mode = Mode::kStrict;
  std::vector<msg::Joined> joined{JoinAs(1, 0, 2), JoinAs(2, 1, 2)};
  for (uint32_t i = 0; i < 2; ++i) {
    Position part = Part(i);
    part.ring = RingPosition{.turn = 14 - 4 * i};
    msg::Restore word = Word(joined[i], ToJson(part));
    word.rebuild = true;
    Enlist(word);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ParsePosition(JoinedOf(i + 1).base)->ring->turn, 10u);
    EXPECT_EQ(ParsePosition(JoinedOf(i + 1).position)->ring->turn, 14 - 4 * i);
  }
}

TEST_F(RestoreTest, ALostJobIsRebuiltWithEachConsumerInItsOwnEpoch) {
  std::vector<msg::Joined> joined{JoinAs(1, 0, 2), JoinAs(2, 1, 2)};
  for (uint32_t i = 0; i < 2; ++i) {
    Position part = Part(i);
    part.epoch = Epoch{i};
    msg::Restore word = Word(joined[i], ToJson(part));
    word.rebuild = true;
    Enlist(word);
  }
  EXPECT_EQ(JoinedOf(1).epoch, Epoch{0});
  EXPECT_EQ(JoinedOf(2).epoch, Epoch{1});
}

}  // namespace
}  // namespace penstock::dispatcher
