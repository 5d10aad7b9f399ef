// What people are shown is true: also right after a restart, and when some have left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

using std::chrono::seconds;

class StatusTest : public testing::Test {
 protected:
  StatusTest() {
    h.AddWorker(1);
    a.emplace(h.JoinOk(h.JoinOf(1), LayoutOf(8)));
    b.emplace(h.JoinOk(h.JoinOf(2), LayoutOf(8)));
    Beat(0);
  }

  // Both have had so many rows more.
  void Beat(uint64_t rows) {
    for (Scripted* reader : {&*a, &*b}) {
      reader->beat.rows += rows;
      reader->beat.bytes += 10 * rows;
      reader->Hold(h, 1);
    }
  }
  void ReadFor(int beats, uint64_t rows) {
    for (int i = 0; i < beats; ++i) {
      h.Pass(seconds(1));
      Beat(rows);
    }
  }
  msg::StatusJob Job() { return std::get<msg::StatusReply>(h.Say(SessionId{9}, msg::StatusAsk{})).jobs.at(0); }

  CoreHarness h;
  std::optional<Scripted> a, b;
};

TEST_F(StatusTest, ARateIsWhatCameWhileItWasWatchedAlsoAfterARestart) {
  EXPECT_EQ(Job().watched_ms, 0u) << "one beat says nothing of a rate";
  ReadFor(10, 50);
  EXPECT_EQ(Job().rows, 1000u);
  EXPECT_EQ(Job().watched_rows, 1000u);
  EXPECT_EQ(Job().watched_bytes, 10'000u);
  EXPECT_EQ(Job().watched_ms, 10'000u);
  h.Restart();
  h.AddWorker(1);
  EXPECT_EQ(Job().watched_ms, 0u);
  Beat(0);
  EXPECT_EQ(Job().rows, 1000u) << "as its loops say";
  EXPECT_EQ(Job().watched_rows, 0u);
  EXPECT_EQ(Job().watched_ms, 0u);
  ReadFor(2, 50);
  EXPECT_EQ(Job().rows, 1200u);
  EXPECT_EQ(Job().watched_rows, 200u);
  EXPECT_EQ(Job().watched_ms, 2'000u);
}

TEST_F(StatusTest, RowsOfThoseWhoHaveLeftStayCounted) {
  ReadFor(4, 50);
  h.Say(SessionId{2}, msg::Leave{b->beat.job, b->beat.consumer, {}, {}});
  EXPECT_EQ(Job().consumers, 1u);
  EXPECT_EQ(Job().rows, 400u);
  EXPECT_EQ(Job().bytes, 4'000u);
  EXPECT_EQ(Job().watched_rows, 400u);
}

TEST_F(StatusTest, ARestoreCountsNoRowTwiceAndForgetsNone) {
  ReadFor(4, 50);
  msg::Restore restore;
  restore.job = a->beat.job;
  restore.consumer = a->beat.consumer;
  const auto restored = std::get<msg::Joined>(h.Say(SessionId{1}, restore));
  EXPECT_EQ(Job().rows, 400u) << "one goes on, the other is shut out";
  a->beat.generation = restored.generation;
  a->beat.rows += 10;
  a->reply.grants.clear();
  a->Hold(h, 1);
  EXPECT_EQ(Job().rows, 410u);
  EXPECT_EQ(Job().watched_rows, 410u);
}

}  // namespace
}  // namespace penstock::dispatcher
