#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

using testing::HasSubstr;

Status ErrorOf(const Message& message) {
  const auto* failed = std::get_if<msg::Failed>(&message);
  return failed == nullptr ? Status() : failed->error;
}

TEST(Datasets, RegisteringTwiceIsTheSameDataset) {
  CoreHarness h;
  EXPECT_EQ(h.Register("p"), h.Register("p"));
  EXPECT_TRUE(h.actions.persist.empty());
  EXPECT_EQ(std::get<msg::DatasetReply>(h.Say(SessionId{1}, msg::GetDataset{"id-of-p"})).plan, "p");
}

TEST(Datasets, ABadPlanIsRefusedWithItsReason) {
  CoreHarness h;
  EXPECT_EQ(ErrorOf(h.Say(SessionId{1}, msg::Register{"bad"})).code(), Code::kInvalid);
}

TEST(Join, TheFirstOneAsksAWorkerForTheInputsAndStartsTheJob) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined joined = h.JoinOk(h.JoinOf(1), LayoutOf(3));
  EXPECT_EQ(joined.layout.lanes, 3u);
  EXPECT_EQ(joined.manifest_hash, "hash");
  EXPECT_EQ(joined.workers.size(), 1u);
  EXPECT_LT(joined.lease_ms, 15000u);
  EXPECT_EQ(h.JoinOk(h.JoinOf(2), LayoutOf(3)).job, joined.job);
}

TEST(Join, WithANameThatCannotBePrintedIsRefusedAndNothingIsKept) {
  CoreHarness h;
  h.AddWorker(1);
  for (const std::string& bad : {std::string("a\nb"), std::string("\x1b[2J"), std::string(201, 'x'), std::string(20'000'000, 'x')}) {
    msg::Join named = h.JoinOf(1, bad);
    EXPECT_THAT(ErrorOf(h.Join(named, LayoutOf(1))).message(), HasSubstr("the job's name is"));
    msg::Join by = h.JoinOf(1);
    by.name = bad;
    const Status error = ErrorOf(h.Join(by, LayoutOf(1)));
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.message(), HasSubstr("the consumer's name is"));
    EXPECT_THAT(error.message(), HasSubstr("expected 1 to 200 bytes without control characters"));
    EXPECT_LT(error.message().size(), 1000u);
    msg::WorkerHello hello;
    hello.incarnation = 7;
    hello.address = "worker-7";
    hello.name = bad;
    EXPECT_EQ(ErrorOf(h.Say(SessionId{1007}, hello)).code(), Code::kInvalid);
    EXPECT_TRUE(h.actions.log.empty());
  }
}

TEST(Join, RepeatedByTheSameReaderIsTheSameConsumer) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined first = h.JoinOk(h.JoinOf(1, ""), LayoutOf(3));
  const msg::Joined again = h.JoinOk(h.JoinOf(1, ""), LayoutOf(3));
  EXPECT_EQ(first.job, again.job);
  EXPECT_EQ(first.consumer, again.consumer);
  EXPECT_NE(h.JoinOk(h.JoinOf(2, ""), LayoutOf(3)).job, first.job);
}

TEST(Join, OfAJobWithOtherTermsIsAMismatchThatNamesBoth) {
  CoreHarness h;
  h.AddWorker(1);
  h.JoinOk(h.JoinOf(1), LayoutOf(3));
  msg::Join join = h.JoinOf(2);
  join.seed = 42;
  const Status error = ErrorOf(h.Join(join, LayoutOf(3)));
  EXPECT_EQ(error.code(), Code::kMismatch);
  EXPECT_THAT(error.message(), HasSubstr("seed 0, this join asks for 42"));
}

TEST(Join, OfAJobOverAnotherDatasetIsAMismatchThatSaysHowTheyDiffer) {
  CoreHarness h;
  h.AddWorker(1);
  h.JoinOk(h.JoinOf(1), LayoutOf(3));
  msg::Join join = h.JoinOf(2);
  join.dataset = h.Register("other");
  const Status error = ErrorOf(h.Join(join, LayoutOf(3)));
  EXPECT_EQ(error.code(), Code::kMismatch);
  EXPECT_THAT(error.message(), HasSubstr("job 'train' reads another dataset: plan in the job, other here"));
}

TEST(Join, ANameIsFreeAgainWhenItsJobWasLeftBeforeARowWasDelivered) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined refused = h.JoinOk(h.JoinOf(1), LayoutOf(3));
  Scripted consumer(refused);
  consumer.beat.begun = true;
  consumer.beat.want = 2;
  consumer.Say(h);
  consumer.Hold(h, 2);
  msg::Join mended = h.JoinOf(2);
  mended.dataset = h.Register("mended");
  EXPECT_EQ(ErrorOf(h.Join(mended, LayoutOf(4))).code(), Code::kMismatch) << "somebody reads";
  h.Say(SessionId{1}, msg::Leave{refused.job, refused.consumer, {}, {}});
  const msg::Joined joined = h.JoinOk(mended, LayoutOf(4));
  EXPECT_NE(joined.job, refused.job);
  EXPECT_EQ(joined.layout.lanes, 4u);
  h.Restart();
  EXPECT_EQ(std::get<msg::StatusReply>(h.Say(SessionId{7}, msg::StatusAsk{})).jobs.size(), 1u) << "nothing is left of it in the store";
}

TEST(Join, ANameStaysWithAJobOfWhichARowWasDelivered) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined joined = h.JoinOk(h.JoinOf(1), LayoutOf(3));
  Scripted consumer(joined);
  consumer.beat.begun = true;
  consumer.beat.want = 1;
  const msg::Grant grant = consumer.Say(h).grants.at(0);
  consumer.Finish(h, grant, Cursor{1, 0}, false, 0, false);
  h.Say(SessionId{1}, msg::Leave{joined.job, joined.consumer, {}, {}});
  msg::Join other = h.JoinOf(2);
  other.dataset = h.Register("other");
  EXPECT_EQ(ErrorOf(h.Join(other, LayoutOf(3))).code(), Code::kMismatch);
  EXPECT_EQ(h.JoinOk(h.JoinOf(3), LayoutOf(3)).job, joined.job);
}

TEST(Join, WhatThisVersionLacksIsRefusedByName) {
  CoreHarness h;
  msg::Join join = h.JoinOf(1);
  join.mode = Mode::kSharded;
  EXPECT_THAT(ErrorOf(h.Join(join, LayoutOf(1))).message(), HasSubstr("mode sharded is not available in this version"));
}

TEST(Join, EvenIsRefusedWhereThereAreNoBatchesToCount) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.even = Even::kPad;
  EXPECT_THAT(ErrorOf(h.Join(join, LayoutOf(1, 0))).message(), HasSubstr("even=pad, which counts batches, and its plan has none"));
}

TEST(Join, EvenIsRefusedWhereTheOthersGoOnWithoutADeadOne) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.consumers = 2;
  join.on_death = OnDeath::kRedeliver;
  EXPECT_EQ(h.JoinOk(join, LayoutOf(1)).even, Even::kUneven) << "unless it was not asked for";
  join.job_name = "other";
  join.even = Even::kDrop;
  EXPECT_THAT(ErrorOf(h.Join(join, LayoutOf(1))).message(), HasSubstr("use on_death=hold, or even=uneven"));
}

TEST(Join, AnIndexBeyondTheDeclaredConsumersIsInvalid) {
  CoreHarness h;
  msg::Join join = h.JoinOf(1);
  join.consumers = 2;
  join.index = 2;
  EXPECT_EQ(ErrorOf(h.Join(join, LayoutOf(1))).code(), Code::kInvalid);
}

TEST(Join, ASecondLiveConsumerWithTheSameIndexIsToldWhoTheFirstIs) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.consumers = 2;
  h.JoinOk(join, LayoutOf(8));
  join.incarnation = 2;
  const Status error = ErrorOf(h.Join(join, LayoutOf(8)));
  EXPECT_EQ(error.code(), Code::kExists);
  EXPECT_THAT(error.message(), HasSubstr("rank-1"));
}

TEST(Join, AsksAnotherWorkerWhenTheFirstDies) {
  CoreHarness h;
  h.AddWorker(1);
  h.AddWorker(2);
  const msg::Join join = h.JoinOf(1);
  h.Feed(PeerMessage{SessionId{1}, RequestId{500}, join});
  ASSERT_EQ(h.actions.asks.size(), 1u);
  EXPECT_EQ(h.actions.asks[0].session, SessionId{1001});
  h.Feed(SessionClosed{SessionId{1001}});
  ASSERT_EQ(h.actions.asks.size(), 1u);
  EXPECT_EQ(h.actions.asks[0].session, SessionId{1002});
  h.AnswerInputs(LayoutOf(1));
  EXPECT_TRUE(std::holds_alternative<msg::Joined>(h.actions.sends.back().message));
}

TEST(Join, AnErrorOfTheInputsReachesEveryoneWhoWaits) {
  CoreHarness h;
  h.AddWorker(1);
  h.Feed(PeerMessage{SessionId{1}, RequestId{501}, h.JoinOf(1)});
  const AskId ask = AskId{1};
  h.Feed(PeerMessage{SessionId{2}, RequestId{502}, h.JoinOf(2)});
  h.Feed(Answered{ask, Status(Code::kNotFound, "no file /data/*.gz")});
  ASSERT_EQ(h.actions.sends.size(), 2u);
  for (const Send& send : h.actions.sends) EXPECT_THAT(ErrorOf(send.message).message(), HasSubstr("/data/*.gz"));
}

TEST(Join, WithoutAWorkerFailsAfterADeadlineAndSaysHowToStartOne) {
  CoreHarness h;
  h.Feed(PeerMessage{SessionId{1}, RequestId{500}, h.JoinOf(1)});
  Status error;
  for (int i = 0; i < 200 && error.ok(); ++i) {
    h.Pass(std::chrono::milliseconds(250));
    for (const Send& send : h.actions.sends) error = ErrorOf(send.message);
  }
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("penstock worker --dispatcher"));
}

TEST(Join, OfAFinishedJobSaysThatItHasFinished) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined joined = h.JoinOk(h.JoinOf(1), LayoutOf(1));
  Scripted a(joined);
  a.Hold(h, 1);
  a.Finish(h, a.reply.grants.at(0), {10, 0}, true, 1, true);
  EXPECT_TRUE(a.reply.end);
  EXPECT_TRUE(a.reply.epoch_done);
  Scripted late(h.JoinOk(h.JoinOf(2), LayoutOf(1)));
  const Status finished = late.Error(h);
  EXPECT_EQ(finished.code(), Code::kFinished);
  EXPECT_THAT(finished.message(), HasSubstr("its epoch was delivered to the end"));
  h.Say(SessionId{1}, msg::Leave{joined.job, joined.consumer, {}, {}});
  EXPECT_TRUE(h.core->Quiet());
  const msg::Joined again = h.JoinOk(h.JoinOf(3), LayoutOf(1));
  EXPECT_TRUE(again.undecided) << "it may restore a position of the job";
  EXPECT_EQ(Scripted(again).Error(h).code(), Code::kFinished);
  EXPECT_TRUE(h.core->Quiet());
}

}  // namespace
}  // namespace penstock::dispatcher
