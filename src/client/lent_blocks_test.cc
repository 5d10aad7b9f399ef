#include "client/lent_blocks.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(LentBlocks, LeaveRoomForAnotherBatchWhateverTheLoopHolds) {
  LentBlocks lent(11);
  lent.Took(3);
  EXPECT_TRUE(lent.Lend(Handle{1}, 3));
  EXPECT_TRUE(lent.Lend(Handle{2}, 3));
  EXPECT_FALSE(lent.Lend(Handle{3}, 3));
  lent.Freed(Handle{1});
  EXPECT_TRUE(lent.Lend(Handle{3}, 3));
}

TEST(LentBlocks, AreCountedOnceForAllBatchesOfABlock) {
  LentBlocks lent(8);
  lent.Took(4);
  for (int batch = 0; batch < 3; ++batch) EXPECT_TRUE(lent.Lend(Handle{1}, 4));
  EXPECT_FALSE(lent.Lend(Handle{2}, 4));
  lent.Freed(Handle{1});
  EXPECT_TRUE(lent.Lend(Handle{2}, 4));
}

TEST(LentBlocks, TheLargestBatchSoFarIsTheRoomThatIsLeft) {
  LentBlocks lent(10);
  lent.Took(7);
  lent.Took(2);
  EXPECT_TRUE(lent.Lend(Handle{1}, 3));
  EXPECT_FALSE(lent.Lend(Handle{2}, 1));
}

TEST(LentBlocks, FreeingWhatWasNotLentChangesNothing) {
  LentBlocks lent(4);
  lent.Freed(Handle{1});
  lent.Took(2);
  EXPECT_TRUE(lent.Lend(Handle{1}, 2));
}

}  // namespace
}  // namespace penstock
