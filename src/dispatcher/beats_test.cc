#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

// Two consumers of one job.
struct Pair {
  CoreHarness h;
  Scripted a, b;
  explicit Pair(uint32_t lanes, uint32_t epochs = 1) : Pair(LayoutOf(lanes), epochs) {}
  Pair(const Layout& layout, uint32_t epochs) : a(JoinNew(1, layout, epochs)), b(JoinNew(2, layout, epochs)) {}

 private:
  msg::Joined JoinNew(uint64_t id, const Layout& layout, uint32_t epochs) {
    if (id == 1) h.AddWorker(1);
    msg::Join join = h.JoinOf(id);
    join.epochs = epochs;
    return h.JoinOk(join, layout);
  }
};

Layout OneSerialLane() {
  Layout layout = LayoutOf(1, 100);
  layout.serial = true;
  layout.serial_range = 100;
  return layout;
}

TEST(Beat, GrantsWhatIsWantedButNotMoreThanAShare) {
  Pair p(4);
  EXPECT_EQ(p.a.Hold(p.h, 6).grants.size(), 2u);
  EXPECT_EQ(p.b.Hold(p.h, 6).grants.size(), 1u);
}

TEST(Beat, ARepeatedOneIsHarmless) {
  Pair p(4);
  p.a.Hold(p.h, 1);
  const msg::BeatReply first = p.a.reply;
  --p.a.beat.serial;
  EXPECT_EQ(p.a.Say(p.h).grants, first.grants);
}

TEST(Beat, AnIdleConsumerGetsALaneOfTheRichestAtAHigherFence) {
  Pair p(2);
  p.a.Hold(p.h, 6);
  p.a.Hold(p.h, 6);
  p.a.Hold(p.h, 6);
  ASSERT_EQ(p.a.reply.grants.size(), 2u);
  p.h.pushed.clear();
  p.b.Hold(p.h, 6, true);
  EXPECT_TRUE(p.b.reply.grants.empty());
  EXPECT_FALSE(p.b.reply.end);
  ASSERT_EQ(p.h.pushed.size(), 1u) << "the holder is told at once";
  const auto revoke = std::get<msg::BeatReply>(p.h.pushed[0].message).revoke;
  ASSERT_EQ(revoke.size(), 1u);
  p.h.pushed.clear();
  p.a.Finish(p.h, revoke[0], {3, 0}, false, 6, false);
  EXPECT_EQ(p.a.reply.grants.size(), 1u);
  ASSERT_EQ(p.h.pushed.size(), 1u) << "and so is the one that waits";
  const auto grants = std::get<msg::BeatReply>(p.h.pushed[0].message).grants;
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].range.from, (Cursor{3, 0}));
  EXPECT_EQ(Raw(grants[0].fence), Raw(revoke[0].fence) + 1);
}

TEST(Beat, TailsGoToTheOneStillAtWorkAndTheIdleOneGetsItsEnd) {
  Pair p(2);
  p.a.Hold(p.h, 1);
  p.b.Hold(p.h, 1);
  p.a.beat.tail_rows = 2;
  p.a.Hold(p.h, 5, true);
  ASSERT_EQ(p.a.reply.revoke.size(), 1u);
  EXPECT_FALSE(p.a.reply.end);
  p.a.Finish(p.h, p.a.reply.revoke[0], {8, 0}, false, 5, true);
  EXPECT_TRUE(p.a.reply.end);
  EXPECT_FALSE(p.a.reply.epoch_done);
  EXPECT_EQ(p.b.Hold(p.h, 5).grants.size(), 2u);
}

TEST(Beat, WhenAllAreIdleTheOneWithMostTailRowsGetsTheOthersTails) {
  Pair p(2);
  p.a.Hold(p.h, 1);
  p.b.Hold(p.h, 1);
  p.b.beat.tail_rows = 3;
  p.b.Hold(p.h, 0);
  p.a.beat.tail_rows = 1;
  // Both become idle before either is chosen: b says so first, while a still works.
  p.b.Hold(p.h, 5, true);
  ASSERT_EQ(p.b.reply.revoke.size(), 1u);
  p.b.Finish(p.h, p.b.reply.revoke[0], {8, 0}, false, 5, true);
  EXPECT_TRUE(p.b.reply.end);
  p.a.Hold(p.h, 5, true);
  EXPECT_EQ(p.a.reply.grants.size(), 2u);
  p.a.Hold(p.h, 5, true);
  EXPECT_TRUE(p.a.reply.end) << "the last one keeps its tails and delivers the short batch";
  EXPECT_EQ(p.a.reply.grants.size(), 2u);
  EXPECT_FALSE(p.a.reply.epoch_done);
}

TEST(Beat, NobodyGetsEndWhileAConsumerWithLanesIsSilent) {
  Pair p(2);
  p.a.Hold(p.h, 1);
  p.b.Hold(p.h, 1);
  p.h.Pass(std::chrono::seconds(4));
  p.a.Finish(p.h, p.a.reply.grants[0], {10, 0}, true, 5, true);
  EXPECT_FALSE(p.a.reply.end);
  EXPECT_THAT(p.a.reply.waiting_for, testing::HasSubstr("rank-2, which is silent"));
  for (int i = 0; i < 14; ++i) {
    p.h.Pass(std::chrono::seconds(1));
    p.a.Hold(p.h, 5, true);
  }
  ASSERT_EQ(p.a.reply.grants.size(), 1u) << "the dead one's lane came when its lease ended";
  EXPECT_EQ(p.a.reply.grants[0].fence, Fence{2});
}

TEST(Beat, AnExpiredConsumerIsRevivedByItsNextBeat) {
  Pair p(4);
  p.a.Hold(p.h, 1);
  p.h.Pass(std::chrono::seconds(16));
  p.a.Hold(p.h, 1);
  ASSERT_EQ(p.a.reply.grants.size(), 1u);
  EXPECT_EQ(p.a.reply.grants[0].fence, Fence{2});
}

TEST(Beat, OneThatExpiredWithTheLastRowsReadsThemWhenItIsBackThoughItWasToldEnd) {
  CoreHarness h;
  h.AddWorker(1);
  Scripted keeper(h.JoinOk(h.JoinOf(1), LayoutOf(1)));
  keeper.Hold(h, 1);
  ASSERT_TRUE(keeper.Hold(h, 0, true).end) << "it has the tail that is the last batch";
  h.Pass(std::chrono::seconds(16));
  EXPECT_FALSE(keeper.Say(h).end) << "the epoch is not over: what it had is nobody's";
  ASSERT_EQ(keeper.reply.grants.size(), 1u);
  EXPECT_EQ(keeper.reply.grants[0].fence, Fence{2});
  keeper.Finish(h, keeper.reply.grants[0], {3, 0}, true, 0, true);
  EXPECT_TRUE(keeper.reply.end);
}

TEST(Beat, AnotherGenerationIsShutOut) {
  Pair p(1);
  p.a.beat.generation = Generation{7};
  p.a.beat.serial = 1;
  EXPECT_EQ(std::get<msg::Failed>(p.h.Say(SessionId{1}, p.a.beat)).error.code(), Code::kStale);
}

TEST(Leave, GivesLanesBackAtOnce) {
  Pair p(2);
  p.a.Hold(p.h, 2);
  p.a.Hold(p.h, 2);
  p.b.Hold(p.h, 2);
  const auto held = p.a.reply.grants.size();
  p.h.pushed.clear();
  p.h.Say(SessionId{1}, msg::Leave{p.a.beat.job, p.a.beat.consumer, {}, {}});
  ASSERT_FALSE(p.h.pushed.empty());
  EXPECT_EQ(std::get<msg::BeatReply>(p.h.pushed.back().message).grants.size(), std::min<size_t>(2, held + p.b.reply.grants.size()));
}

TEST(Epochs, TheNextIsGrantedWhenAllOfThisOneWas) {
  Pair p(2, 2);
  p.a.Hold(p.h, 1);
  p.a.beat.epoch = Epoch{1};  // a break
  p.a.Finish(p.h, p.a.reply.grants[0], {5, 0}, false, 6, true);
  EXPECT_TRUE(p.a.reply.grants.empty());
  EXPECT_THAT(p.a.reply.waiting_for, testing::HasSubstr("epoch 0"));
  p.b.Hold(p.h, 6);
  p.b.Hold(p.h, 6);
  EXPECT_EQ(p.b.reply.grants.size(), 2u) << "what the break gave back goes to the one still there";
  p.a.Hold(p.h, 6, true);
  ASSERT_FALSE(p.a.reply.grants.empty());
  EXPECT_EQ(p.a.reply.grants[0].range.lane.epoch, Epoch{1});
}

TEST(Epochs, WhatTheLastReaderLeavesByBreakIsDropped) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.epochs = 0;
  Scripted a(h.JoinOk(join, LayoutOf(10)));
  a.Hold(h, 1);
  a.beat.epoch = Epoch{1};
  a.Finish(h, a.reply.grants[0], {5, 0}, false, 2, true);
  ASSERT_EQ(a.reply.grants.size(), 2u);
  EXPECT_EQ(a.reply.grants[0].range.lane.epoch, Epoch{1});
}

TEST(Serial, RangesOfOneLaneGoToSeveralConsumers) {
  Pair p(OneSerialLane(), 1);
  p.a.Hold(p.h, 6);
  p.b.Hold(p.h, 6);
  ASSERT_EQ(p.a.reply.grants.size(), 1u);
  ASSERT_EQ(p.b.reply.grants.size(), 1u);
  EXPECT_EQ(p.a.reply.grants[0].range.to, 100u);
  EXPECT_EQ(p.b.reply.grants[0].range.from.seq, 100u);
}

TEST(Serial, WhoReadsAloneAndQuicklyGetsLongerRangesUntilSomebodyComes) {
  CoreHarness h;
  h.AddWorker(1);
  Scripted a(h.JoinOk(h.JoinOf(1), OneSerialLane()));
  const auto next_range = [&](Duration after) {
    h.Pass(after);
    if (!a.reply.grants.empty()) a.Finish(h, a.reply.grants[0], {a.reply.grants[0].range.to, 0}, false, 1, true);
    if (a.reply.grants.empty()) a.Hold(h, 1);
    return a.reply.grants[0].range.to - a.reply.grants[0].range.from.seq;
  };
  EXPECT_EQ(next_range({}), 100u);
  EXPECT_EQ(next_range(std::chrono::milliseconds(10)), 200u);
  EXPECT_EQ(next_range(std::chrono::milliseconds(10)), 400u);
  EXPECT_EQ(next_range(std::chrono::milliseconds(200)), 400u);
  EXPECT_EQ(next_range(std::chrono::seconds(2)), 200u) << "a slow one keeps little from whoever comes";
  Scripted b(h.JoinOk(h.JoinOf(2), OneSerialLane()));
  b.Hold(h, 1);
  EXPECT_EQ(next_range(std::chrono::milliseconds(10)), 100u);
}

TEST(Replicated, EachWorkerIsAPassAndItsGrantsArePinned) {
  CoreHarness h;
  h.AddWorker(1);
  h.AddWorker(2);
  msg::Join join = h.JoinOf(1);
  join.mode = Mode::kReplicated;
  Scripted a(h.JoinOk(join, LayoutOf(1)));
  a.Hold(h, 6);
  ASSERT_EQ(a.reply.grants.size(), 2u);
  EXPECT_NE(a.reply.grants[0].worker, a.reply.grants[1].worker);
  h.Feed(SessionClosed{SessionId{1001}});
  a.Hold(h, 6);
  ASSERT_EQ(a.reply.grants.size(), 1u) << "a lost worker's replica is dropped";
  h.AddWorker(1);
  a.Hold(h, 6);
  EXPECT_EQ(a.reply.grants.size(), 2u) << "one that comes back is a new replica";
}

TEST(Replicated, OneThatWasToEndReadsTheReplicaOfAWorkerThatComesBeforeItHas) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.mode = Mode::kReplicated;
  Scripted a(h.JoinOk(join, LayoutOf(2)));
  join.incarnation = 2;
  Scripted b(h.JoinOk(join, LayoutOf(2)));
  a.Hold(h, 1);
  b.Hold(h, 1);
  a.Hold(h, 5, true);
  ASSERT_EQ(a.reply.revoke.size(), 1u);
  h.AddWorker(2);
  h.Say(SessionId{2}, msg::Leave{b.beat.job, b.beat.consumer, {}, {}});
  a.Finish(h, a.reply.revoke[0], {8, 0}, false, 5, true);
  EXPECT_FALSE(a.reply.end);
  EXPECT_FALSE(a.reply.grants.empty()) << "nobody else is there to read it";
}

TEST(Workers, OneThatIsSilentForItsLeaseIsForgottenAndToldToSayHelloAgain) {
  CoreHarness h;
  h.AddWorker(1);
  h.Pass(std::chrono::seconds(6));
  EXPECT_FALSE(std::get<msg::WorkerBeatReply>(h.Say(SessionId{1001}, msg::WorkerBeat{.worker = WorkerId{1}})).known);
}

TEST(Workers, DrainingIsShownToConsumersAtOnce) {
  Pair p(1);
  p.a.Hold(p.h, 1);
  p.h.pushed.clear();
  p.h.Say(SessionId{1001}, msg::WorkerBeat{.worker = WorkerId{1}, .draining = true});
  ASSERT_FALSE(p.h.pushed.empty());
  EXPECT_TRUE(std::get<msg::BeatReply>(p.h.pushed[0].message).workers.at(0).draining);
}

TEST(Workers, OneThatGoesIsWarnedOfUnlessItDrained) {
  for (const bool draining : {false, true}) {
    CoreHarness h;
    h.AddWorker(1);
    h.Say(SessionId{1001}, msg::WorkerBeat{.worker = WorkerId{1}, .draining = draining});
    h.Feed(SessionClosed{SessionId{1001}});
    ASSERT_EQ(h.actions.log.size(), 1u);
    const LogEvent& said = h.actions.log[0];
    EXPECT_EQ(said.level, draining ? LogLevel::kInfo : LogLevel::kWarn);
    EXPECT_EQ(said.event, draining ? "worker.leave" : "worker.lost");
    EXPECT_THAT(FormatEvent(said.event, said.fields), ::testing::HasSubstr(draining ? "why=\"it has drained\"" : "why=\"its connection ended\""));
  }
}

TEST(Restart, KeepsGrantsAndRenewsLeases) {
  Pair p(4);
  p.a.Hold(p.h, 2);
  const auto grants = p.a.reply.grants;
  p.h.Pass(std::chrono::seconds(14));
  p.h.Restart();
  p.h.Pass(std::chrono::seconds(14));
  EXPECT_EQ(p.a.Hold(p.h, 0).grants, grants);
}

TEST(Status, ShowsJobsAndWorkers) {
  Pair p(4);
  p.a.Hold(p.h, 2);
  const auto status = std::get<msg::StatusReply>(p.h.Say(SessionId{9}, msg::StatusAsk{}));
  ASSERT_EQ(status.jobs.size(), 1u);
  EXPECT_EQ(status.jobs[0].consumers, 2u);
  EXPECT_EQ(status.jobs[0].lanes_open, 2u);
  EXPECT_EQ(status.workers.size(), 1u);
}

TEST(Status, CountsALaneOnceHoweverManyRangesOfItAreHeld) {
  Pair p(OneSerialLane(), 1);
  p.a.Hold(p.h, 3);
  p.b.Hold(p.h, 3);
  ASSERT_GT(p.a.reply.grants.size() + p.b.reply.grants.size(), 1u);
  const auto status = std::get<msg::StatusReply>(p.h.Say(SessionId{9}, msg::StatusAsk{}));
  EXPECT_EQ(status.jobs[0].lanes_open, 1u);
}

TEST(Epochs, ALoopThatSkipsOneIsGrantedTheNext) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.epochs = 3;
  Scripted a(h.JoinOk(join, LayoutOf(2)));
  a.Hold(h, 1);
  ASSERT_EQ(a.reply.grants.size(), 1u);
  const msg::Grant held = a.reply.grants[0];
  a.beat.epoch = Epoch{2};  // two breaks between two beats
  a.Finish(h, held, {1, 0}, false, 6, true);
  for (int beats = 0; beats < 3 && a.reply.grants.empty(); ++beats) a.Hold(h, 6, true);
  ASSERT_EQ(a.reply.grants.size(), 2u);
  EXPECT_EQ(a.reply.grants[0].range.lane.epoch, Epoch{2});
}

TEST(Epochs, ALoopThatSkipsBillionsIsGrantedTheNextAtOnce) {
  CoreHarness h;
  h.AddWorker(1);
  msg::Join join = h.JoinOf(1);
  join.epochs = 0;
  Scripted a(h.JoinOk(join, LayoutOf(2)));
  a.Hold(h, 1);
  ASSERT_EQ(a.reply.grants.size(), 1u);
  const msg::Grant held = a.reply.grants[0];
  constexpr Epoch kFar{4'000'000'000};
  a.beat.epoch = kFar;
  a.Finish(h, held, {1, 0}, false, 6, true);
  for (int beats = 0; beats < 3 && a.reply.grants.empty(); ++beats) a.Hold(h, 6, true);
  ASSERT_EQ(a.reply.grants.size(), 2u);
  EXPECT_EQ(a.reply.grants[0].range.lane.epoch, kFar);
}

// What is left of the grants are tails.
void SayTails(CoreHarness& h, Scripted& reader) {
  reader.Hold(h, 0);
  for (msg::Hold& hold : reader.beat.holds) {
    hold.open = false;
    hold.ready_rows = 1;
    hold.ended = true;
  }
  reader.beat.idle = true;
  reader.beat.tail_rows = reader.beat.holds.size();
  reader.Say(h);
}

TEST(Beat, TailsOfAnEarlierEpochWithOneThatHasGoneOnHoldNobodyUp) {
  CoreHarness h;
  h.AddWorker(1);
  const auto join = [&](uint64_t id) {
    msg::Join wish = h.JoinOf(id);
    wish.epochs = 3;
    return Scripted(h.JoinOk(wish, LayoutOf(1)));
  };
  Scripted dies = join(3), ahead = join(1), behind = join(2);
  dies.Hold(h, 1);
  behind.beat.epoch = Epoch{1};
  behind.Hold(h, 1);
  ahead.beat.epoch = Epoch{2};
  for (int second = 0; second < 17; ++second) {
    ahead.Hold(h, 0);
    behind.Hold(h, 0);
    h.Pass(std::chrono::seconds(1));
  }
  for (int beats = 0; beats < 3; ++beats) ahead.Hold(h, 2);
  ASSERT_EQ(ahead.reply.grants.size(), 2u) << "what the dead one had of epoch 0, and its own epoch's lane";
  SayTails(h, ahead);
  SayTails(h, behind);
  EXPECT_TRUE(behind.reply.end) << "epoch 0's tail waits for epoch 2's end, and that for epoch 1's";
}

TEST(Beat, WorkersAreToldToWhoDoesNotKnowThemAndToNobodyElse) {
  CoreHarness h;
  h.AddWorker(1);
  Scripted consumer(h.JoinOk(h.JoinOf(1), LayoutOf(4)));
  EXPECT_EQ(consumer.Say(h).workers.size(), 0u) << "it was told when it joined";
  h.AddWorker(2);
  EXPECT_EQ(std::get<msg::BeatReply>(h.pushed.back().message).workers.size(), 2u) << "at once, and unasked";
  EXPECT_EQ(consumer.Say(h).workers.size(), 0u) << "this beat may have been sent before that came";
  EXPECT_EQ(consumer.Say(h).workers.size(), 2u) << "this one was not: it was lost";
  for (int i = 0; i < 64; ++i) EXPECT_EQ(consumer.Say(h).workers.size(), 0u);
  h.Feed(SessionClosed{SessionId{1}});
  ++consumer.beat.serial;
  EXPECT_EQ(std::get<msg::BeatReply>(h.Say(SessionId{77}, consumer.beat)).workers.size(), 0u) << "a new session does not make it forget them";
  consumer.beat.workers_version = 0;
  ++consumer.beat.serial;
  EXPECT_EQ(std::get<msg::BeatReply>(h.Say(SessionId{77}, consumer.beat)).workers.size(), 2u);
}

TEST(Beat, WorkersOfOneTermAreNotTakenForThoseOfAnother) {
  CoreHarness h;
  h.AddWorker(1);
  Scripted consumer(h.JoinOk(h.JoinOf(1), LayoutOf(4)));
  h.Restart();
  h.AddWorker(2);
  EXPECT_EQ(consumer.Say(h).workers.at(0).worker, WorkerId{2}) << "as many changes, and others";
}

TEST(Beat, WhereListsOfWorkersToAllWouldTakeLongTheyComeWithAnswersAlone) {
  CoreHarness h;
  for (uint64_t i = 1; i <= 1000; ++i) h.AddWorker(i);
  std::vector<Scripted> consumers;
  for (uint64_t i = 1; i <= 120; ++i) consumers.emplace_back(h.JoinOk(h.JoinOf(i), LayoutOf(4)));
  for (Scripted& consumer : consumers) consumer.Say(h);
  h.Pass(std::chrono::seconds(1));
  h.pushed.clear();
  h.AddWorker(1001);
  EXPECT_TRUE(h.pushed.empty()) << "others' beats would wait for a hundred thousand lines";
  EXPECT_EQ(consumers[0].Say(h).workers.size(), 1001u);
}

TEST(Beat, WhereWorkersAndConsumersAreManyEachIsToldOfChangesAtAPaceAndByItsBeatAtTheLatest) {
  CoreHarness h;
  for (uint64_t i = 1; i <= 100; ++i) h.AddWorker(i);
  std::vector<Scripted> consumers;
  for (uint64_t i = 1; i <= 120; ++i) consumers.emplace_back(h.JoinOk(h.JoinOf(i), LayoutOf(4)));
  for (Scripted& consumer : consumers) consumer.Say(h);
  const auto lists = [&h] {
    return std::count_if(h.pushed.begin(), h.pushed.end(), [](const Send& send) { return !std::get<msg::BeatReply>(send.message).workers.empty(); });
  };
  h.Pass(std::chrono::milliseconds(250));
  h.pushed.clear();
  for (uint64_t i = 101; i <= 110; ++i) h.AddWorker(i);
  EXPECT_EQ(lists(), 120) << "of the first of ten that came at once, and each consumer once";
  EXPECT_EQ(consumers[0].Say(h).workers.size(), 0u);
  h.Pass(std::chrono::milliseconds(250));
  EXPECT_EQ(consumers[0].Say(h).workers.size(), 110u);
  EXPECT_EQ(consumers[0].Say(h).workers.size(), 0u);
}

}  // namespace
}  // namespace penstock::dispatcher
