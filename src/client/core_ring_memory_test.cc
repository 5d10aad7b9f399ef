#include <gtest/gtest.h>

#include "client/core_test_shell.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

// One lane in groups of 600 bytes, memory for one, and a loop that holds its batch while it waits for the next.
struct StrictMemoryTest : ::testing::Test {
  static Layout Groups() {
    Layout layout;
    layout.lanes = 1;
    layout.batch = 2;
    return layout;
  }
  StrictMemoryTest() : shell(Groups(), 1000) {
    shell.adjust_join = [](msg::Joined& joined) {
      joined.mode = Mode::kStrict;
      joined.consumers = joined.places = 1;
    };
    shell.KeepMemory();
    shell.Join({WorkerAt(1)});
    shell.Answer(shell.Reply({}));
    stream = shell.OpenOf(0).stream;
    shell.Do(event::LaneSays{stream, msg::Groups{.groups = {{{0, 0}, {2, 0}, 2, 600}, {{2, 0}, {4, 0}, 2, 600}}}});
  }

  CoreShell shell;
  LaneStream stream{};
};

TEST_F(StrictMemoryTest, TheNextBatchIsAskedForWhenTheLoopHasLetGoOfTheOneBefore) {
  const Handle first = shell.Block(stream, 0, 2, 600);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 0u);
  EXPECT_EQ(shell.takes[stream].want.size(), 1u) << "with it 1200 of 1000 bytes would be held";
  shell.Do(event::Freed{first});
  EXPECT_EQ(shell.takes[stream].want.size(), 2u);
}

TEST_F(StrictMemoryTest, ALoopThatHoldsWhatItsNextBatchNeedsIsToldSo) {
  shell.Block(stream, 0, 2, 600);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.Pass(31s);
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kTooLarge);
}

TEST_F(StrictMemoryTest, AGroupLargerThanAnyThatWasToldOfIsNotExpected) {
  EXPECT_TRUE(shell.core().Expects(stream, 600));
  EXPECT_FALSE(shell.core().Expects(stream, 601));
}

}  // namespace
}  // namespace penstock
