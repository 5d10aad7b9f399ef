// Which steps pack their blocks, and what that takes of the budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/core_test_shell.h"

namespace penstock::worker {
namespace {

using testing::Each;

struct PackingTest : ::testing::Test {
  std::vector<PackCodec> CodecsOf(uint64_t session, WireCompression compression, bool by_group = false) {
    shell.codecs.clear();
    shell.OpenPacked(session, ++stream, LaneId{++lane}, compression, by_group);
    shell.Settle();
    return shell.codecs;
  }
  uint32_t stream = 0;
  uint32_t lane = 0;
  TestShell shell{Options(100'000'000)};
};

TEST_F(PackingTest, IsDoneForWhoAsksForItOverTcp) {
  shell.JoinOverTcp(1);
  EXPECT_THAT(CodecsOf(1, WireCompression::kLz4), Each(PackCodec::kLz4));
  EXPECT_FALSE(shell.in_place) << "rows are put together, to be packed";
  EXPECT_THAT(CodecsOf(1, WireCompression::kZstd), Each(PackCodec::kZstd));
  EXPECT_THAT(CodecsOf(1, WireCompression::kZstd, true), Each(PackCodec::kZstd));
  for (const WireCompression none : {WireCompression::kUnknown, WireCompression::kNone, WireCompression::kAuto}) {
    EXPECT_THAT(CodecsOf(1, none), Each(PackCodec::kNone));
    EXPECT_TRUE(shell.in_place);
  }
}

TEST_F(PackingTest, IsNotDoneWhereMemoryIsShared) {
  shell.Join(1);
  EXPECT_THAT(CodecsOf(1, WireCompression::kLz4), Each(PackCodec::kNone));
  EXPECT_THAT(CodecsOf(1, WireCompression::kLz4, true), Each(PackCodec::kNone));
}

TEST_F(PackingTest, FollowsTheJudgementOfTheLinkForWhoLeavesItToTheWorker) {
  shell.JoinOverTcp(1);
  shell.JoinOverTcp(2);
  shell.Tell(LinkJudged{SessionId{1}, PackCodec::kZstd});
  EXPECT_THAT(CodecsOf(1, WireCompression::kAuto), Each(PackCodec::kZstd));
  EXPECT_THAT(CodecsOf(1, WireCompression::kLz4), Each(PackCodec::kLz4));
  EXPECT_THAT(CodecsOf(1, WireCompression::kNone), Each(PackCodec::kNone));
  EXPECT_THAT(CodecsOf(2, WireCompression::kAuto), Each(PackCodec::kNone)) << "another link";
  shell.Tell(LinkJudged{SessionId{1}, PackCodec::kNone});
  EXPECT_THAT(CodecsOf(1, WireCompression::kAuto), Each(PackCodec::kNone));
  shell.Leave(1);
  shell.Tell(LinkJudged{SessionId{1}, PackCodec::kLz4});  // came late
}

// Kept groups go to any follower: one that cannot unpack them must not find any.
TEST_F(PackingTest, OfGroupsIsForThoseAloneWhoUnpackThem) {
  shell.group_rows = 4;
  for (const uint64_t session : {1, 2, 3}) shell.JoinOverTcp(session);
  shell.OpenPacked(1, 1, LaneId{0}, WireCompression::kLz4, true);
  shell.OpenPacked(2, 1, LaneId{0}, WireCompression::kAuto, true);
  shell.Settle();
  EXPECT_EQ(shell.started, 1);
  EXPECT_THAT(shell.codecs, Each(PackCodec::kLz4));
  shell.codecs.clear();
  shell.OpenPacked(3, 1, LaneId{0}, WireCompression::kUnknown, true);
  shell.Settle();
  EXPECT_EQ(shell.started, 2) << "an older reader has a production of its own";
  EXPECT_THAT(shell.codecs, Each(PackCodec::kNone));
  EXPECT_EQ(shell.at(3, 1).told.size(), shell.at(1, 1).told.size());
}

TEST(PackingMemory, IsTakenOfTheBudgetFromTheFirstPackedBlockOn) {
  CoreOptions options = Options(10 * kRowBytes);
  options.pack_memory = 4 * kRowBytes;
  TestShell shell(options);
  shell.lane_rows = 1000;
  shell.JoinOverTcp(1);
  for (uint32_t lane = 1; lane <= 12; ++lane) {
    shell.OpenPacked(1, lane, LaneId{lane}, lane == 1 ? WireCompression::kLz4 : WireCompression::kNone);
    EXPECT_LE(shell.stats().committed, 6 * kRowBytes);
  }
  EXPECT_GE(shell.stats().lanes, 2U);
}

}  // namespace
}  // namespace penstock::worker
