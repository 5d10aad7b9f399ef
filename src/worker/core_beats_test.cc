// What a worker tells the dispatcher of itself, and people see in `penstock status`.
#include <gtest/gtest.h>

#include "worker/core_test_shell.h"

namespace penstock::worker {
namespace {

class BeatsTest : public testing::Test {
 protected:
  BeatsTest() {
    shell.lane_rows = 1;  // two are lent to one who has let go of none
    shell.Tell(DispatcherUp{});
    shell.Tell(DispatcherSaid{RequestId{}, msg::WorkerWelcome{WorkerId{1}, 15'000}});
    shell.Join(1);
  }
  const msg::WorkerBeat& Last() const { return std::get<msg::WorkerBeat>(shell.to_dispatcher.back()); }
  uint32_t LanesInASecond() {
    shell.Pass(1s);
    return Last().lanes;
  }
  // A lane that is sent whole as soon as it is opened.
  void OpenAndEnd(uint32_t stream) {
    shell.Open(1, stream, LaneId{stream}, 100 * kRowBytes);
    shell.Settle();
    ASSERT_TRUE(shell.at(1, stream).ended);
  }
  void ReadAll(uint32_t stream) {
    while (shell.ReadOne(1, stream)) shell.Settle();
  }

  TestShell shell{Options(10'000'000)};
};

TEST_F(BeatsTest, ALaneIsToldOfAsSoonAsItIsOpenedWhereThereWasNone) {
  const size_t before = shell.to_dispatcher.size();
  shell.Open(1, 10, LaneId{0}, kRowBytes);
  ASSERT_EQ(shell.to_dispatcher.size(), before + 1);
  EXPECT_EQ(Last().lanes, 1U);
  shell.Open(1, 11, LaneId{1}, kRowBytes);
  EXPECT_EQ(shell.to_dispatcher.size(), before + 1) << "the next beat says so";
  EXPECT_EQ(LanesInASecond(), 2U);
}

TEST_F(BeatsTest, ALaneThatWasSentWholeCountsUntilItsLoopHasReadIt) {
  OpenAndEnd(10);
  OpenAndEnd(11);
  LanesInASecond();
  for (int second = 0; second < 20; ++second) EXPECT_EQ(LanesInASecond(), 2U) << "after " << second << " s";
  ReadAll(10);
  EXPECT_EQ(LanesInASecond(), 1U);
  ReadAll(11);
  EXPECT_EQ(LanesInASecond(), 0U);
}

TEST_F(BeatsTest, LanesThatCameAndWentSinceTheLastBeatAreInTheNext) {
  OpenAndEnd(10);
  ReadAll(10);
  LanesInASecond();
  OpenAndEnd(11);
  ReadAll(11);
  OpenAndEnd(12);
  ReadAll(12);
  EXPECT_EQ(LanesInASecond(), 1U) << "one at a time";
  EXPECT_EQ(LanesInASecond(), 0U);
}

TEST_F(BeatsTest, WhatAReaderThatIsGoneNeverGaveBackIsNotCountedForLong) {
  shell.Tell(SessionOpened{SessionId{2}, false});  // copies: nothing of the worker's is out with it
  shell.Open(2, 10, LaneId{0}, 100 * kRowBytes);
  shell.Settle();
  ASSERT_TRUE(shell.at(2, 10).ended);
  EXPECT_EQ(LanesInASecond(), 1U);
  shell.Pass(10s);
  EXPECT_EQ(LanesInASecond(), 0U) << "its session serves other readers of its process";
}

}  // namespace
}  // namespace penstock::worker
