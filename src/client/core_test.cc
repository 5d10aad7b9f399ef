#include "client/core.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/constants.h"
#include "client/core_test_shell.h"

namespace penstock {
namespace {

Layout BatchOf(uint64_t n, bool drop = false) {
  Layout layout;
  layout.lanes = 100;
  layout.batch = n;
  layout.drop_remainder = drop;
  return layout;
}

// ---- joining and beats

TEST(ClientCore, JoinsWhenTheDispatcherIsThereAndAgainUntilItAnswers) {
  CoreShell shell(BatchOf(2));
  shell.Do(event::Timer{});
  EXPECT_EQ(shell.joins, 0);
  shell.Do(event::DispatcherUp{});
  EXPECT_EQ(shell.joins, 1);
  shell.Do(msg::Failed{Status(Code::kUnavailable, "no worker yet")});
  EXPECT_EQ(shell.core().WaitingFor(), "no worker yet");
  shell.Pass(100ms);
  EXPECT_EQ(shell.joins, 2);
  shell.Pass(kSilence);
  EXPECT_EQ(shell.joins, 3);
}

TEST(ClientCore, AJoinThatIsRefusedForGoodFailsTheReader) {
  CoreShell shell(BatchOf(2));
  shell.Do(event::DispatcherUp{});
  shell.Do(msg::Failed{Status(Code::kFinished, "the job has ended")});
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kFinished);
}

TEST(ClientCore, BeatsAtOnceWithNewsAndEachSecondWithout) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  ASSERT_EQ(shell.beats.size(), 1u);
  EXPECT_EQ(shell.beats[0].want, kOpenLanes + kSpareGrants);
  EXPECT_TRUE(shell.beats[0].idle);
  shell.Grant({GrantOf(0)});
  ASSERT_EQ(shell.beats.size(), 2u);  // it wants one fewer now
  EXPECT_EQ(shell.beats[1].want, kOpenLanes + kSpareGrants - 1);
  EXPECT_EQ(shell.beats[1].holds.size(), 1u);
  shell.Grant({GrantOf(0)});
  EXPECT_EQ(shell.beats.size(), 2u);
  shell.Pass(kHeartbeatEvery);
  EXPECT_EQ(shell.beats.size(), 3u);
}

TEST(ClientCore, OneBeatIsOutAtATimeAndALostOneIsSaidAgain) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  msg::BeatReply unasked = shell.Reply({GrantOf(0)});
  unasked.serial = 0;
  shell.Do(unasked);  // news while a beat is out
  EXPECT_EQ(shell.beats.size(), 1u);
  shell.Pass(kHeartbeatEvery);
  ASSERT_EQ(shell.beats.size(), 2u);
  EXPECT_GT(shell.beats[1].serial, shell.beats[0].serial);
  EXPECT_EQ(shell.beats[1].holds.size(), 1u);
}

TEST(ClientCore, ANewSessionOfTheDispatcherIsToldAllAtOnce) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Do(event::DispatcherDown{Status(Code::kUnavailable, "gone")});
  const size_t before = shell.beats.size();
  shell.Pass(kHeartbeatEvery);
  EXPECT_EQ(shell.beats.size(), before);
  shell.Do(event::DispatcherUp{});
  ASSERT_EQ(shell.beats.size(), before + 1);
  EXPECT_EQ(shell.beats.back().holds.size(), 1u);
  EXPECT_EQ(shell.joins, 1);
}

TEST(ClientCore, AnotherGenerationShutsTheReaderOut) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  msg::BeatReply reply = shell.Reply({});
  reply.generation = Generation{1};
  shell.Do(reply);
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kStale);
}

// ---- opening lanes

TEST(ClientCore, KeepsSomeLanesOpenAndTheRestSpare) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2), WorkerAt(3)});
  shell.Grant({GrantOf(0), GrantOf(1), GrantOf(2), GrantOf(3), GrantOf(4), GrantOf(5)});
  EXPECT_EQ(shell.opens.size(), kOpenLanes);
  EXPECT_EQ(shell.beats.back().want, 0u);
  const auto first = shell.OpenOf(0);
  shell.Block(first.stream, 0, 2);
  shell.End(first.stream, 2);
  EXPECT_EQ(shell.opens.size(), kOpenLanes + 1);  // a spare one takes the place
}

TEST(ClientCore, AMixedJobKeepsAsManyLanesOpenAsABatchDrawsFrom) {
  Layout layout = BatchOf(12);
  layout.mix = 6;
  CoreShell shell(layout);
  shell.Join({WorkerAt(1)});
  EXPECT_EQ(shell.beats.back().want, 6 + kSpareGrants);
}

TEST(ClientCore, ABusyWorkerIsPassedOverAndAllBusyIsTriedAgainAfterAPause) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  const WorkerId first = shell.OpenOf(0).worker;
  shell.Refuse(shell.OpenOf(0).stream, Code::kBusy);
  EXPECT_NE(shell.OpenOf(0).worker, first);
  shell.Refuse(shell.OpenOf(0).stream, Code::kBusy);
  EXPECT_EQ(shell.opens.size(), 2u);
  EXPECT_NE(shell.core().WaitingFor().find("no room"), std::string::npos);
  shell.Pass(50ms);
  EXPECT_EQ(shell.opens.size(), 3u);
  EXPECT_TRUE(shell.failures.empty());
}

TEST(ClientCore, AnUnreachableWorkerIsPassedOver) {
  CoreShell shell(BatchOf(2));
  shell.ConnectByHand();
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  ASSERT_EQ(shell.connects.size(), 1u);
  shell.Do(event::WorkerDown{shell.connects[0], Status(Code::kUnavailable, "refused")});
  ASSERT_EQ(shell.connects.size(), 2u);
  EXPECT_NE(shell.connects[0], shell.connects[1]);
  shell.Do(event::WorkerUp{shell.connects[1]});
  EXPECT_EQ(shell.OpenOf(0).worker, shell.connects[1]);
}

TEST(ClientCore, ABrokenWorkersLaneGoesOnElsewhereAtItsCursor) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  const auto first = shell.OpenOf(0);
  shell.Block(first.stream, 0, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.Do(event::WorkerDown{first.worker, Status(Code::kUnavailable, "killed")});
  const auto second = shell.OpenOf(0);
  EXPECT_NE(second.worker, first.worker);
  EXPECT_EQ(second.open.range.from, (Cursor{6, 0}));
  EXPECT_EQ(shell.core().counts().reopened, 1u);
  EXPECT_EQ(shell.NextRows(), 2u);  // what had come is still good
}

TEST(ClientCore, ADrainingWorkersLanesMoveWithoutAnError) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  const auto first = shell.OpenOf(0);
  shell.Block(first.stream, 0, 4);
  shell.Do(event::WorkerDraining{first.worker});
  EXPECT_TRUE(shell.Closed(first.stream));
  EXPECT_NE(shell.OpenOf(0).worker, first.worker);
  EXPECT_EQ(shell.OpenOf(0).open.range.from, (Cursor{4, 0}));
  EXPECT_TRUE(shell.failures.empty());
}

TEST(ClientCore, TheLastWorkerIsNotLeftWhenItDrains) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  shell.Do(event::WorkerDraining{WorkerId{1}});
  EXPECT_FALSE(shell.Closed(shell.OpenOf(0).stream));
}

TEST(ClientCore, AReplicasLaneStaysWithItsWorker) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2), WorkerAt(3)});
  msg::Grant grant = GrantOf(0);
  grant.worker = WorkerId{3};
  shell.Grant({grant});
  EXPECT_EQ(shell.OpenOf(0).worker, WorkerId{3});
  shell.Do(event::WorkerDown{WorkerId{3}, Status(Code::kUnavailable, "killed")});
  EXPECT_EQ(shell.opens.size(), 1u);
}

// ---- blocks

TEST(ClientCore, RowsThatCameBeforeAreDroppedAndAGapIsAnError) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  shell.Block(open.stream, 0, 4);
  const Handle again = shell.Block(open.stream, 0, 4);
  EXPECT_TRUE(shell.released.contains(again));
  shell.Block(open.stream, 2, 6);
  EXPECT_EQ(shell.NextRows() + shell.NextRows() + shell.NextRows() + shell.NextRows(), 6u);
  shell.Block(open.stream, 8, 10);
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kInternal);
}

TEST(ClientCore, ABlockOfAClosedStreamIsReleased) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  const auto first = shell.OpenOf(0);
  shell.Do(event::WorkerDraining{first.worker});
  EXPECT_TRUE(shell.released.contains(shell.Block(first.stream, 0, 2)));
}

TEST(ClientCore, CreditComesBackInBulkAsMemoryIsFreed) {
  CoreShell shell(BatchOf(1), 4 * 4000);
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  EXPECT_EQ(open.open.credit, 4000u);
  for (Seq row = 0; row < 4; ++row) shell.Block(open.stream, row, row + 1);
  EXPECT_EQ(shell.credit[open.stream], 0u);
  EXPECT_EQ(shell.NextRows(), 1u);
  EXPECT_EQ(shell.credit[open.stream], 1000u);
}

TEST(ClientCore, WhatTheLoopKeepsIsNotCredited) {
  CoreShell shell(BatchOf(1), 4 * 4000);
  shell.KeepMemory();
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  for (Seq row = 0; row < 4; ++row) shell.Block(open.stream, row, row + 1);
  EXPECT_EQ(shell.NextRows(), 1u);
  EXPECT_EQ(shell.credit[open.stream], 0u);
  EXPECT_EQ(shell.core().kept_bytes(), 1000u);
}

TEST(ClientCore, ALaneWhoseWindowHoldsNoWholeGroupGetsMoreUpToTheBudget) {
  CoreShell shell(BatchOf(6), 4 * 4000);
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  for (Seq row = 0; row < 4; ++row) shell.Block(open.stream, row, row + 1);
  EXPECT_EQ(shell.NextRows(), 0u);  // the loop waits, and the window is full
  EXPECT_GE(shell.credit[open.stream], 1000u);
  shell.Block(open.stream, 4, 5);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.Block(open.stream, 5, 6);
  EXPECT_EQ(shell.NextRows(), 6u);
}

TEST(ClientCore, ABatchThatCanNeverFitIsAnErrorThatSaysSo) {
  CoreShell shell(BatchOf(1000), 4 * 4000);
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  for (Seq row = 0; row < 16; ++row) {
    shell.Block(open.stream, row, row + 1);
    shell.Next();
  }
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kTooLarge);
  EXPECT_NE(shell.failures[0].message().find("memory"), std::string::npos);
}

TEST(ClientCore, AnEndedLanesBytesAreCreditedWhenTheyAreFreed) {
  CoreShell shell(BatchOf(1));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  shell.Block(open.stream, 0, 1);
  shell.End(open.stream, 1);
  EXPECT_EQ(shell.credit[open.stream], 0u);
  EXPECT_EQ(shell.NextRows(), 1u);
  EXPECT_EQ(shell.credit[open.stream], 1000u);
}

// ---- failures

TEST(ClientCore, AFailureThatIsWorthRetryingGoesElsewhere) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  shell.Fail(shell.OpenOf(0).stream, Code::kUnavailable);
  EXPECT_EQ(shell.opens.size(), 2u);
  EXPECT_TRUE(shell.failures.empty());
}

TEST(ClientCore, ADataErrorIsTriedOnOneOtherWorkerAndThenReachesTheLoopAfterWhatIsReady) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2), WorkerAt(3)});
  shell.Grant({GrantOf(0)});
  shell.Block(shell.OpenOf(0).stream, 0, 4);
  shell.Fail(shell.OpenOf(0).stream, Code::kData);
  EXPECT_TRUE(shell.failures.empty());
  EXPECT_EQ(shell.opens.size(), 2u);
  shell.Fail(shell.OpenOf(0).stream, Code::kData);
  EXPECT_EQ(shell.opens.size(), 2u);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 2u);
  const Shelf::Taken taken = shell.Next();
  ASSERT_TRUE(std::holds_alternative<Status>(taken));
  EXPECT_EQ(std::get<Status>(taken).code(), Code::kData);
  EXPECT_EQ(std::get<Status>(taken).detail("lane"), "0");
}

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
  EXPECT_EQ(shell.beats.back().finished[0].grant_from, 4u);
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

}  // namespace
}  // namespace penstock
