// A dispatcher that runs for months: what is over leaves nothing behind but a bounded number of tombstones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kUnfinishedEvery = 200;
constexpr uint64_t kConsumers = 1'000'000;  // their numbers, and those of their sessions, begin above the worker's

msg::Join JoinOf(CoreHarness& h, uint64_t i) {
  msg::Join join;
  join.dataset = h.Register("plan-" + std::to_string(i));
  join.job_name = i % 2 == 0 ? "" : "job-" + std::to_string(i);
  join.incarnation = kConsumers + i;
  join.name = "rank-0";
  return join;
}

// A dataset of its own, one consumer that reads its one lane to the end (or goes before that), five seconds of time. The job's id.
JobId LiveOnce(CoreHarness& h, uint64_t i) {
  const msg::Joined joined = h.JoinOk(JoinOf(h, i), LayoutOf(1));
  Scripted consumer(joined);
  consumer.Hold(h, 1);
  if (i % kUnfinishedEvery != 1) consumer.Finish(h, consumer.reply.grants.at(0), Cursor{8, 0}, true, 0, true);
  h.Say(SessionId{Raw(joined.consumer)}, msg::Leave{joined.job, joined.consumer, {}, {}});
  h.Feed(SessionClosed{SessionId{Raw(joined.consumer)}});
  h.now = h.now + std::chrono::seconds(5);
  h.Feed(TimerFired{});
  return joined.job;
}

msg::WorkerBeatReply WorkerBeats(CoreHarness& h, std::vector<JobId> jobs) {
  msg::WorkerBeat beat;
  beat.worker = WorkerId{1};
  beat.jobs = std::move(jobs);
  return std::get<msg::WorkerBeatReply>(h.Say(SessionId{1001}, beat));
}

TEST(Lifecycles, ManyMoreLeaveNoMoreBehind) {
  CoreHarness h;
  h.AddWorker(1);
  size_t keys = 0;
  for (uint64_t i = 1; i <= 10'000; ++i) {
    const JobId job = LiveOnce(h, i);
    ASSERT_EQ(WorkerBeats(h, {job}).forget.empty(), i % kUnfinishedEvery == 1) << i;
    if (i == 4'000) keys = h.stored.size();
  }
  // A named job that was left unfinished waits a day for its consumers: it has three keys, and its dataset.
  const size_t waiting = (10'000 - 4'000) / kUnfinishedEvery;
  EXPECT_LE(h.stored.size(), keys + 4 * waiting);
  EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
}

TEST(Lifecycles, TheFileOnDiskDoesNotGrowWithJobsThatAreOver) {
  std::string dir = testing::TempDir() + "lifecycles-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  auto store = OpenSqliteStore(dir);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  CoreHarness h;
  h.AddWorker(1);
  Snapshot durable;
  for (uint64_t i = 1; i <= 4'000; ++i) {
    LiveOnce(h, i);
    WorkerBeats(h, {});
    if (i % 100 != 0) continue;  // a commit is a sync of the disk: not each
    std::vector<Write> writes;
    for (const auto& [key, value] : h.stored) {
      if (auto old = durable.find(key); old == durable.end() || old->second != value) writes.push_back({key, value});
    }
    for (const auto& [key, value] : durable) {
      if (!h.stored.contains(key)) writes.push_back({key, std::nullopt});
    }
    ASSERT_TRUE((*store)->Commit(writes).ok());
    durable = h.stored;
  }
  EXPECT_LE(std::filesystem::file_size(dir + "/state.db-wal"), 5u << 20) << "SQLite takes it into the file at 1000 pages";
  store->reset();  // the rest of it goes into the file
  uint64_t live = 0;
  for (const auto& [key, value] : h.stored) live += key.size() + value.size();
  EXPECT_LE(std::filesystem::file_size(dir + "/state.db"), 3 * live) << "of " << live << " bytes";
  std::filesystem::remove_all(dir);
}

TEST(Lifecycles, WordsThatComeFasterThanTicksDoNotPutTheTickOff) {
  CoreHarness h;
  h.AddWorker(1);
  h.Feed(TimerFired{});
  EXPECT_TRUE(h.actions.timer.has_value());
  Scripted reader(h.JoinOk(h.JoinOf(1), LayoutOf(1)));
  EXPECT_FALSE(h.actions.timer.has_value());
  reader.Hold(h, 1);
  EXPECT_FALSE(h.actions.timer.has_value()) << "leases would never end in a cluster that is never silent";
}

TEST(Lifecycles, AWorkerIsToldWhichOfTheJobsItHoldsAreOver) {
  CoreHarness h;
  h.AddWorker(1);
  const JobId over = LiveOnce(h, 2);
  const JobId lives = h.JoinOk(JoinOf(h, 3), LayoutOf(1)).job;
  EXPECT_THAT(WorkerBeats(h, {over, lives, JobId{77}}).forget, ElementsAre(over, JobId{77}));
  EXPECT_THAT(WorkerBeats(h, {lives}).forget, IsEmpty());
}

TEST(Lifecycles, ADatasetStaysWhileAJobReadsItAndGoesAnHourAfter) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined joined = h.JoinOk(JoinOf(h, 1), LayoutOf(1));
  const auto known = [&] { return std::holds_alternative<msg::DatasetReply>(h.Say(SessionId{9}, msg::GetDataset{"id-of-plan-1"})); };
  h.Pass(std::chrono::hours(2));
  EXPECT_TRUE(known()) << "a job that was left unfinished may be joined again";
  h.AddWorker(1);
  Scripted again(h.JoinOk(JoinOf(h, 1), LayoutOf(1)));
  again.Hold(h, 1);
  again.Finish(h, again.reply.grants.at(0), Cursor{8, 0}, true, 0, true);
  h.Say(SessionId{1}, msg::Leave{joined.job, again.beat.consumer, {}, {}});
  h.Pass(std::chrono::minutes(59));
  EXPECT_TRUE(known()) << "asking is using";
  h.Pass(std::chrono::minutes(61));
  EXPECT_FALSE(known());
  EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
}

TEST(Lifecycles, PastABoundTheLongestUnusedDatasetsGoButNoneWithinAMinute) {
  CoreHarness h;
  for (int i = 0; i < 20'000; ++i) h.Register("early-" + std::to_string(i));
  h.Pass(std::chrono::seconds(50));
  EXPECT_EQ(h.stored.size(), 20'000u);
  h.Register("late");
  h.Pass(std::chrono::seconds(50));
  EXPECT_LT(h.stored.size(), 17'000u);
  EXPECT_TRUE(std::holds_alternative<msg::DatasetReply>(h.Say(SessionId{9}, msg::GetDataset{"id-of-late"})));
}

TEST(Lifecycles, ANamedJobThatNobodyReadForADayIsPutAwayAndSaysSo) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined joined = h.JoinOk(JoinOf(h, 1), LayoutOf(1));
  h.Say(SessionId{1}, msg::Leave{joined.job, joined.consumer, {}, {}});
  h.now = h.now + std::chrono::hours(25);
  h.Feed(TimerFired{});
  h.AddWorker(1);
  const Status error = Scripted(h.JoinOk(JoinOf(h, 1), LayoutOf(1))).Error(h);
  EXPECT_EQ(error.code(), Code::kFinished);
  EXPECT_THAT(error.message(), HasSubstr("all its consumers had left it, and it was put away after a day"));
}

TEST(Lifecycles, JobsThatWereReadToTheirEndAreCountedApartFromThoseThatWereLeft) {
  CoreHarness h;
  h.AddWorker(1);
  Scripted reader(h.JoinOk(h.JoinOf(1, "whole"), LayoutOf(1)));
  reader.Hold(h, 1);
  reader.Finish(h, reader.reply.grants.at(0), {4, 0}, true, 0, true);
  h.Say(SessionId{1}, msg::Leave{reader.beat.job, reader.beat.consumer, {}, {}});
  const msg::Joined crashed = h.JoinOk(h.JoinOf(2, "crashed"), LayoutOf(1));
  h.Say(SessionId{2}, msg::Leave{crashed.job, crashed.consumer, {}, {}});
  EXPECT_TRUE(h.core->Quiet());
  EXPECT_EQ(h.core->CountJobs().finished, 1u);
  EXPECT_EQ(h.core->CountJobs().unfinished, 1u);
}

size_t JobsKnown(CoreHarness& h) { return std::get<msg::StatusReply>(h.Say(SessionId{9}, msg::StatusAsk{})).jobs.size(); }

// Of declared consumers, each with a reading of its own: they come, read the one lane to its end between them, and leave.
void ReadWhole(CoreHarness& h, const std::string& name, uint32_t consumers, uint64_t first) {
  for (uint32_t index = 0; index < std::max(consumers, 1u); ++index) {
    msg::Join join = h.JoinOf(first + index, name);
    join.consumers = consumers;
    join.index = index;
    join.even = Even::kUneven;
    Scripted reader(h.JoinOk(join, LayoutOf(1)));
    reader.Hold(h, 1);
    if (!reader.reply.grants.empty()) reader.Finish(h, reader.reply.grants.at(0), Cursor{8, 0}, true, 0, true);
    h.Say(SessionId{first + index}, msg::Leave{reader.beat.job, reader.beat.consumer, {}, {}});
  }
}

TEST(Lifecycles, TenThousandLateJoinsOfFinishedJobsLeaveNothingBehind) {
  for (uint32_t consumers : {0, 1, 2}) {
    CoreHarness h;
    h.AddWorker(1);
    ReadWhole(h, "other", consumers, 10);
    ReadWhole(h, "train", consumers, 20);
    ASSERT_EQ(JobsKnown(h), 0u);
    const Snapshot before = h.stored;
    for (uint64_t late = 1; late <= 10'000; ++late) {
      msg::Join join = h.JoinOf(kConsumers + late);
      join.consumers = consumers;
      join.even = Even::kUneven;
      Scripted reader(h.JoinOk(join, LayoutOf(1)));
      ASSERT_EQ(reader.Error(h).code(), Code::kFinished);
      ASSERT_EQ(h.stored.size(), before.size()) << "after late join " << late << " of a job of " << consumers;
      h.Feed(SessionClosed{SessionId{kConsumers + late}});
    }
    EXPECT_EQ(JobsKnown(h), 0u);
    EXPECT_EQ(h.stored, before);
    EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
    EXPECT_EQ(h.core->CountJobs().finished, 2u) << "each job once, however often it was asked for";
  }
}

TEST(Lifecycles, ALateJoinThatNeverBeginsOrLeavesIsForgottenWithItsLease) {
  CoreHarness h;
  h.AddWorker(1);
  ReadWhole(h, "train", 2, 20);
  const Snapshot before = h.stored;
  msg::Join join = h.JoinOf(kConsumers + 1);
  join.consumers = 2;
  join.even = Even::kUneven;
  const msg::Joined late = h.JoinOk(join, LayoutOf(1));
  h.Restart();
  h.AddWorker(1);
  EXPECT_GT(h.stored.size(), before.size()) << "it may restore a position";
  EXPECT_EQ(JobsKnown(h), 0u) << "until it does there is no such job";
  EXPECT_EQ(h.core->CountJobs().finished, 1u);
  h.Pass(std::chrono::seconds(16));
  EXPECT_EQ(h.stored, before);
}

std::vector<std::string> EventsOf(const CoreHarness& h) {
  std::vector<std::string> events;
  for (const LogEvent& line : h.actions.log) events.emplace_back(line.event);
  return events;
}

TEST(Lifecycles, ALateJoinIsLoggedAsOneAndSoIsItsRefusal) {
  CoreHarness h;
  h.AddWorker(1);
  ReadWhole(h, "train", 0, 20);
  Scripted late(h.JoinOk(h.JoinOf(kConsumers + 1), LayoutOf(1)));
  EXPECT_THAT(EventsOf(h), ElementsAre("consumer.late_join"));
  EXPECT_EQ(late.Error(h).code(), Code::kFinished);
  EXPECT_THAT(EventsOf(h), ElementsAre("consumer.refused"));
}

TEST(Lifecycles, ARefusalThatWasLostIsNotFollowedByAnotherReading) {
  CoreHarness h;
  h.AddWorker(1);
  ReadWhole(h, "train", 0, 20);
  Scripted late(h.JoinOk(h.JoinOf(kConsumers + 1), LayoutOf(1)));
  EXPECT_EQ(late.Error(h).code(), Code::kFinished);
  EXPECT_EQ(late.Error(h).code(), Code::kStale) << "a loop that is told that its job is not known takes it for lost, and begins it again";
}

TEST(Lifecycles, AFinishedJobWaitsADayForDeclaredConsumersThatHaveNotComeHoweverManyOthersAreRefused) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(20);
  join.consumers = 2;
  join.even = Even::kUneven;
  Scripted reader(h.JoinOk(join, LayoutOf(1)));
  reader.Hold(h, 1);
  reader.Finish(h, reader.reply.grants.at(0), Cursor{8, 0}, true, 0, true);
  h.Say(SessionId{20}, msg::Leave{reader.beat.job, reader.beat.consumer, {}, {}});
  EXPECT_EQ(JobsKnown(h), 1u) << "the other finds empty epochs";
  for (int hour = 1; hour <= 23; ++hour) {
    h.now = h.now + std::chrono::hours(1);
    h.Feed(TimerFired{});
    h.AddWorker(1);
    join.incarnation = kConsumers + hour;
    ASSERT_EQ(Scripted(h.JoinOk(join, LayoutOf(1))).Error(h).code(), Code::kFinished) << "its seat has read all there is";
  }
  EXPECT_EQ(JobsKnown(h), 1u);
  h.now = h.now + std::chrono::minutes(61);
  h.Feed(TimerFired{});
  EXPECT_EQ(JobsKnown(h), 0u);
  EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
}

msg::Join Anonymous(CoreHarness& h, uint32_t consumers) {
  msg::Join join = h.JoinOf(1, "");
  join.consumers = consumers;
  return join;
}

TEST(Lifecycles, AnAnonymousJobOutlivesTheLeaseOfItsOnlyConsumerWhichComesBackToIt) {
  for (uint32_t consumers : {0, 1}) {
    CoreHarness h;
    h.AddWorker(1);
    Scripted consumer(h.JoinOk(Anonymous(h, consumers), LayoutOf(1)));
    consumer.Hold(h, 1);
    h.Pass(std::chrono::seconds(18));
    h.Restart();
    h.AddWorker(1);
    h.Pass(std::chrono::seconds(18));
    consumer.Hold(h, 1);
    ASSERT_EQ(consumer.reply.grants.size(), 1u);
    EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
  }
}

TEST(Lifecycles, AnAnonymousJobWhoseConsumerStaysSilentIsPutAwayAndDoesNotSayThatItFinished) {
  for (uint32_t consumers : {0, 1}) {
    CoreHarness h;
    h.AddWorker(1);
    Scripted consumer(h.JoinOk(Anonymous(h, consumers), LayoutOf(1)));
    consumer.Hold(h, 1);
    h.Pass(std::chrono::minutes(3));
    const Status error = consumer.Error(h);
    EXPECT_EQ(error.code(), Code::kStale);
    EXPECT_THAT(error.message(), HasSubstr("not heard of for long"));
    EXPECT_EQ(h.core->TakeSnapshot(), h.stored);
  }
}

TEST(Lifecycles, AnAnonymousJobGoesAtOnceWhenItsConsumerLeaves) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined joined = h.JoinOk(Anonymous(h, 0), LayoutOf(1));
  h.Say(SessionId{1}, msg::Leave{joined.job, joined.consumer, {}, {}});
  EXPECT_THAT(WorkerBeats(h, {joined.job}).forget, ElementsAre(joined.job));
}

}  // namespace
}  // namespace penstock::dispatcher
