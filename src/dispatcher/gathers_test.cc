// Saving a job's position by asking every consumer for its part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "dispatcher/core_harness.h"
#include "plan/position.h"

namespace penstock::dispatcher {
namespace {

using testing::HasSubstr;

class SaveTest : public testing::Test {
 protected:
  SaveTest() { h.AddWorker(1); }
  void TearDown() override { EXPECT_EQ(h.core->TakeSnapshot(), h.stored); }

  msg::Joined JoinAs(uint32_t index, uint64_t incarnation, uint64_t attempt = 0) {
    msg::Join join = h.JoinOf(incarnation);
    join.consumers = consumers;
    join.index = index;
    join.attempt = attempt;
    return h.JoinOk(join, LayoutOf(4));
  }
  Position Part(uint32_t index) {
    Position part;
    part.kind = Position::Kind::kPart;
    part.job = "train";
    part.dataset = part.rows = "id-of-plan";
    part.manifest = "hash";
    part.batch = 4;
    part.consumers = consumers;
    part.tag = 7;
    part.index = index;
    return part;
  }
  void Save(const Scripted& asker, const Position& now, const Position& at) {
    h.pushed.clear();
    h.Feed(PeerMessage{SessionId{Raw(asker.beat.consumer)}, kSave,
                       msg::SavePosition{asker.beat.job, asker.beat.consumer, {}, 7, ToJson(now), ToJson(at), timeout_ms}});
    for (const Send& send : h.pushed) asked = std::get<msg::PartAsk>(send.message);
  }
  void Answer(const Scripted& from, const Position& part, Status error = {}) { Answer(from, part, part, std::move(error)); }
  void Answer(const Scripted& from, const Position& now, const Position& at, Status error = {}) {
    const msg::Beat& who = from.beat;
    h.Feed(PeerMessage{
        SessionId{Raw(who.consumer)}, {}, msg::PartReply{who.job, who.consumer, {}, asked.gather, ToJson(now), ToJson(at), std::move(error)}});
  }
  void Leave(const Scripted& who) { h.Say(SessionId{Raw(who.beat.consumer)}, msg::Leave{who.beat.job, who.beat.consumer, {}, {}}); }
  // What the one that saves is answered by the last event.
  std::optional<Message> Saved() {
    for (const Send& send : h.actions.sends) {
      if (send.request == kSave) return send.message;
    }
    return std::nullopt;
  }
  Status Refused() {
    const std::optional<Message> answer = Saved();
    return answer.has_value() ? std::get<msg::Failed>(*answer).error : Status();
  }
  std::string Unsaved() { return Refused().message(); }

  static constexpr RequestId kSave{77};
  CoreHarness h;
  uint32_t consumers = 3;
  uint64_t timeout_ms = 60'000;
  msg::PartAsk asked;
};

TEST_F(SaveTest, APositionIsWhatIsDoneWithoutWhatTheLivingDidSinceTheStep) {
  consumers = 2;
  Scripted a(JoinAs(0, 1));
  Scripted b(JoinAs(1, 2));
  a.Hold(h, 1);
  a.Finish(h, a.reply.grants.at(0), {8, 0}, true, 1, false);  // lane 0
  b.Hold(h, 1);
  Position now = Part(0);
  now.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, kLaneEndCursor);
  Position at = Part(0);
  at.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, {4, 0});
  Save(a, now, at);
  ASSERT_EQ(h.pushed.size(), 1u) << "the other one is asked";
  EXPECT_EQ(asked.tag, 7u);
  Answer(b, Part(1));
  ASSERT_TRUE(Saved().has_value());
  const Position saved = *ParsePosition(std::get<msg::SavedPosition>(*Saved()).position);
  EXPECT_EQ(saved.delivered.epochs.at(Epoch{0}).ToString(), "0:0-4") << saved.delivered.epochs.at(Epoch{0}).ToString();
  EXPECT_EQ(saved.tag, 7u);
}

TEST_F(SaveTest, FailsByNameWhenAMemberDiesInBetween) {
  consumers = 2;
  Scripted a(JoinAs(0, 1));
  JoinAs(1, 2);
  a.Hold(h, 1);
  Save(a, Part(0), Part(0));
  std::string error;
  for (int i = 0; i < 80 && error.empty(); ++i) {
    h.Pass(std::chrono::milliseconds(250));
    error = Unsaved();
    if (i % 4 == 3) a.Hold(h, 0);
  }
  EXPECT_THAT(error, HasSubstr("rank-2 died"));
  Save(a, Part(0), Part(0));
  EXPECT_THAT(Unsaved(), HasSubstr("rank-2 is dead"));
}

// One that is at its END saves; the other has had more batches than that one.
class SaveAtEndTest : public SaveTest {
 protected:
  History SavedWhere(bool other_ended, Epoch other_epoch) {
    consumers = 2;
    Scripted a(JoinAs(0, 1));
    Scripted b(JoinAs(1, 2));
    Position first = Part(0);
    first.ended = true;
    Save(a, first, first);
    Position at = Part(1);
    at.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, {4, 0});
    Position now = Part(1);
    now.ended = other_ended;
    now.epoch = other_epoch;
    now.delivered.Add({Epoch{0}, {}, LaneId{0}}, {}, {8, 0});
    if (other_epoch != Epoch{0}) now.delivered.Add({other_epoch, {}, LaneId{0}}, {}, {4, 0});
    Answer(b, now, at);
    const Position saved = *ParsePosition(std::get<msg::SavedPosition>(Saved().value()).position);
    EXPECT_EQ(saved.epoch, Epoch{0});
    return saved.delivered;
  }
};

TEST_F(SaveAtEndTest, HasWhatThoseHadWhoCameToItAtALaterStep) { EXPECT_EQ(SavedWhere(true, Epoch{0}).epochs.at(Epoch{0}).ToString(), "0:0-8"); }

TEST_F(SaveAtEndTest, HasWhatThoseHaveNowWhoReadOn) { EXPECT_EQ(SavedWhere(false, Epoch{0}).epochs.at(Epoch{0}).ToString(), "0:0-8"); }

TEST_F(SaveAtEndTest, HasNothingOfTheNextEpochThatOthersAreIn) {
  const History saved = SavedWhere(false, Epoch{1});
  EXPECT_EQ(saved.epochs.at(Epoch{0}).ToString(), "0:0-8");
  EXPECT_FALSE(saved.epochs.contains(Epoch{1}));
}

TEST_F(SaveTest, OneThatHasHadItsEndWaitsForNobodysStepWhereTheyEndAtTheirOwn) {
  for (const Even even : {Even::kUneven, Even::kDrop}) {
    h = CoreHarness();
    h.AddWorker(1);
    std::vector<Scripted> readers;
    for (uint32_t i = 0; i < 2; ++i) {
      msg::Join join = h.JoinOf(1 + i);
      join.consumers = 2;
      join.index = i;
      join.even = even;
      readers.emplace_back(h.JoinOk(join, LayoutOf(4)));
    }
    consumers = 2;
    Position part = Part(0);
    part.ended = true;
    Save(readers[0], part, part);
    EXPECT_EQ(asked.now, even == Even::kUneven);
  }
}

TEST_F(SaveTest, WaitsForTheOthersAsLongAsItsAskerDoes) {
  consumers = 2;
  timeout_ms = 100'000;
  Scripted a(JoinAs(0, 1));
  Scripted b(JoinAs(1, 2));
  Save(a, Part(0), Part(0));
  const TimePoint began = h.now;
  std::string error;
  while (error.empty() && h.now - began < std::chrono::seconds(200)) {
    h.Pass(std::chrono::milliseconds(250));
    error = Unsaved();
    a.Hold(h, 0);
    b.Hold(h, 0);
  }
  EXPECT_THAT(error, HasSubstr("have not come to step 7"));
  EXPECT_GT(h.now - began, std::chrono::seconds(100));
}

TEST_F(SaveTest, TakesNoAnswerToWhatADispatcherBeforeThisOneAsked) {
  consumers = 2;
  Scripted a(JoinAs(0, 1));
  Scripted b(JoinAs(1, 2));
  a.Hold(h, 1);
  b.Hold(h, 1);
  Save(a, Part(0), Part(0));
  const msg::PartAsk before = asked;
  h.Restart();
  a.Hold(h, 1);
  b.Hold(h, 1);
  Save(a, Part(0), Part(0));
  const msg::PartAsk now = std::exchange(asked, before);
  Answer(b, Part(1));
  EXPECT_FALSE(Saved().has_value());
  asked = now;
  Answer(b, Part(1));
  ASSERT_TRUE(Saved().has_value());
  EXPECT_TRUE(std::holds_alternative<msg::SavedPosition>(*Saved()));
}

TEST_F(SaveTest, EndsWhenAConsumerLeavesBeforeItHasAnswered) {
  Scripted a(JoinAs(0, 1)), b(JoinAs(1, 2)), c(JoinAs(2, 3));
  Save(a, Part(0), Part(0));
  Leave(b);
  const std::string error = Unsaved();
  Answer(c, Part(2));
  EXPECT_THAT(error, HasSubstr("rank-2 left"));
  EXPECT_FALSE(Saved().has_value()) << "a part that comes after that belongs to nothing";
}

TEST_F(SaveTest, EndsWhenAHigherAttemptTakesTheSeatOfOneThatHasNotAnswered) {
  Scripted a(JoinAs(0, 1)), b(JoinAs(1, 2)), c(JoinAs(2, 3));
  Save(a, Part(0), Part(0));
  JoinAs(1, 20, 1);
  const std::string error = Unsaved();
  Answer(b, Part(1), Status(Code::kCancelled, "it closes"));
  EXPECT_THAT(error, HasSubstr("another took its seat"));
}

// Who asks again would get the same answer until its time is over.
TEST_F(SaveTest, EndsWithTheCodeOfTheConsumerThatCannotAnswer) {
  consumers = 2;
  Scripted a(JoinAs(0, 1)), b(JoinAs(1, 2));
  Save(a, Part(0), Part(0));
  Answer(b, Part(1), Status(Code::kNotFound, "step 7 is not kept any more"));
  EXPECT_EQ(Refused().code(), Code::kNotFound);
  EXPECT_EQ(Refused().detail("consumer"), "rank-2") << "it is not the job that is not found";
  EXPECT_THAT(Unsaved(), HasSubstr("rank-2 says: step 7 is not kept any more"));
}

TEST_F(SaveTest, GoesOnWhenOneLeavesThatHasAnswered) {
  Scripted a(JoinAs(0, 1)), b(JoinAs(1, 2)), c(JoinAs(2, 3));
  Save(a, Part(0), Part(0));
  Answer(b, Part(1));
  Leave(b);
  Answer(c, Part(2));
  ASSERT_TRUE(Saved().has_value());
  EXPECT_TRUE(std::holds_alternative<msg::SavedPosition>(*Saved()));
}

}  // namespace
}  // namespace penstock::dispatcher
