#include <gtest/gtest.h>

#include <chrono>

#include "base/constants.h"
#include "client/core.h"
#include "client/core_test_shell.h"

namespace penstock {
namespace {

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

TEST(ClientCore, WhoseLoopHasPlentyAsksForNoMoreLanesThanAreKeptOpen) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  std::vector<msg::Grant> grants;
  for (uint32_t lane = 0; lane < kOpenLanes + kSpareGrants; ++lane) grants.push_back(GrantOf(lane));
  shell.Grant(grants);
  for (uint32_t lane = 0; lane < kOpenLanes + kSpareGrants; ++lane) {
    const auto open = shell.OpenOf(lane);
    shell.Block(open.stream, 0, 100);
    shell.End(open.stream, 100);
  }
  shell.Pass(1100ms);
  EXPECT_EQ(shell.beats.back().want, 0u) << "what is there is for others";
}

TEST(ClientCore, WhoseLoopIsQuickReadsAhead) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0), GrantOf(1), GrantOf(2)});
  for (const uint32_t lane : {0, 1, 2}) {
    const auto open = shell.OpenOf(lane);
    shell.Block(open.stream, 0, 1000);
    shell.End(open.stream, 1000);
  }
  for (int step = 0; step < 1000; ++step) shell.Next();
  shell.Pass(150ms);
  shell.Next();
  EXPECT_EQ(shell.beats.back().want, kOpenLanes + kSpareGrants);
}

TEST(ClientCore, WhoseLanesEndFasterThanBeatsAreAnsweredKeepsMoreOfThemSpare) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  for (uint32_t lane = 0; lane < 40; ++lane) {
    shell.Grant({GrantOf(lane)});
    const auto open = shell.OpenOf(lane);
    shell.Block(open.stream, 0, 2);
    shell.End(open.stream, 2);
    shell.Next();
    shell.Next();
    shell.Pass(5ms);
  }
  EXPECT_GT(shell.beats.back().want, kOpenLanes + 5 * kSpareGrants);
  shell.Pass(20s);
  shell.Next();
  shell.Pass(1100ms);
  EXPECT_EQ(shell.beats.back().want, kOpenLanes + kSpareGrants) << "for the others, since it has become slow";
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

TEST(ClientCore, ABrokenWorkersLaneGoesOnElsewhereFromItsNewestBlock) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  const auto first = shell.OpenOf(0);
  shell.Block(first.stream, 0, 4);
  shell.Block(first.stream, 4, 6);
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.Do(event::WorkerDown{first.worker, Status(Code::kUnavailable, "killed")});
  const auto second = shell.OpenOf(0);
  EXPECT_NE(second.worker, first.worker);
  EXPECT_EQ(second.open.range.from, (Cursor{4, 0}));
  EXPECT_EQ(shell.core().counts().reopened, 1u);
  EXPECT_EQ(shell.NextRows(), 2u);  // what had come is still good
}

TEST(ClientCore, ALaneWhoseOnlyWorkerIsGoneIsNotTakenForReadToItsEnd) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto first = shell.OpenOf(0);
  shell.Block(first.stream, 0, 4);
  shell.Do(event::WorkerDown{first.worker, Status(Code::kUnavailable, "killed")});
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.Answer(shell.Reply({GrantOf(0)}));
  shell.Pass(std::chrono::seconds(2));
  ASSERT_EQ(shell.beats.back().holds.size(), 1u);
  EXPECT_EQ(shell.beats.back().holds[0].ready_rows, 2u);
  EXPECT_FALSE(shell.beats.back().holds[0].ended);
}

TEST(ClientCore, ADrainingWorkersLanesMoveWithoutAnError) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  const auto first = shell.OpenOf(0);
  shell.Block(first.stream, 0, 2);
  shell.Block(first.stream, 2, 4);
  shell.Do(event::WorkerDraining{first.worker});
  EXPECT_TRUE(shell.Closed(first.stream));
  EXPECT_NE(shell.OpenOf(0).worker, first.worker);
  EXPECT_EQ(shell.OpenOf(0).open.range.from, (Cursor{2, 0}));
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

TEST(ClientCore, AGrantThatEndsWithinTheRowsOfASourceRowIsMadeWholeAndDeliveredToItsEnd) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  msg::Grant grant = GrantOf(0, 3, 1, 5);
  grant.range.last_children = 1;
  shell.Grant({grant});
  const auto opened = shell.OpenOf(0);
  EXPECT_EQ(opened.open.range, (msg::Range{grant.range.lane, {3, 0}, 5})) << "workers make all that a source row became";
  shell.Do(event::BlockArrived{opened.stream, {Handle{77}, {3, {3, 0}, {5, 0}, 1000, 0}, {{3, 0}, {4, 0}, {4, 1}, {5, 0}}}});
  shell.End(opened.stream, 5);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 0u) << "the third row is not of the grant";
  shell.Pass(std::chrono::seconds(1));
  ASSERT_EQ(shell.beats.back().finished.size(), 1u);
  EXPECT_EQ(shell.beats.back().finished[0].upto, (Cursor{4, 1}));
  EXPECT_FALSE(shell.beats.back().finished[0].ended) << "what comes after is not known from this";
}

TEST(ClientCore, GrantsThatShareASourceRowAreDeliveredWithoutTheRowsBetweenThem) {
  CoreShell shell(BatchOf(1));
  shell.Join({WorkerAt(1)});
  msg::Grant before = GrantOf(0, 4, 1, 5);
  before.range.last_children = 1;
  msg::Grant after = GrantOf(0, 4, 1, 6);
  after.range.from.child = 2;
  const auto made = [&](Seq to, std::vector<Cursor> cursors) {
    const LaneStream stream = shell.opens.back().stream;
    shell.Do(event::BlockArrived{stream, {Handle{70 + to}, {cursors.size() - 1, cursors.front(), {to, 0}, 1000, 0}, cursors}});
    shell.End(stream, to, false);
  };
  shell.Grant({after});
  made(6, {{4, 2}, {5, 0}, {6, 0}});
  EXPECT_EQ(shell.NextRows() + shell.NextRows(), 2u);
  shell.Grant({after, before});
  ASSERT_EQ(shell.opens.size(), 2u) << "the loop has rows after it, and not this one";
  made(5, {{4, 0}, {4, 1}, {4, 2}, {5, 0}});
  EXPECT_EQ(shell.NextRows(), 1u);
  EXPECT_EQ(shell.NextRows(), 0u) << "of three that the worker made one is granted";
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
  EXPECT_EQ(shell.credit[open.stream], 0u);
  shell.BlockWaits(open.stream, 4, 5);
  EXPECT_GE(shell.credit[open.stream], 1000u);
  shell.Block(open.stream, 4, 5);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.BlockWaits(open.stream, 5, 6);
  shell.Block(open.stream, 5, 6);
  EXPECT_EQ(shell.NextRows(), 6u);
}

TEST(ClientCore, ABatchThatCanNeverFitIsAnErrorThatSaysSo) {
  CoreShell shell(BatchOf(1000), 4 * 4000);
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  for (Seq row = 0; row < 16; ++row) {
    shell.BlockWaits(open.stream, row, row + 1);
    shell.Block(open.stream, row, row + 1);
    shell.Next();
  }
  EXPECT_TRUE(shell.failures.empty());
  shell.BlockWaits(open.stream, 16, 17);
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

TEST(ClientCore, AFileThatNoWorkerHasFailsTheJobOnceAllHaveSaidSo) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1), WorkerAt(2), WorkerAt(3)});
  shell.Grant({GrantOf(0)});
  const Status missing = Status(Code::kNotFound, "cannot open /data/7").With("file", "/data/7");
  const auto misses = [&] { shell.Do(event::LaneSays{shell.OpenOf(0).stream, msg::LaneFailed{missing}}); };
  misses();
  shell.Fail(shell.OpenOf(0).stream, Code::kUnavailable);
  misses();
  shell.Pass(std::chrono::seconds(1));
  misses();
  EXPECT_TRUE(shell.failures.empty()) << "the one that was away may have it";
  misses();
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kNotFound);
  EXPECT_EQ(shell.failures[0].detail("file"), "/data/7");
}

TEST(ClientCore, AJobThatAWorkerDoesNotKnowYetIsAskedForAgain) {
  CoreShell shell(BatchOf(2));
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  for (int i = 0; i < 3; ++i) {
    shell.Fail(shell.OpenOf(0).stream, Code::kNotFound);
    shell.Pass(std::chrono::seconds(1));
  }
  EXPECT_TRUE(shell.failures.empty());
  EXPECT_EQ(shell.opens.size(), 4u);
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

}  // namespace
}  // namespace penstock
