#include "worker/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "worker/core_test_shell.h"

namespace penstock::worker {
namespace {

using testing::HasSubstr;

TEST(WorkerCore, SendsALaneInOrderAndSaysThatItEnded) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 5, LaneId{0}, 1'000'000);
  shell.Settle();
  while (shell.ReadOne(1, 5)) shell.Settle();
  const auto& stream = shell.at(1, 5);
  ASSERT_TRUE(stream.ended);
  EXPECT_TRUE(stream.ended->lane_ended);
  EXPECT_EQ(stream.ended->end, (Cursor{10, 0}));
  EXPECT_EQ(stream.seqs, (std::vector<Seq>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(shell.stats().committed, 0U);
  EXPECT_EQ(shell.stats().rows, 10U);
}

TEST(WorkerCore, BeginsWhereTheOpenSays) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 5, LaneId{0}, 1'000'000, Cursor{7, 0});
  shell.Settle();
  while (shell.ReadOne(1, 5)) shell.Settle();
  EXPECT_EQ(shell.at(1, 5).seqs, (std::vector<Seq>{7, 8, 9}));
}

TEST(WorkerCore, ASessionMayHaveManyLanesOpenButNotAnyNumber) {
  TestShell shell(Options(10'000'000));
  shell.answer_jobs = false;  // so that all of them wait
  shell.Join(1);
  constexpr uint32_t kMost = 4096;
  for (uint32_t stream = 1; stream <= kMost + 1; ++stream) shell.Open(1, stream, LaneId{stream}, 0);
  EXPECT_EQ(shell.stats().lanes, kMost);
  ASSERT_TRUE(shell.at(1, kMost + 1).refused);
  EXPECT_EQ(shell.at(1, kMost + 1).refused->code(), Code::kBusy);
  EXPECT_THAT(shell.at(1, kMost + 1).refused->message(), HasSubstr("4096 lanes open"));
  EXPECT_FALSE(shell.at(1, 1).refused);
}

TEST(WorkerCore, SendsNoMoreThanCreditCovers) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 5, LaneId{0}, 3 * kRowBytes);
  shell.Settle();
  shell.ReadOne(1, 5);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 5).rows, 4U) << "three by the first credit, one by what came back";
}

TEST(WorkerCore, ABlockThatCreditDoesNotCoverIsToldOfOnceAndWaits) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 5, LaneId{0}, 10);
  shell.Settle();
  shell.Tell(ConsumerSaid{SessionId{1}, StreamId{5}, msg::Credit{.bytes = 10, .waits = true}});
  shell.Settle();
  EXPECT_EQ(shell.at(1, 5).rows, 0U);
  ASSERT_EQ(shell.at(1, 5).told.size(), 1U);
  EXPECT_EQ(shell.at(1, 5).told[0], (msg::Group{{0, 0}, {1, 0}, 1, kRowBytes}));
  shell.Tell(ConsumerSaid{SessionId{1}, StreamId{5}, msg::Credit{.bytes = kRowBytes - 20}});
  shell.Settle();
  EXPECT_EQ(shell.at(1, 5).rows, 1U);
  EXPECT_EQ(shell.at(1, 5).told.size(), 2U) << "and the next waits";
}

TEST(WorkerCore, BlocksOfAJobThatWantsThemLargerAreLargerWhereTheBudgetHoldsMany) {
  for (const auto& [memory, target] :
       {std::pair{64 * kRowBytes, kRowBytes}, std::pair{128 * kRowBytes, 2 * kRowBytes}, {1024 * kRowBytes, 4 * kRowBytes}}) {
    TestShell shell(Options(memory));
    shell.wanted_target = 4 * kRowBytes;
    shell.Join(1);
    shell.Open(1, 10, LaneId{0}, kRowBytes);
    EXPECT_EQ(shell.block_target, target) << memory;
  }
}

TEST(WorkerCore, RefusesALaneOpenedAheadWhenReservesAreUsedUp) {
  TestShell shell(Options(800'000));
  shell.state_bytes = 200'000;
  shell.Join(1);
  for (uint32_t i = 0; i < 4; ++i) shell.Open(1, 10 + i, LaneId{i}, kRowBytes);
  EXPECT_FALSE(shell.at(1, 10).refused);
  EXPECT_FALSE(shell.at(1, 11).refused);
  ASSERT_TRUE(shell.at(1, 12).refused);
  EXPECT_EQ(shell.at(1, 12).refused->code(), Code::kBusy);
}

TEST(WorkerCore, LanesOpenedAheadGiveWayToAConsumerThatHasNone) {
  TestShell shell(Options(1'100'000));
  shell.state_bytes = 200'000;
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, kRowBytes);
  shell.Open(1, 11, LaneId{1}, kRowBytes);
  shell.Open(1, 12, LaneId{2}, kRowBytes);
  shell.Settle();
  shell.Open(2, 10, LaneId{3}, kRowBytes);
  shell.Settle();
  ASSERT_TRUE(shell.at(1, 12).refused);
  EXPECT_EQ(shell.at(1, 12).refused->code(), Code::kBusy);
  EXPECT_FALSE(shell.at(1, 10).refused);
  EXPECT_EQ(shell.at(2, 10).rows, 1U);
}

TEST(WorkerCore, AnOpenThatFindsNoRoomInTimeIsRefused) {
  TestShell shell(Options(800'000));
  shell.state_bytes = 450'000;
  shell.Join(1);
  shell.Join(2);
  shell.Open(1, 10, LaneId{0}, kRowBytes);
  shell.Settle();
  shell.Open(2, 10, LaneId{1}, kRowBytes);
  EXPECT_FALSE(shell.at(2, 10).refused);
  shell.Pass(2s);
  ASSERT_TRUE(shell.at(2, 10).refused);
  EXPECT_EQ(shell.at(2, 10).refused->code(), Code::kBusy);
}

TEST(WorkerCore, OperatorStateThatNeverFitsIsRefusedNamingTheFlag) {
  TestShell shell(Options(400'000));
  shell.state_bytes = 500'000;
  shell.Join(1);
  shell.Open(1, 10, LaneId{3}, kRowBytes);
  ASSERT_TRUE(shell.at(1, 10).refused);
  EXPECT_EQ(shell.at(1, 10).refused->code(), Code::kTooLarge);
  EXPECT_THAT(shell.at(1, 10).refused->message(), HasSubstr("--memory"));
}

TEST(WorkerCore, WhatALaneTurnedOutToHoldIsReservedForTheNext) {
  TestShell shell(Options(1'000'000));
  shell.state_bytes = 1'000;
  shell.held_state = 600'000;
  shell.Join(1);
  shell.Open(1, 10, LaneId{3}, kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 10).rows, 1U);
  shell.Open(1, 11, LaneId{4}, kRowBytes);
  ASSERT_TRUE(shell.at(1, 11).refused);
  EXPECT_EQ(shell.at(1, 11).refused->code(), Code::kBusy);
  while (shell.ReadOne(1, 10)) shell.Settle();
  ASSERT_TRUE(shell.at(1, 10).ended);
  shell.Open(1, 12, LaneId{4}, kRowBytes);
  shell.Settle();
  EXPECT_EQ(shell.at(1, 12).rows, 1U);
}

TEST(WorkerCore, ALaneThatOutgrowsTheBudgetBesideOthersIsToBeOpenedElsewhere) {
  TestShell shell(Options(1'000'000));
  shell.state_bytes = 1'000;
  shell.held_state = 600'000;
  shell.Join(1);
  shell.Open(1, 10, LaneId{3}, kRowBytes);
  shell.Open(1, 11, LaneId{4}, kRowBytes);
  shell.Settle();
  ASSERT_TRUE(shell.at(1, 11).failed);
  EXPECT_EQ(shell.at(1, 11).failed->code(), Code::kBusy);
  EXPECT_THAT(shell.at(1, 11).failed->message(), HasSubstr("600000 bytes"));
  EXPECT_EQ(shell.at(1, 10).rows, 1U);
}

TEST(WorkerCore, ALaneWhoseOperatorsHoldMoreThanTheBudgetIsToldByItsNameAndPlaceAndFailsNoOther) {
  TestShell shell(Options(1'000'000));
  shell.state_bytes = 1'000;
  shell.held_by = {{LaneId{3}, 1'200'000}};
  shell.Join(1);
  for (uint32_t lane = 2; lane < 5; ++lane) shell.Open(1, 10 + lane, LaneId{lane}, 10 * kRowBytes);
  shell.Settle();
  ASSERT_TRUE(shell.at(1, 13).failed);
  EXPECT_EQ(shell.at(1, 13).failed->code(), Code::kTooLarge);
  EXPECT_THAT(shell.at(1, 13).failed->message(), HasSubstr("lane 3: its operators hold 1200000 bytes"));
  EXPECT_THAT(shell.at(1, 13).failed->message(), HasSubstr("(read /data/a)"));
  EXPECT_THAT(shell.at(1, 13).failed->message(), HasSubstr("--memory of at least 2400000"));
  shell.Open(1, 15, LaneId{5}, 10 * kRowBytes);
  shell.Settle();
  for (const uint32_t stream : {12U, 14U, 15U}) {
    while (shell.ReadOne(1, stream)) shell.Settle();
    EXPECT_TRUE(shell.at(1, stream).ended) << stream;
  }
}

TEST(WorkerCore, ARowThatFitsBesideWhatItsOwnLaneHoldsGetsThroughWhateverOthersHeld) {
  TestShell shell(Options(1'000'000));
  shell.state_bytes = 1'000;
  shell.held_by = {{LaneId{3}, 600'000}};
  shell.row_bytes = [](LaneKey key, Seq seq) { return key.lane == LaneId{4} && seq == 4 ? 500'000U : 50'000U; };
  shell.Join(1);
  for (uint32_t lane = 3; lane < 5; ++lane) {
    shell.Open(1, 10, LaneId{lane}, 1'000'000);
    shell.Settle();
    while (shell.ReadOne(1, 10)) shell.Settle();
    EXPECT_TRUE(std::exchange(shell.at(1, 10), {}).ended) << lane;
  }
}

TEST(WorkerCore, ARowThatDoesNotFitBesideWhatItsLaneHoldsIsToldWithBoth) {
  TestShell shell(Options(1'000'000));
  shell.state_bytes = 1'000;
  shell.held_by = {{LaneId{3}, 600'000}};
  shell.row_bytes = [](LaneKey, Seq seq) { return seq == 4 ? 500'000U : 50'000U; };
  shell.Join(1);
  shell.Open(1, 10, LaneId{3}, 1'000'000);
  shell.Settle();
  while (shell.ReadOne(1, 10)) shell.Settle();
  ASSERT_TRUE(shell.at(1, 10).failed);
  EXPECT_EQ(shell.at(1, 10).failed->code(), Code::kTooLarge);
  EXPECT_THAT(shell.at(1, 10).failed->message(),
              HasSubstr("lane 3: the row at seq 4 takes 500000 bytes, and its operators hold 600000 (read /data/a), which together never fit"));
  EXPECT_THAT(shell.at(1, 10).failed->message(), HasSubstr("--memory of at least 1600000"));
}

TEST(WorkerCore, ARowLargerThanTheTargetGetsThroughAndRaisesTheReserve) {
  TestShell shell(Options(1'600'000));
  shell.row_bytes = [](LaneKey, Seq seq) { return seq == 4 ? 700'000U : 50'000U; };
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, 700'000);
  shell.Settle();
  while (shell.ReadOne(1, 10)) shell.Settle();
  EXPECT_TRUE(shell.at(1, 10).ended);
  EXPECT_EQ(shell.at(1, 10).rows, 10U);
}

TEST(WorkerCore, ARowThatNeverFitsIsAnErrorThatNamesLaneSeqSizeAndFlag) {
  TestShell shell(Options(1'000'000));
  shell.row_bytes = [](LaneKey, Seq seq) { return seq == 4 ? 1'200'000U : 50'000U; };
  shell.Join(1);
  shell.Open(1, 10, LaneId{3}, 1'000'000);
  shell.Settle();
  while (shell.ReadOne(1, 10)) shell.Settle();
  ASSERT_TRUE(shell.at(1, 10).failed);
  const Status& error = *shell.at(1, 10).failed;
  EXPECT_EQ(error.code(), Code::kTooLarge);
  EXPECT_THAT(error.message(), HasSubstr("lane 3"));
  EXPECT_THAT(error.message(), HasSubstr("seq 4"));
  EXPECT_THAT(error.message(), HasSubstr("1200000"));
  EXPECT_THAT(error.message(), HasSubstr("--memory"));
  EXPECT_EQ(shell.at(1, 10).rows, 4U);
  EXPECT_EQ(shell.stats().committed, 0U);
}

TEST(WorkerCore, ASessionThatEndsFreesEverything) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Join(2);
  for (uint32_t i = 0; i < 4; ++i) {
    shell.Open(1, 10 + i, LaneId{i}, 3 * kRowBytes);
    shell.Open(2, 10 + i, LaneId{10 + i}, 3 * kRowBytes);
  }
  for (int i = 0; i < 5; ++i) shell.StepOnce();
  shell.Leave(1);
  shell.Leave(2);
  shell.Settle();
  EXPECT_EQ(shell.stats().lanes, 0U);
  EXPECT_EQ(shell.stats().tasks, 0U);
  EXPECT_EQ(shell.stats().committed, 0U);
  EXPECT_EQ(shell.stats().blocks_out, 0U);
}

TEST(WorkerCore, ALaneClosedWhileItWorksIsDiscarded) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, 3 * kRowBytes);
  shell.Tell(ConsumerSaid{SessionId{1}, StreamId{10}, msg::CloseLane{}});
  EXPECT_EQ(shell.stats().tasks, 1U) << "its step is still out";
  shell.Settle();
  EXPECT_EQ(shell.stats().tasks, 0U);
  EXPECT_EQ(shell.stats().committed, 0U);
  EXPECT_EQ(shell.at(1, 10).rows, 0U);
}

TEST(WorkerCore, TheConsumerWithTheFewestReadyBytesIsSteppedFirst) {
  TestShell shell(Options(20'000'000));
  shell.Join(1);
  shell.Join(2);
  for (uint32_t i = 0; i < 4; ++i) shell.Open(1, 10 + i, LaneId{i}, 5 * kRowBytes);
  shell.Open(2, 10, LaneId{9}, 5 * kRowBytes);
  shell.StepOnce();
  shell.StepOnce();
  EXPECT_EQ(shell.at(1, 10).rows, 1U);
  EXPECT_EQ(shell.at(2, 10).rows, 1U) << "before the other lanes of the first consumer";
}

TEST(WorkerCore, DrainingRefusesNewLanesFinishesOldOnesAndThenExits) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, kRowBytes);
  shell.Settle();
  shell.Tell(DrainAsked{});
  ASSERT_EQ(shell.to_sessions.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<msg::Draining>(shell.to_sessions[0]));
  shell.Open(1, 11, LaneId{1}, kRowBytes);
  ASSERT_TRUE(shell.at(1, 11).refused);
  EXPECT_EQ(shell.at(1, 11).refused->code(), Code::kUnavailable);
  EXPECT_FALSE(shell.exited);
  while (shell.ReadOne(1, 10)) shell.Settle();
  EXPECT_TRUE(shell.at(1, 10).ended);
  EXPECT_TRUE(shell.exited);
}

TEST(WorkerCore, DrainingEndsAtItsDeadlineWhoeverStillReads) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, kRowBytes);
  shell.Settle();
  shell.Tell(DrainAsked{});
  shell.Pass(29s);
  EXPECT_FALSE(shell.exited);
  shell.Pass(2s);
  EXPECT_TRUE(shell.exited);
}

TEST(WorkerCore, AJobThatCannotBeFetchedRefusesItsLanes) {
  TestShell shell(Options(10'000'000));
  shell.answer_jobs = false;
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, kRowBytes);
  shell.Open(1, 11, LaneId{1}, kRowBytes);
  shell.Tell(JobFailed{kJob, Status(Code::kUnavailable, "the dispatcher is away")});
  EXPECT_TRUE(shell.at(1, 10).refused);
  EXPECT_TRUE(shell.at(1, 11).refused);
  EXPECT_EQ(shell.stats().lanes, 0U);
}

TEST(WorkerCore, OnlyTheDispatcherSaysThatAGenerationIsCurrent) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.OpenIn(Generation{0}, 1, 5, LaneId{0});
  EXPECT_EQ(shell.fetches, 1);
  shell.OpenIn(Generation{3}, 1, 6, LaneId{1});
  EXPECT_EQ(shell.fetches, 2) << "the dispatcher is asked again";
  ASSERT_TRUE(shell.at(1, 6).refused);
  EXPECT_EQ(shell.at(1, 6).refused->code(), Code::kUnavailable) << "to be opened again";
  shell.OpenIn(Generation{0}, 1, 7, LaneId{2});
  EXPECT_FALSE(shell.at(1, 7).refused) << "one consumer's word shuts nobody out";
  shell.generation = Generation{3};
  shell.OpenIn(Generation{3}, 1, 8, LaneId{1});
  shell.Settle();
  EXPECT_EQ(shell.fetches, 3);
  EXPECT_GE(shell.at(1, 8).rows, 1U);
  shell.OpenIn(Generation{0}, 1, 9, LaneId{3});
  ASSERT_TRUE(shell.at(1, 9).refused);
  EXPECT_EQ(shell.at(1, 9).refused->code(), Code::kStale);
}

TEST(WorkerCore, SeveralOpensOfANewGenerationAskTheDispatcherOnce) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.OpenIn(Generation{0}, 1, 5, LaneId{0});
  shell.answer_jobs = false;
  shell.OpenIn(Generation{1}, 1, 6, LaneId{1});
  shell.OpenIn(Generation{1}, 1, 7, LaneId{2});
  EXPECT_EQ(shell.fetches, 2);
  shell.Tell(JobFailed{kJob, Status(Code::kUnavailable, "the dispatcher is away")});
  ASSERT_TRUE(shell.at(1, 7).refused);
  EXPECT_EQ(shell.at(1, 7).refused->message(), "the dispatcher is away");
}

TEST(WorkerCore, SaysHelloThenBeatsEachSecondAndSaysHelloAgainWhenUnknown) {
  TestShell shell(Options(10'000'000));
  shell.Tell(DispatcherUp{});
  ASSERT_EQ(shell.to_dispatcher.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<msg::WorkerHello>(shell.to_dispatcher[0]));
  shell.Tell(DispatcherSaid{RequestId{}, msg::WorkerWelcome{.worker = WorkerId{9}}});
  shell.Pass(3500ms);
  EXPECT_EQ(shell.to_dispatcher.size(), 5U) << "hello, a beat at once and one each second";
  shell.Tell(DispatcherSaid{RequestId{}, msg::WorkerBeatReply{.known = false}});
  EXPECT_TRUE(std::holds_alternative<msg::WorkerHello>(shell.to_dispatcher.back()));
}

TEST(WorkerCore, AFinishedJobIsForgottenWhenItsLastLaneCloses) {
  TestShell shell(Options(10'000'000));
  shell.Join(1);
  shell.Open(1, 10, LaneId{0}, kRowBytes, Cursor{0, 0}, 4);
  shell.Settle();
  shell.Tell(DispatcherSaid{RequestId{}, msg::WorkerBeatReply{.forget = {kJob}}});
  EXPECT_TRUE(shell.forgotten.empty());
  while (shell.ReadOne(1, 10)) shell.Settle();
  EXPECT_EQ(shell.forgotten, std::set<JobId>{kJob});
  EXPECT_EQ(shell.stats().tasks, 0U);
}

}  // namespace
}  // namespace penstock::worker
