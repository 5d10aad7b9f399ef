#include <gtest/gtest.h>

#include <chrono>

#include "base/constants.h"
#include "client/core.h"
#include "client/core_test_shell.h"
#include "client/parts.h"

namespace penstock {
namespace {

Layout BatchOf(uint64_t n) {
  Layout layout;
  layout.lanes = 100;
  layout.batch = n;
  return layout;
}

ClientCoreOptions Options(OnRestart on_restart = OnRestart::kError) {
  ClientCoreOptions options;
  options.join.consumers = 2;
  options.join.index = 1;
  options.join.attempt = 5;
  options.join.on_restart = on_restart;
  options.plan = "plan";
  return options;
}

std::string DeliveredOf(const Shelf& shelf) {
  const auto point = shelf.Delivered();
  return point->rows.epochs.empty() ? "" : point->rows.epochs.begin()->second.ToString();
}

// In the middle of lane 0: the loop has rows 0 to 4, four more are on the shelf.
void ReadSome(CoreShell& shell) {
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 8);
  EXPECT_EQ(shell.NextRows(), 4u);
}

TEST(ClientCoreRestore, SaysWhoItIsAndBeginsAgainWithWhatIsGrantedThen) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  EXPECT_EQ(DeliveredOf(shell.shelf()), "0:0-4");
  shell.Do(event::Restore{"state"});
  ASSERT_EQ(shell.restores.size(), 1u);
  EXPECT_EQ(shell.restores[0].state, "state");
  EXPECT_EQ(shell.restores[0].consumers, 2u);
  EXPECT_EQ(shell.restores[0].index, 1u);
  EXPECT_EQ(shell.restores[0].attempt, 5u);
  EXPECT_FALSE(shell.restores[0].rebuild);
  const LaneStream before = shell.OpenOf(0).stream;
  shell.Do(shell.Welcome(1));
  EXPECT_TRUE(shell.Closed(before));
  EXPECT_EQ(DeliveredOf(shell.shelf()), "");
  EXPECT_EQ(shell.NextRows(), 0u);  // what was on the shelf was of the old generation
  EXPECT_EQ(shell.beats.back().generation, Generation{1});
  EXPECT_TRUE(shell.beats.back().holds.empty());
  msg::BeatReply reply = shell.Reply({GrantOf(0, 2, 7)});
  reply.generation = Generation{1};
  shell.Answer(reply);
  EXPECT_EQ(shell.OpenOf(0).open.range.from, (Cursor{2, 0}));
  EXPECT_EQ(shell.OpenOf(0).open.generation, Generation{1});
  shell.Block(shell.OpenOf(0).stream, 2, 6);
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_EQ(DeliveredOf(shell.shelf()), "0:2-6");
  EXPECT_TRUE(shell.failures.empty());
}

TEST(ClientCoreRestore, IsSaidAgainToADispatcherThatCameBack) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  shell.Do(event::Restore{"state"});
  shell.Do(event::DispatcherDown{Status(Code::kUnavailable, "gone")});
  shell.Do(event::RestoreRefused{Status(Code::kUnavailable, "gone")});
  EXPECT_EQ(shell.restores.size(), 1u);
  shell.Do(event::DispatcherUp{});
  EXPECT_EQ(shell.restores.size(), 2u);
  shell.Do(shell.Welcome(1));
  shell.Do(shell.Welcome(1));  // the first one's answer, late
  EXPECT_TRUE(shell.failures.empty());
}

TEST(ClientCoreRestore, ThatIsRefusedLeavesTheReaderWhereItWas) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  shell.Do(event::Restore{"state"});
  shell.Do(event::RestoreRefused{Status(Code::kMismatch, "another dataset")});
  ASSERT_EQ(shell.restore_failures.size(), 1u);
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_EQ(DeliveredOf(shell.shelf()), "0:0-8");
}

TEST(ClientCoreRestore, RepliesOfTheGenerationBeforeMeanNothing) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  shell.Do(event::Restore{"state"});
  msg::BeatReply ahead = shell.Reply({});
  ahead.generation = Generation{1};  // overtakes the answer to the restore
  shell.Do(ahead);
  EXPECT_TRUE(shell.failures.empty());
  const msg::BeatReply old = shell.Reply({GrantOf(3)});
  shell.Do(shell.Welcome(1));
  shell.Do(old);
  EXPECT_TRUE(shell.failures.empty());
  EXPECT_EQ(shell.opens.size(), 1u);
}

TEST(ClientCoreRestore, OneThatWasRestoredByOthersFails) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  msg::BeatReply reply = shell.Reply({});
  reply.generation = Generation{1};
  shell.Do(reply);
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kStale);
}

TEST(ClientCoreRestore, OneThatIsUndecidedBeginsWhenItsLoopDoes) {
  CoreShell shell(BatchOf(4), Options());
  shell.Do(event::DispatcherUp{});
  msg::Joined joined = shell.Welcome();
  joined.undecided = true;
  shell.Do(joined);
  EXPECT_FALSE(shell.beats.back().begun);
  shell.Do(event::Begin{});
  EXPECT_TRUE(shell.beats.back().begun);
  EXPECT_TRUE(shell.restores.empty());
}

TEST(ClientCoreRestore, OneThatIsUndecidedAndShallRestartRestoresTheJobsStart) {
  CoreShell shell(BatchOf(4), Options(OnRestart::kRestart));
  shell.Do(event::DispatcherUp{});
  msg::Joined joined = shell.Welcome();
  joined.undecided = true;
  shell.Do(joined);
  EXPECT_TRUE(shell.restores.empty());
  shell.Do(event::Begin{});
  ASSERT_EQ(shell.restores.size(), 1u);
  EXPECT_EQ(shell.restores[0].state, "");
  EXPECT_FALSE(shell.beats.back().begun);
  shell.Do(shell.Welcome(1));
  EXPECT_TRUE(shell.beats.back().begun);
}

TEST(ClientCoreRestore, StepsAndLimitsOfTheGenerationBeforeAreForgotten) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  msg::BeatReply limited = shell.Reply({GrantOf(0)});
  limited.limit = 1;
  shell.Answer(limited);
  shell.Do(event::Restore{"state"});
  shell.Do(shell.Welcome(1));
  EXPECT_EQ(shell.beats.back().batches, 0u);
  EXPECT_EQ(shell.beats.back().ready_batches, 0u);
  limited = shell.Reply({GrantOf(0)});
  limited.generation = Generation{1};
  limited.limit = 1;
  shell.Answer(limited);
  shell.Block(shell.OpenOf(0).stream, 0, 8);
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_EQ(shell.NextRows(), 0u) << "the same limit as before holds again";
}

TEST(ClientCoreRestore, TagsOfTheGenerationBeforeAreForgotten) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  EXPECT_EQ(shell.NextRows(), 4u);
  shell.Pass(kHeartbeatEvery);
  EXPECT_EQ(shell.beats.back().tag, 1u);
  shell.Do(event::Restore{"state"});
  shell.Do(shell.Welcome(1));
  ASSERT_EQ(shell.beats.back().generation, Generation{1});
  EXPECT_EQ(shell.beats.back().tag, 0u);
}

TEST(ClientCoreRestore, AJobThatTheDispatcherHasLostIsRebuiltAndTheLoopGoesOn) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  const size_t beats = shell.beats.size();
  shell.Do(msg::Failed{Status(Code::kNotFound, "this dispatcher does not know the job")});
  EXPECT_EQ(shell.registers, 1);
  EXPECT_EQ(shell.NextRows(), 0u);  // stands still: the part that is sent is what the loop has
  shell.Do(msg::Registered{"dataset"});
  EXPECT_EQ(shell.joins, 2);
  msg::Joined joined = shell.Welcome();
  joined.job = JobId{8};
  shell.Do(joined);
  ASSERT_EQ(shell.restores.size(), 1u);
  EXPECT_TRUE(shell.restores[0].rebuild);
  EXPECT_EQ(shell.restores[0].job, JobId{8});
  EXPECT_EQ(shell.beats.size(), beats);
  joined.generation = Generation{1};
  shell.Do(joined);
  msg::BeatReply reply = shell.Reply({GrantOf(0, 4, 2)});
  reply.generation = Generation{1};
  shell.Answer(reply);
  shell.Block(shell.OpenOf(0).stream, 4, 8);
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_EQ(DeliveredOf(shell.shelf()), "0:4-8");
  EXPECT_EQ(shell.shelf().tag().step, 2u);  // ranks that save a position together mean the loop's steps
  EXPECT_EQ(shell.shelf().totals().epoch_batches, 2u);
  EXPECT_TRUE(shell.failures.empty());
}

// A reader that finds the dispatcher again says what it restores, and beats.
TEST(ClientCoreRestore, OfAJobThatTheDispatcherHasLostIsSaidAfterAJoinThoughABeatWasRefusedToo) {
  CoreShell shell(BatchOf(4), Options());
  shell.Join({WorkerAt(1)});
  shell.Do(event::Restore{"state"});
  ASSERT_EQ(shell.restores.size(), 1u);
  const Status lost(Code::kNotFound, "this dispatcher does not know the job");
  shell.Do(event::RestoreRefused{lost});
  shell.Do(msg::Failed{lost});
  shell.Do(msg::Failed{lost});
  EXPECT_EQ(shell.registers, 1);
  shell.Do(msg::Registered{"dataset"});
  EXPECT_EQ(shell.joins, 2);
  shell.Do(msg::Failed{lost});  // a beat's that was late, or the join's
  shell.Pass(std::chrono::seconds(1));
  EXPECT_EQ(shell.registers, 2);
  shell.Do(msg::Registered{"dataset"});
  EXPECT_EQ(shell.joins, 3);
  msg::Joined joined = shell.Welcome();
  joined.job = JobId{8};
  shell.Do(joined);
  ASSERT_EQ(shell.restores.size(), 2u);
  EXPECT_EQ(shell.restores[1].job, JobId{8});
  EXPECT_EQ(shell.restores[1].state, "state");
  EXPECT_FALSE(shell.restores[1].rebuild);
  joined.generation = Generation{1};
  shell.Do(joined);
  EXPECT_EQ(shell.core().generation(), Generation{1});
  EXPECT_TRUE(shell.failures.empty());
  EXPECT_TRUE(shell.restore_failures.empty());
}

TEST(ClientCoreRestore, WhileAJobIsRebuiltNoTimerIsSetForBeatsThatAreNotSent) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  shell.Do(msg::Failed{Status(Code::kNotFound, "this dispatcher does not know the job")});
  shell.Pass(2 * kHeartbeatEvery);
  EXPECT_GT(shell.timer, shell.clock().Now()) << "it would fire again and again at once";
}

TEST(ClientCoreRestore, OfAJobThatIsLostAgainWhileItIsRebuiltBeginsAnew) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  const Status lost(Code::kNotFound, "this dispatcher does not know the job");
  shell.Do(msg::Failed{lost});
  shell.Do(msg::Registered{"dataset"});
  shell.Do(shell.Welcome());
  ASSERT_EQ(shell.restores.size(), 1u);
  shell.Do(event::RestoreRefused{lost});
  EXPECT_EQ(shell.registers, 2);
  shell.Do(msg::Registered{"dataset"});
  shell.Do(shell.Welcome());
  ASSERT_EQ(shell.restores.size(), 2u);
  EXPECT_TRUE(shell.restores[1].rebuild);
  EXPECT_TRUE(shell.failures.empty());
}

// ---- parts

TEST(ClientCoreRestore, OfAJobThatIsNotLostButAnotherStartsIsGivenUpAndThatIsRead) {
  CoreShell shell(BatchOf(4), Options());
  shell.Join({WorkerAt(1)});
  shell.Do(msg::Failed{Status(Code::kNotFound, "no such job")});
  shell.Do(msg::Registered{"id"});
  msg::Joined other = shell.Welcome();
  other.job = JobId{8};
  shell.Do(other);
  ASSERT_EQ(shell.restores.size(), 1u);
  EXPECT_TRUE(shell.restores[0].rebuild);
  shell.Do(event::RestoreRefused{Status(Code::kExists, "it is being read")});
  EXPECT_TRUE(shell.failures.empty());
  EXPECT_FALSE(shell.core().rebuilding());
  EXPECT_EQ(shell.beats.back().job, JobId{8});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  EXPECT_EQ(shell.NextRows(), 4u);
}

TEST(PartAsks, AreAnsweredWhenTheLoopHasComeToTheStep) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  msg::Joined joined = shell.Welcome();
  joined.consumers = 2;
  joined.index = 1;
  PartAsks asks;
  asks.Add({JobId{7}, 11, 2});
  EXPECT_TRUE(asks.Answer({}, joined, shell.shelf()).empty());
  EXPECT_EQ(shell.NextRows(), 4u);
  const auto replies = asks.Answer({}, joined, shell.shelf());
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].gather, 11u);
  EXPECT_TRUE(replies[0].error.ok());
  EXPECT_EQ(ParsePosition(replies[0].at_tag)->delivered.epochs.at(Epoch{0}).ToString(), "0:0-8");
  EXPECT_EQ(ParsePosition(replies[0].at_tag)->index, 1u);
  EXPECT_TRUE(asks.empty());
}

TEST(PartAsks, OfAStepBeforeTellWhatWasThenAndWhatIsNow) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  EXPECT_EQ(shell.NextRows(), 4u);
  msg::Joined joined = shell.Welcome();
  joined.consumers = 2;
  PartAsks asks;
  asks.Add({JobId{7}, 1, 1});
  const auto replies = asks.Answer({}, joined, shell.shelf());
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(ParsePosition(replies[0].current)->delivered.epochs.at(Epoch{0}).ToString(), "0:0-8");
  EXPECT_EQ(ParsePosition(replies[0].at_tag)->delivered.epochs.at(Epoch{0}).ToString(), "0:0-4");
}

TEST(ClientCoreRestore, OfAReaderThatIsOverIsRefusedAtOnceWithTheReason) {
  CoreShell failed(BatchOf(4), Options());
  ReadSome(failed);
  failed.Do(msg::Failed{Status(Code::kPermission, "no")});
  failed.Do(event::Restore{"state"});
  ASSERT_EQ(failed.restore_failures.size(), 1u);
  EXPECT_EQ(failed.restore_failures[0].code(), Code::kPermission);
  CoreShell closed(BatchOf(4), Options());
  ReadSome(closed);
  closed.Do(event::Close{});
  closed.Do(event::Restore{"state"});
  ASSERT_EQ(closed.restore_failures.size(), 1u);
  EXPECT_EQ(closed.restore_failures[0].code(), Code::kCancelled);
  EXPECT_TRUE(closed.restores.empty());
}

TEST(ClientCoreRestore, IsAnsweredWhenTheReaderIsClosedMeanwhile) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  shell.Do(event::Restore{"state"});
  shell.Do(event::Close{});
  ASSERT_EQ(shell.restore_failures.size(), 1u);
  EXPECT_EQ(shell.restore_failures[0].code(), Code::kCancelled);
}

TEST(ClientCoreRestore, ThatWasGivenUpDoesNotMoveTheReaderWhenItIsGrantedLater) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  shell.Do(event::Restore{"state"});
  shell.Do(event::GiveUpRestore{Status(Code::kStalled, "late")});
  ASSERT_EQ(shell.restore_failures.size(), 1u);
  EXPECT_EQ(shell.restore_failures[0].code(), Code::kStalled);
  shell.Do(shell.Welcome(1));
  EXPECT_EQ(shell.NextRows(), 4u) << "the reader is where it was";
  EXPECT_EQ(DeliveredOf(shell.shelf()), "0:0-8");
  EXPECT_TRUE(shell.failures.empty());
  shell.Pass(kHeartbeatEvery);
  msg::BeatReply reply = shell.Reply({});
  reply.generation = Generation{1};
  shell.Do(reply);
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kStale);
}

TEST(ClientCoreRestore, ThatWasAnsweredIsNotGivenUpAnyMore) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  shell.Do(event::Restore{"state"});
  shell.Do(shell.Welcome(1));
  shell.Do(event::GiveUpRestore{Status(Code::kStalled, "late")});
  EXPECT_TRUE(shell.restore_failures.empty());
}

TEST(PartAsks, OfAStepThatIsNotKeptAnyMoreAreRefusedAtTheEpochsEndToo) {
  CoreShell shell(BatchOf(1), Options());
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 80);
  for (int batch = 0; batch < 80; ++batch) EXPECT_EQ(shell.NextRows(), 1u);
  msg::Joined joined = shell.Welcome();
  joined.consumers = 2;
  PartAsks asks;
  asks.Add({JobId{7}, 1, 3});
  EXPECT_EQ(asks.Answer({}, joined, shell.shelf())[0].error.code(), Code::kNotFound);
  shell.End(shell.OpenOf(0).stream, 80);
  shell.shelf().EndEpoch(Epoch{0});
  asks.Add({JobId{7}, 2, 3});
  EXPECT_EQ(asks.Answer({}, joined, shell.shelf())[0].error.code(), Code::kNotFound) << "the rows after that step are none of its state";
}

TEST(PartAsks, OfAStepInTheNextEpochWaitForItWhereAllEndAtOneStep) {
  CoreShell shell(BatchOf(4), Options());
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  EXPECT_EQ(shell.NextRows(), 4u);
  shell.End(shell.OpenOf(0).stream, 4);
  shell.shelf().EndEpoch(Epoch{0});
  msg::Joined joined = shell.Welcome();
  joined.consumers = 2;
  joined.even = Even::kDrop;
  PartAsks asks;
  asks.Add({JobId{7}, 1, 2});
  EXPECT_TRUE(asks.Answer({}, joined, shell.shelf()).empty()) << "its second batch comes after the epoch's end";
  joined.even = Even::kUneven;
  EXPECT_EQ(asks.Answer({}, joined, shell.shelf()).size(), 1u) << "it may have no second batch";
}

TEST(PartAsks, OfOneThatHasHadItsEndAreAnsweredAtOnceWithWhatThereIs) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  msg::Joined joined = shell.Welcome();
  joined.consumers = 2;
  for (const uint64_t step : {0u, 100u}) {  // one that is not kept any more would be refused, one to come waited for
    PartAsks asks;
    asks.Add({JobId{7}, 11, step, true});
    const auto replies = asks.Answer({}, joined, shell.shelf());
    ASSERT_EQ(replies.size(), 1u);
    EXPECT_TRUE(replies[0].error.ok());
    EXPECT_EQ(replies[0].at_tag, replies[0].current);
  }
}

TEST(PartAsks, AreAnsweredAtOnceWhereConsumersShareNoSteps) {
  CoreShell shell(BatchOf(4), Options());
  ReadSome(shell);
  PartAsks asks;
  asks.Add({JobId{7}, 1, 50});
  EXPECT_EQ(asks.Answer({}, shell.Welcome(), shell.shelf()).size(), 1u);
}

}  // namespace
}  // namespace penstock
