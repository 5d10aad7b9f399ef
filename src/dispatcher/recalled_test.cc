// Joining a name that is over, to restore it or to be told so: nobody has it before a position of it was restored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dispatcher/core_harness.h"
#include "plan/position.h"

namespace penstock::dispatcher {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RecalledTest : public testing::Test {
 protected:
  RecalledTest() {
    h.AddWorker(1);
    Scripted first(h.JoinOk(Over("plan", 1), LayoutOf(1)));
    for (uint32_t epoch = 0; epoch < 2; ++epoch) {
      first.beat.epoch = Epoch{epoch};
      first.Hold(h, 1);
      first.Finish(h, first.reply.grants.at(0), {9, 0}, true, 1, true);
    }
    h.Say(SessionId{1}, msg::Leave{first.beat.job, first.beat.consumer, {}, {}});
  }
  void TearDown() override {
    EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
    h.Restart();
    EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
  }
  msg::Join Over(const std::string& plan, uint64_t incarnation, uint32_t consumers = 1) {
    msg::Join join = h.JoinOf(incarnation);
    join.dataset = h.Register(plan);
    join.consumers = consumers;
    join.epochs = 2;
    return join;
  }
  // After the first epoch.
  msg::Restore Word(const std::string& plan, const msg::Joined& joined) {
    Position state;
    state.kind = Position::Kind::kPosition;
    state.job = "train";
    state.dataset = state.rows = "id-of-" + plan;
    state.manifest = "hash";
    state.batch = 4;
    state.consumers = 1;
    state.epoch = state.delivered.epochs_done = Epoch{1};
    msg::Restore restore;
    restore.job = joined.job;
    restore.consumer = joined.consumer;
    restore.consumers = joined.consumers;
    restore.index = joined.index;
    restore.state = ToJson(state);
    return restore;
  }
  msg::Joined Restored(const msg::Restore& word) { return std::get<msg::Joined>(h.Say(SessionId{Raw(word.consumer)}, word)); }
  std::vector<msg::StatusJob> Shown() { return std::get<msg::StatusReply>(h.Say(SessionId{9}, msg::StatusAsk{})).jobs; }

  CoreHarness h;
};

TEST_F(RecalledTest, ALateJoinDoesNotTakeTheNameFromThoseWhoRestoreIt) {
  Scripted late(h.JoinOk(Over("other", 2), LayoutOf(1)));
  EXPECT_THAT(Shown(), IsEmpty());
  const msg::Joined resumes = h.JoinOk(Over("plan", 3), LayoutOf(1));
  h.JoinOk(Over("other", 4), LayoutOf(1));  // nor does one that comes in between
  EXPECT_EQ(Restored(Word("plan", resumes)).epoch, Epoch{1});
  ASSERT_EQ(Shown().size(), 1u);
  EXPECT_EQ(Shown()[0].dataset, "id-of-plan");
  const Status refused = late.Error(h);
  EXPECT_EQ(refused.code(), Code::kMismatch);
  EXPECT_THAT(refused.message(), HasSubstr("others have restored it over another dataset"));
  EXPECT_TRUE(std::holds_alternative<msg::Failed>(h.Join(Over("other", 5), LayoutOf(1)))) << "it is read again";
}

TEST_F(RecalledTest, ALateJoinThatWaitsForItsInputsDoesNotEither) {
  h.Feed(PeerMessage{SessionId{2}, RequestId{900}, Over("other", 2)});
  const std::vector<Ask> asked = h.actions.asks;
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(Restored(Word("plan", h.JoinOk(Over("plan", 3), LayoutOf(1)))).epoch, Epoch{1});
  h.Feed(Answered{asked[0].ask, Message(msg::Inputs{JobId{}, "manifest", "hash", LayoutOf(1)})});
  EXPECT_EQ(Shown().size(), 1u);
}

TEST_F(RecalledTest, OfThoseWhoRestoreItOverOtherDatasetsTheFirstThatAreAllThereHaveIt) {
  const msg::Restore waits = Word("other", h.JoinOk(Over("other", 2, 2), LayoutOf(1)));
  h.Feed(PeerMessage{SessionId{2}, RequestId{900}, waits});
  ASSERT_EQ(Shown().size(), 1u);
  EXPECT_EQ(Shown()[0].state, "waits for consumers 1 to load their state");
  EXPECT_EQ(Restored(Word("plan", h.JoinOk(Over("plan", 3), LayoutOf(1)))).epoch, Epoch{1});
  Status refused;
  for (int tick = 0; tick < 10 && refused.ok(); ++tick) {
    h.Pass(std::chrono::milliseconds(250));
    for (const Send& send : h.actions.sends) {
      if (send.request == RequestId{900}) refused = std::get<msg::Failed>(send.message).error;
    }
  }
  EXPECT_EQ(refused.code(), Code::kMismatch);
}

TEST_F(RecalledTest, ALateLoopThatTakesItForLostIsToldThatItIsOver) {
  msg::Restore word = Word("plan", h.JoinOk(Over("plan", 2), LayoutOf(1)));
  Position nothing = *ParsePosition(word.state);
  nothing.kind = Position::Kind::kPart;
  nothing.delivered = {};
  word.state = ToJson(nothing);
  word.rebuild = true;
  EXPECT_EQ(std::get<msg::Failed>(h.Say(SessionId{2}, word)).error.code(), Code::kFinished);
}

TEST_F(RecalledTest, WithoutAWorkerTheErrorSaysThatItIsOver) {
  h.Feed(SessionClosed{SessionId{1001}});
  h.Feed(PeerMessage{SessionId{2}, RequestId{900}, Over("plan", 2)});
  Status error;
  for (int tick = 0; tick < 200 && error.ok(); ++tick) {
    h.Pass(std::chrono::milliseconds(250));
    for (const Send& send : h.actions.sends) {
      if (send.request == RequestId{900}) error = std::get<msg::Failed>(send.message).error;
    }
  }
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("job 'train' has finished: its 2 epochs were delivered to the end; read again under another job name"));
  EXPECT_THAT(error.message(), HasSubstr("penstock worker --dispatcher"));
}

}  // namespace
}  // namespace penstock::dispatcher
