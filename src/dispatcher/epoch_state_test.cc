#include "dispatcher/epoch_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock::dispatcher {
namespace {

constexpr ConsumerId kA{1};
constexpr ConsumerId kB{2};

EpochState Shared(uint32_t lanes, uint64_t range_rows = 0) {
  EpochState state(Epoch{0}, {lanes, range_rows, /*group_rows=*/10});
  state.AddReplica(ReplicaId{0}, WorkerId{});
  return state;
}

msg::Finish FinishOf(const msg::Grant& grant, Cursor upto, bool ended) { return {grant.range.lane, grant.range.from, grant.fence, upto, ended}; }

TEST(EpochState, GrantsEachLaneOnce) {
  EpochState state = Shared(2);
  EXPECT_EQ(state.TakeLane(kA)->range.lane.lane, LaneId{0});
  EXPECT_EQ(state.TakeLane(kB)->range.lane.lane, LaneId{1});
  EXPECT_FALSE(state.TakeLane(kA).has_value());
  EXPECT_TRUE(state.AllGranted());
  EXPECT_FALSE(state.Done());
}

TEST(EpochState, IsDoneWhenEveryLaneWasDeliveredToItsEnd) {
  EpochState state = Shared(1);
  const msg::Grant grant = *state.TakeLane(kA);
  EXPECT_EQ(state.Finish(kA, FinishOf(grant, {10, 0}, true)), 0u);
  EXPECT_TRUE(state.Done());
}

TEST(EpochState, IsUntouchedUntilARowWasDeliveredHoweverOftenLanesWentOut) {
  for (const uint64_t range_rows : {0, 100}) {
    EpochState state = Shared(2, range_rows);
    EXPECT_TRUE(state.Untouched());
    const msg::Grant first = *state.TakeLane(kA);
    state.TakeLane(kB);
    EXPECT_TRUE(state.Untouched()) << "granted, and nobody has asked for a row";
    state.Finish(kA, FinishOf(first, {0, 0}, false));
    state.GiveBackAll(kB, false);
    EXPECT_TRUE(state.Untouched()) << "all of it is back";
    const msg::Grant again = *state.TakeFromPool(kB);
    state.Finish(kB, FinishOf(again, {1, 0}, false));
    EXPECT_FALSE(state.Untouched());
  }
}

TEST(EpochState, IsTouchedByWhatADeadConsumerMayHaveDeliveredAndByALanesEnd) {
  EpochState doubtful = Shared(1);
  doubtful.TakeLane(kA);
  doubtful.GiveBackAll(kA, true);
  EXPECT_FALSE(doubtful.Untouched());
  EpochState asked = Shared(1);
  asked.TakeLane(kA);
  asked.Find(kA)->begin()->second.asked = {1, 0};
  EXPECT_FALSE(asked.Untouched());
  for (const uint64_t range_rows : {0, 100}) {
    EpochState ended = Shared(1, range_rows);
    ended.Finish(kA, FinishOf(*ended.TakeLane(kA), {7, 0}, true));
    EXPECT_FALSE(ended.Untouched());
  }
}

TEST(EpochState, WhatIsGivenBackGoesOutAtAHigherFence) {
  EpochState state = Shared(1);
  const msg::Grant first = *state.TakeLane(kA);
  state.Finish(kA, FinishOf(first, {4, 1}, false));
  const msg::Grant second = *state.TakeFromPool(kB);
  EXPECT_EQ(second.range.from, (Cursor{4, 1}));
  EXPECT_EQ(Raw(second.fence), Raw(first.fence) + 1);
}

TEST(EpochState, AFinishOfSomebodyElsesGrantChangesNothing) {
  EpochState state = Shared(1);
  const msg::Grant grant = *state.TakeLane(kA);
  EXPECT_FALSE(state.Finish(kB, FinishOf(grant, {10, 0}, true)).has_value());
  EXPECT_NE(state.Find(kA), nullptr);
}

TEST(EpochState, AFinishBeforeTheGrantsStartGivesItAllBack) {
  EpochState state = Shared(1);
  const msg::Grant first = *state.TakeLane(kA);
  state.Finish(kA, FinishOf(first, {5, 0}, false));
  const msg::Grant second = *state.TakeFromPool(kA);
  state.Finish(kA, FinishOf(second, {2, 0}, false));
  EXPECT_EQ(state.TakeFromPool(kB)->range.from, (Cursor{5, 0}));
}

TEST(EpochState, WhatCameBackOfAGrantIsFoundAmongTheRest) {
  EpochState state = Shared(2);
  const msg::Grant first = *state.TakeLane(kA);
  const msg::Grant second = *state.TakeLane(kA);
  const GrantName name{second.range.lane, {}, second.fence};
  state.Finish(kA, FinishOf(first, {4, 0}, false));
  EXPECT_FALSE(state.TakeBack(kB, name, {.seqs = 3}).has_value());
  state.Finish(kA, FinishOf(second, {2, 0}, false));
  EXPECT_EQ(state.TakeBack(kB, name, {.seqs = 3})->range, (msg::Range{name.lane, {2, 0}, 5}));
  EXPECT_EQ(state.TakeBack(kA, name)->range.from, (Cursor{5, 0}));
  EXPECT_EQ(state.pool().size(), 1u) << "that of the other lane";
}

TEST(EpochState, ADeadConsumersRowsComeBackFromItsAskedMarkAndAreCountedWhenDelivered) {
  EpochState state = Shared(1);
  state.TakeLane(kA);
  state.Find(kA)->begin()->second.asked = {3, 0};
  EXPECT_EQ(state.GiveBackAll(kA, true), 0u);
  const msg::Grant again = *state.TakeFromPool(kB);
  EXPECT_EQ(again.range.from, (Cursor{3, 0}));
  EXPECT_EQ(state.Finish(kB, FinishOf(again, {10, 0}, true)), 7u);
}

TEST(EpochState, RangedLanesAreGrantedInRangesUntilTheirEndIsSeen) {
  EpochState state = Shared(1, 100);
  const msg::Grant first = *state.TakeLane(kA);
  const msg::Grant second = *state.TakeLane(kB);
  EXPECT_EQ(first.range.to, 100u);
  EXPECT_EQ(second.range.from, (Cursor{100, 0}));
  state.Finish(kA, FinishOf(first, {100, 0}, false));
  EXPECT_FALSE(state.AllGranted());
  state.Finish(kB, FinishOf(second, {130, 0}, true));
  EXPECT_TRUE(state.Done());
}

TEST(EpochState, ARangedLaneBeginsWithShortRangesSinceItMayBeSmall) {
  EpochState state = Shared(1, 1000);
  std::vector<uint64_t> rows;
  for (int i = 0; i < 8; ++i) {
    const msg::Grant grant = *state.TakeLane(i % 2 == 0 ? kA : kB);
    rows.push_back(grant.range.to - grant.range.from.seq);
  }
  EXPECT_EQ(rows, (std::vector<uint64_t>{160, 160, 160, 240, 360, 540, 810, 1000}));
}

TEST(EpochState, RangesBeyondTheEndAreForgotten) {
  EpochState state = Shared(1, 100);
  const msg::Grant first = *state.TakeLane(kA);
  const msg::Grant second = *state.TakeLane(kB);
  state.Finish(kB, FinishOf(second, {100, 0}, false));
  EXPECT_EQ(state.pool().size(), 1u);
  state.Finish(kA, FinishOf(first, {60, 0}, true));
  EXPECT_TRUE(state.Done());
}

TEST(EpochState, ALostReplicaTakesItsGrantsAndPiecesWithIt) {
  EpochState state(Epoch{0}, {2, 0});
  state.AddReplica(ReplicaId{0}, WorkerId{7});
  state.AddReplica(ReplicaId{1}, WorkerId{8});
  EXPECT_EQ(state.TakeLane(kA)->worker, WorkerId{7});
  EXPECT_EQ(state.TakeLane(kB)->worker, WorkerId{8});
  EXPECT_THAT(state.DropReplica(ReplicaId{0}), testing::ElementsAre(kA));
  EXPECT_EQ(state.Find(kA), nullptr);
  EXPECT_EQ(state.TakeLane(kA)->worker, WorkerId{8});
  EXPECT_TRUE(state.AllGranted());
}

TEST(EpochState, OfALostReplicaWhatMayHaveComeTwiceIsCalledBackAndCounted) {
  EpochState state(Epoch{0}, {1, 0});
  state.AddReplica(ReplicaId{0}, WorkerId{7});
  state.TakeLane(kA);
  state.GiveBackAll(kA, true);
  const msg::Grant again = *state.TakeFromPool(kB);
  EXPECT_THAT(state.DropReplica(ReplicaId{0}), testing::ElementsAre(kB));
  ASSERT_NE(state.Find(kB), nullptr);
  EXPECT_TRUE(state.Find(kB)->begin()->second.revoked);
  EXPECT_FALSE(state.Done()) << "its holder has yet to say how much of it its loop had";
  EXPECT_EQ(state.Finish(kB, FinishOf(again, {6, 0}, false)), 6u);
  EXPECT_TRUE(state.Done());
}

TEST(EpochState, RowsThatTwoLostConsumersMayHaveDeliveredCountForEach) {
  EpochState state = Shared(1);
  state.TakeLane(kA);
  state.GiveBackAll(kA, true);
  state.TakeFromPool(kB);
  EXPECT_EQ(state.GiveBackAll(kB, true), 0u) << "nobody heard that it had any";
  const msg::Grant again = *state.TakeFromPool(kA);
  EXPECT_EQ(state.Finish(kA, FinishOf(again, {10, 0}, true)), 20u);
}

TEST(EpochState, WhatABreakLeftIsDroppedWhenNobodyWantsItAndWhatDeathLeftIsNot) {
  EpochState state = Shared(4);
  const msg::Grant broken = *state.TakeLane(kA);
  state.TakeLane(kB);
  state.Find(kA)->begin()->second.broken = true;
  state.Finish(kA, FinishOf(broken, {1, 0}, false));
  state.GiveBackAll(kB, true);
  EXPECT_EQ(state.DropUnwanted(), 3u);
  ASSERT_EQ(state.pool().size(), 1u);
  EXPECT_EQ(state.TakeFromPool(kA)->range.lane.lane, LaneId{1});
}

TEST(EpochState, APieceThatEndsWithinTheRowsOfASourceRowEndsThereHoweverItIsCutAndComesBack) {
  EpochState state(Epoch{0}, {1, 0});
  state.RestoreReplica({.watermark = 1});
  const LaneKey lane{Epoch{0}, ReplicaId{0}, LaneId{0}};
  state.RestorePiece({.lane = lane, .from = {5, 1}, .to = 14, .fence = Fence{1}, .last_children = 2});
  const msg::Grant first = *state.TakeFromPool(kA, {.seqs = 4});
  EXPECT_EQ(first.range, (msg::Range{lane, {5, 1}, 9}));
  const msg::Grant rest = *state.TakeFromPool(kB);
  EXPECT_EQ(rest.range, (msg::Range{lane, {9, 0}, 14, 2}));
  state.Finish(kA, {lane, {5, 1}, first.fence, {9, 0}, false});
  state.Finish(kB, {lane, {9, 0}, rest.fence, {13, 1}, false});
  const msg::Grant again = *state.TakeFromPool(kA);
  EXPECT_EQ(again.range, (msg::Range{lane, {13, 1}, 14, 2}));
  state.Find(kA)->begin()->second.asked = {13, 2};
  state.GiveBackAll(kA, false);
  EXPECT_TRUE(state.Done());
}

TEST(EpochState, APieceIsGivenInSmallOnesAndTheRestGoesWithTheLanesEnd) {
  EpochState state(Epoch{0}, {.lanes = 1});
  state.AddReplica(ReplicaId{0}, WorkerId{});
  const msg::Grant lane = *state.TakeLane(ConsumerId{1});
  state.Finish(ConsumerId{1}, {lane.range.lane, {0, 0}, lane.fence, {5, 0}, false});
  const msg::Grant first = *state.TakeFromPool(ConsumerId{1}, {.seqs = 8});
  const msg::Grant second = *state.TakeFromPool(ConsumerId{2}, {.seqs = 8});
  EXPECT_EQ(first.range, (msg::Range{lane.range.lane, {5, 0}, 13}));
  EXPECT_EQ(second.range, (msg::Range{lane.range.lane, {13, 0}, 21}));
  EXPECT_EQ(state.Available(), 1u);
  state.Finish(ConsumerId{2}, {lane.range.lane, {13, 0}, second.fence, {15, 0}, true});
  EXPECT_EQ(state.Available(), 0u);
  EXPECT_FALSE(state.Done()) << "the first piece is still read";
}

}  // namespace
}  // namespace penstock::dispatcher
