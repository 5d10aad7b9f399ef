#include "client/core.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/constants.h"
#include "client/core_test_shell.h"

namespace penstock {
namespace {

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

TEST(ClientCore, ABeatSaysWhichListOfWorkersItKnows) {
  CoreShell shell(BatchOf(2));
  shell.adjust_join = [](msg::Joined& joined) { joined.workers_version = 5; };
  shell.Join({WorkerAt(1)});
  EXPECT_EQ(shell.beats.back().workers_version, 5u);
  msg::BeatReply reply = shell.Reply({});
  reply.workers_version = 6;
  shell.Do(reply);
  shell.Pass(kHeartbeatEvery);
  EXPECT_EQ(shell.beats.back().workers_version, 6u);
  msg::BeatReply unchanged = shell.Reply({});
  unchanged.workers.clear();
  shell.Do(unchanged);
  shell.Pass(kHeartbeatEvery);
  EXPECT_EQ(shell.beats.back().workers_version, 6u);
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

}  // namespace
}  // namespace penstock
