#include "client/ring_reader.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

msg::Group GroupOf(Seq first, Seq end, uint64_t bytes) { return {{first, 0}, {end, 0}, end - first, bytes}; }

// At the end of an epoch of groups of 4 rows: of lane 0 three rows are left, of lane 1 two.
struct RestoredTailsTest : ::testing::Test {
  static RingPosition Tails() {
    RingPosition position;
    position.turn = 5;
    position.next_lane = 2;
    position.tails = {{LaneId{0}, {8, 0}, 0, 3}, {LaneId{1}, {4, 0}, 0, 2}};
    return position;
  }

  RingReader reader{RingShape{.lanes = 2, .group_rows = 4, .mix = 1, .places = 1}, RingPart{}, 5, Tails()};
};

TEST_F(RestoredTailsTest, AreNotAskedForBeforeTheirSizeIsTold) {
  reader.Walk();
  reader.Want(0, 1000, true);
  EXPECT_TRUE(reader.TakeOf(LaneId{0}).want.empty());
  EXPECT_FALSE(reader.LacksRoom()) << "it is a word that is waited for";
  ASSERT_TRUE(reader.Tell(LaneId{0}, GroupOf(8, 11, 300)).ok());
  ASSERT_TRUE(reader.Tell(LaneId{1}, GroupOf(4, 6, 200)).ok());
  reader.Want(0, 1000, false);
  EXPECT_EQ(reader.TakeOf(LaneId{0}).want.size(), 1u);
  EXPECT_EQ(reader.TakeOf(LaneId{1}).want.size(), 1u);
}

TEST_F(RestoredTailsTest, TakeNoMoreThanTheMemory) {
  ASSERT_TRUE(reader.Tell(LaneId{0}, GroupOf(8, 11, 300)).ok());
  ASSERT_TRUE(reader.Tell(LaneId{1}, GroupOf(4, 6, 200)).ok());
  reader.Walk();
  reader.Want(0, 499, false);
  EXPECT_TRUE(reader.TakeOf(LaneId{0}).want.empty());
  EXPECT_TRUE(reader.LacksRoom());
  reader.Want(0, 500, false);
  EXPECT_EQ(reader.TakeOf(LaneId{0}).want.size(), 1u);
}

}  // namespace
}  // namespace penstock
