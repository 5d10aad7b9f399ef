#include <gtest/gtest.h>

#include <chrono>

#include "base/constants.h"
#include "client/core.h"
#include "client/core_test_shell.h"

namespace penstock {
namespace {

// ---- finishing, giving back

TEST(ClientCore, ADeliveredLaneIsFinishedWhenTheLoopCameBackAndUntilItIsNotListed) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 2);
  shell.End(shell.OpenOf(0).stream, 2);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_TRUE(shell.beats.back().finished.empty());
  shell.Grant({GrantOf(0)});
  shell.Next();
  ASSERT_EQ(shell.beats.back().finished.size(), 1u);
  EXPECT_EQ(shell.beats.back().finished[0].upto, (Cursor{2, 0}));
  EXPECT_TRUE(shell.beats.back().finished[0].ended);
  shell.Grant({GrantOf(0)});  // it did not take it in: said again, and not opened anew
  shell.Pass(kHeartbeatEvery);
  EXPECT_EQ(shell.beats.back().finished.size(), 1u);
  shell.Grant({});
  shell.Pass(kHeartbeatEvery);
  EXPECT_TRUE(shell.beats.back().finished.empty());
  EXPECT_EQ(shell.opens.size(), 1u);
  EXPECT_EQ(shell.core().counts().lanes_done, 1u);
}

TEST(ClientCore, ARangeThatWasDeliveredIsFinishedWithoutEndingTheLane) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0, 4, 1, 8)});
  EXPECT_EQ(shell.OpenOf(0).open.range.from, (Cursor{4, 0}));
  shell.Block(shell.OpenOf(0).stream, 4, 8);
  shell.End(shell.OpenOf(0).stream, 8, false);
  shell.Grant({GrantOf(0, 4, 1, 8)});
  shell.Next();
  shell.Next();
  shell.Grant({GrantOf(0, 4, 1, 8)});
  shell.Next();
  ASSERT_EQ(shell.beats.back().finished.size(), 1u);
  EXPECT_EQ(shell.beats.back().finished[0].grant_from, (Cursor{4, 0}));
  EXPECT_EQ(shell.beats.back().finished[0].upto, (Cursor{8, 0}));
  EXPECT_FALSE(shell.beats.back().finished[0].ended);
}

TEST(ClientCore, ARevokeIsAnsweredAtTheReceivedMarkAndNothingMoreIsDelivered) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  msg::BeatReply reply = shell.Reply({GrantOf(0)});
  reply.revoke = {GrantOf(0)};
  shell.Do(reply);
  EXPECT_TRUE(shell.Closed(shell.OpenOf(0).stream));
  ASSERT_EQ(shell.beats.back().finished.size(), 1u);
  EXPECT_EQ(shell.beats.back().finished[0].upto, (Cursor{2, 0}));
  EXPECT_FALSE(shell.beats.back().finished[0].ended);
  EXPECT_EQ(shell.NextRows(), 0u);
  EXPECT_EQ(shell.opens.size(), 1u);
}

TEST(ClientCore, ALaneThatComesBackGoesOnWhereItWas) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.Grant({});  // not its own any more
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.Grant({GrantOf(0)});
  EXPECT_EQ(shell.OpenOf(0).open.range.from, (Cursor{2, 0}));
  shell.Grant({GrantOf(0, 0, 2)});  // another fence, from an older mark: the loop has its first rows
  EXPECT_EQ(shell.OpenOf(0).open.range.from, (Cursor{2, 0}));
}

TEST(ClientCore, RowsThatWereDeliveredBeforeTheLeaseRanOutAreNotDeliveredAgain) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0, 0, 1, 4), GrantOf(1)});
  shell.Do(event::DispatcherDown{Status(Code::kUnavailable, "gone")});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  shell.End(shell.OpenOf(0).stream, 4, false);
  shell.Block(shell.OpenOf(1).stream, 0, 4);
  for (int batch = 0; batch < 4; ++batch) EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.Pass(kDispatcherLease + 1s);
  shell.Do(event::DispatcherUp{});
  shell.Grant({GrantOf(0, 0, 2, 4), GrantOf(1, 0, 2)});  // taken back from the marks of the last beat that came
  EXPECT_EQ(shell.OpenOf(0).open.fence, Fence{1}) << "nothing is left of it";
  EXPECT_EQ(shell.OpenOf(1).open.fence, Fence{2});
  EXPECT_EQ(shell.OpenOf(1).open.range.from, (Cursor{4, 0}));
  ASSERT_FALSE(shell.beats.back().finished.empty());
  EXPECT_EQ(shell.beats.back().finished[0].upto, (Cursor{4, 0}));
}

TEST(ClientCore, RowsOfALaneThatEndedWhileAReplyWasOnItsWayAreNotDeliveredAgain) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0, 0, 1, 4)});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  shell.End(shell.OpenOf(0).stream, 4, false);
  for (const uint64_t rows : {2u, 2u, 0u}) EXPECT_EQ(shell.NextRows(), rows);
  shell.Grant({GrantOf(0, 0, 2, 4)});  // as if its lease had run out meanwhile
  EXPECT_EQ(shell.OpenOf(0).open.fence, Fence{1}) << "the loop has all of it";
}

TEST(ClientCore, AnOverLeaseStopsDeliveryAndAReplyRevivesIt) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  shell.Do(event::DispatcherDown{Status(Code::kUnavailable, "gone")});
  shell.Pass(kClientLease + 1s);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.Do(event::DispatcherUp{});
  shell.Grant({GrantOf(0)});
  EXPECT_EQ(shell.NextRows(), 2u);
}

TEST(ClientCore, TheLeaseRunsFromWhenTheBeatWasSent) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  shell.clock().Advance(11s);
  shell.Do(shell.Reply({GrantOf(0)}));  // an answer that took 11 s
  shell.clock().Advance(2s);
  EXPECT_EQ(shell.NextRows(), 0u);
}

// ---- tails and the end

TEST(ClientCore, AConsumerWithOnlyTailsBeatsIdleWithTheirRows) {
  CoreShell shell(BatchOf(4));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Grant({GrantOf(0)});
  EXPECT_FALSE(shell.beats.back().idle);
  shell.Block(shell.OpenOf(0).stream, 0, 3);
  shell.End(shell.OpenOf(0).stream, 3);
  shell.Grant({GrantOf(0)});
  EXPECT_TRUE(shell.beats.back().idle);
  EXPECT_EQ(shell.beats.back().tail_rows, 3u);
  EXPECT_EQ(shell.beats.back().holds.size(), 1u);
}

TEST(ClientCore, ATailIsShrunkOnceItsGroupsWereDelivered) {
  CoreShell shell(BatchOf(4));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 9);
  shell.End(shell.OpenOf(0).stream, 9);
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_TRUE(shell.shrunk.empty());
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_EQ(shell.shrunk.size(), 1u);
  EXPECT_EQ(shell.NextRows(), 0u);
  EXPECT_EQ(shell.shrunk.size(), 1u);
}

TEST(ClientCore, EndDeliversTheShortBatchAndThenFinishesItsLanes) {
  CoreShell shell(BatchOf(4));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 3);
  shell.End(shell.OpenOf(0).stream, 3);
  msg::BeatReply end = shell.Reply({GrantOf(0)});
  end.end = true;
  shell.Answer(end);
  EXPECT_EQ(shell.NextRows(), 3u);
  shell.Answer(end);
  EXPECT_TRUE(std::holds_alternative<Shelf::EpochEnd>(shell.Next()));
  ASSERT_EQ(shell.beats.back().finished.size(), 1u);
  EXPECT_TRUE(shell.beats.back().finished[0].ended);
  EXPECT_EQ(shell.beats.back().want, 0u);
}

TEST(ClientCore, DropRemainderFinishesTheTailAsEnded) {
  CoreShell shell(BatchOf(4, true));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 3);
  shell.End(shell.OpenOf(0).stream, 3);
  msg::BeatReply end = shell.Reply({GrantOf(0)});
  end.end = true;
  shell.Answer(end);
  EXPECT_TRUE(std::holds_alternative<Shelf::EpochEnd>(shell.Next()));
  ASSERT_EQ(shell.beats.back().finished.size(), 1u);
  EXPECT_TRUE(shell.beats.back().finished[0].ended);
  EXPECT_EQ(shell.shelf().totals().dropped_rows, 3u);
}

TEST(ClientCore, LeavingAnEpochEarlyGivesItsLanesBackAtTheReceivedMark) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0), GrantOf(1)});
  shell.Block(shell.OpenOf(0).stream, 0, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.shelf().BeginEpoch(Epoch{1});
  shell.Do(shell.shelf().TakeProgress());
  shell.Do(event::StartEpoch{Epoch{1}});
  shell.Pass(kHeartbeatEvery);
  const msg::Beat& beat = shell.beats.back();
  EXPECT_EQ(beat.epoch, Epoch{1});
  ASSERT_EQ(beat.finished.size(), 2u);
  EXPECT_EQ(beat.finished[0].upto, (Cursor{2, 0}));
  EXPECT_EQ(beat.finished[1].upto, (Cursor{0, 0}));
  EXPECT_TRUE(beat.holds.empty());
  for (const msg::Beat& said : shell.beats) EXPECT_TRUE(said.epoch == Epoch{1} || said.finished.empty()) << "it would be granted again";
}

TEST(ClientCore, CloseLeavesAtTheReceivedMarkAndLetsGoOfAll) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const Handle block = shell.Block(shell.OpenOf(0).stream, 0, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.shelf().Close();
  shell.Do(shell.shelf().TakeProgress());
  shell.Do(event::Close{});
  ASSERT_EQ(shell.leaves.size(), 1u);
  ASSERT_EQ(shell.leaves[0].finished.size(), 1u);
  EXPECT_EQ(shell.leaves[0].finished[0].upto, (Cursor{2, 0}));
  EXPECT_TRUE(shell.released.contains(block));
  EXPECT_TRUE(shell.Closed(shell.OpenOf(0).stream));
}

TEST(ClientCore, WhereStepsCountTheLastBeatSaysThemBeforeItLeavesAndAsksForNothing) {
  CoreShell shell(BatchOf(2));
  shell.adjust_join = [](msg::Joined& joined) { joined.even = Even::kDrop; };
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.shelf().Close();
  shell.Do(shell.shelf().TakeProgress());
  shell.Do(event::Close{});
  ASSERT_EQ(shell.leaves.size(), 1u);
  EXPECT_EQ(shell.beats.back().batches, 2u);
  EXPECT_EQ(shell.beats.back().want, 0u);
  EXPECT_FALSE(shell.beats.back().idle);
}

TEST(ClientCore, WhereItsLastBatchMayBeRepeatedTheLaneOfItIsHeldWhileTheLoopWaits) {
  CoreShell shell(BatchOf(2));
  shell.adjust_join = [](msg::Joined& joined) { joined.even = Even::kPad; };
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  shell.End(shell.OpenOf(0).stream, 4);
  for (const uint64_t rows : {2, 2, 0}) EXPECT_EQ(shell.NextRows(), rows);
  shell.Pass(std::chrono::seconds(2));
  const msg::Beat& beat = shell.beats.back();
  EXPECT_EQ(beat.batches, 2u);
  EXPECT_EQ(beat.tag, 1u);
  ASSERT_EQ(beat.holds.size(), 1u);
  EXPECT_EQ(beat.holds[0].asked, (Cursor{2, 0}));
  EXPECT_TRUE(beat.finished.empty());
}

TEST(ClientCore, TagsOfARankThatWasStartedAnewGoOnWhereTheOneBeforeItWas) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  msg::BeatReply seated = shell.Reply({GrantOf(0)});
  seated.first_tag = 40;
  shell.Answer(seated);
  shell.Block(shell.OpenOf(0).stream, 0, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.shelf().tag().step, 42u);
  seated.grants = {GrantOf(0), GrantOf(1)};
  shell.Answer(seated);
  EXPECT_EQ(shell.beats.back().tag, 41u) << "the loop has not come back after the last";
  EXPECT_EQ(shell.beats.back().batches, 2u) << "of its own";
  EXPECT_TRUE(shell.shelf().Delivered(40).ok());
  EXPECT_FALSE(shell.shelf().Delivered(39).ok()) << "the other start's";
}

TEST(ClientCore, AWordFromBeforeTheStepsWereKnownDoesNotTakeThemBack) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 2);
  shell.End(shell.OpenOf(0).stream, 2);
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.Next();
  msg::BeatReply last = shell.Reply({});
  last.limit = last.steps = 3;
  last.end = true;
  shell.Answer(last);
  EXPECT_TRUE(std::holds_alternative<Shelf::Again>(shell.Next()));
  msg::BeatReply overtaken = shell.Reply({});  // not asked for, so it names the same beat
  overtaken.limit = 1;
  shell.Do(overtaken);
  EXPECT_TRUE(std::holds_alternative<Shelf::Again>(shell.Next()));
  EXPECT_TRUE(std::holds_alternative<Shelf::EpochEnd>(shell.Next()));
}

}  // namespace
}  // namespace penstock
