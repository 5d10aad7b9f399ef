#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "client/core.h"
#include "client/core_test_shell.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Two workers, two lanes of which one has sent blocks and the other has not; the loop waits.
struct HedgeTest : ::testing::Test {
  explicit HedgeTest(Layout layout = BatchOf(10)) : shell(std::move(layout)) {
    shell.Join({WorkerAt(1), WorkerAt(2)});
    shell.Grant({GrantOf(0), GrantOf(1)});
    quick = shell.OpenOf(0);
    slow = shell.OpenOf(1);
    for (Seq row = 0; row < 40; row += 10) {
      shell.clock().Advance(10ms);
      shell.Block(quick.stream, row, row + 10);
      EXPECT_EQ(shell.NextRows(), 10u);
    }
    shell.End(quick.stream, 40);
    shell.Next();
  }

  // Whether lane 1 was opened a second time.
  bool Hedged() const { return shell.OpenOf(1).stream != slow.stream; }

  CoreShell shell;
  CoreShell::Opened quick;
  CoreShell::Opened slow;
};

TEST_F(HedgeTest, ALaneBehindItsPeersIsOpenedOnASecondWorkerAtTheSameCursor) {
  shell.Pass(400ms);
  EXPECT_FALSE(Hedged());
  shell.Pass(300ms);
  ASSERT_TRUE(Hedged());
  const CoreShell::Opened& hedge = shell.OpenOf(1);
  EXPECT_NE(hedge.worker, slow.worker);
  EXPECT_EQ(hedge.open.range, slow.open.range);
  EXPECT_EQ(hedge.open.credit, 0u) << "it says what it has, and sends nothing";
  EXPECT_FALSE(shell.Closed(slow.stream));
}

TEST_F(HedgeTest, TheFirstWithRowsServesTheLane) {
  shell.Pass(1s);
  ASSERT_TRUE(Hedged());
  const CoreShell::Opened hedge = shell.OpenOf(1);
  shell.BlockWaits(hedge.stream, 0, 10);
  EXPECT_TRUE(shell.Closed(slow.stream));
  EXPECT_GE(shell.credit[hedge.stream], 1000u);
  shell.Block(hedge.stream, 0, 10);
  EXPECT_EQ(shell.NextRows(), 10u);
  EXPECT_EQ(shell.core().counts().hedged, 1u);
}

TEST_F(HedgeTest, AHedgeThatIsLaterIsClosed) {
  shell.Pass(1s);
  const CoreShell::Opened hedge = shell.OpenOf(1);
  shell.Block(slow.stream, 0, 10);
  EXPECT_TRUE(shell.Closed(hedge.stream));
  EXPECT_FALSE(shell.Closed(slow.stream));
  EXPECT_EQ(shell.NextRows(), 10u);
  shell.BlockWaits(hedge.stream, 0, 10);  // said before it knew
  shell.Block(slow.stream, 10, 20);
  EXPECT_EQ(shell.NextRows(), 10u);
  EXPECT_EQ(shell.core().counts().hedged, 0u);
}

TEST_F(HedgeTest, TheHedgeTakesOverWhenTheFirstWorkerIsLost) {
  shell.Pass(1s);
  const CoreShell::Opened hedge = shell.OpenOf(1);
  shell.Do(event::WorkerDown{slow.worker, Status(Code::kUnavailable, "killed")});
  EXPECT_EQ(shell.OpenOf(1).stream, hedge.stream) << "not opened a third time";
  shell.BlockWaits(hedge.stream, 0, 10);
  shell.Block(hedge.stream, 0, 10);
  EXPECT_EQ(shell.NextRows(), 10u);
}

TEST_F(HedgeTest, ALostOrRefusedHedgeChangesNothing) {
  shell.Pass(1s);
  shell.Refuse(shell.OpenOf(1).stream, Code::kBusy);
  EXPECT_FALSE(shell.Closed(slow.stream));
  shell.Pass(1s);
  shell.Do(event::WorkerDown{shell.OpenOf(1).worker, Status(Code::kUnavailable, "killed")});
  EXPECT_FALSE(shell.Closed(slow.stream));
  shell.Block(slow.stream, 0, 10);
  EXPECT_EQ(shell.NextRows(), 10u);
}

TEST_F(HedgeTest, AWorkerThatRefusesAHedgeIsAskedAgainOnlyWhenTheLaneHasMovedSince) {
  shell.Pass(1s);
  const size_t opens = shell.opens.size();
  shell.Refuse(shell.OpenOf(1).stream, Code::kPermission);
  shell.Pass(1s);
  EXPECT_EQ(shell.opens.size(), opens);
  shell.Block(slow.stream, 0, 10);
  EXPECT_EQ(shell.NextRows(), 10u);
  shell.Next();
  shell.Pass(2s);
  EXPECT_EQ(shell.opens.size(), opens + 1);
}

TEST_F(HedgeTest, ALoopThatDoesNotWaitHedgesNothing) {
  CoreShell calm(BatchOf(10));
  calm.Join({WorkerAt(1), WorkerAt(2)});
  calm.Grant({GrantOf(0), GrantOf(1)});
  for (Seq row = 0; row < 40; row += 10) calm.Block(calm.OpenOf(0).stream, row, row + 10);
  const size_t opens = calm.opens.size();
  calm.Pass(1s);
  EXPECT_EQ(calm.opens.size(), opens);
}

struct HedgeImpureTest : HedgeTest {
  static Layout Impure() {
    Layout layout = BatchOf(10);
    layout.purity = Purity::kImpure;
    return layout;
  }
  HedgeImpureTest() : HedgeTest(Impure()) {}
};

TEST_F(HedgeImpureTest, IsNotHedgedSinceTheSecondWouldMakeOtherRows) {
  shell.Pass(2s);
  EXPECT_FALSE(Hedged());
}

// ---- two workers' words compared

struct ReplayTest : ::testing::Test {
  ReplayTest() : shell(BatchOf(10)) {
    shell.Join({WorkerAt(1), WorkerAt(2)});
    shell.Grant({GrantOf(0)});
    before = shell.OpenOf(0);
    shell.Block(before.stream, 0, 10);
    Block(before.stream, 10, 20, 77);
    EXPECT_EQ(shell.NextRows(), 10u);
    shell.Do(event::WorkerDown{before.worker, Status(Code::kUnavailable, "killed")});
    after = shell.OpenOf(0);
  }
  void Block(LaneStream stream, Seq from, Seq to, uint64_t digest) {
    shell.Do(event::BlockArrived{stream, {Handle{100 + from + digest}, {to - from, {from, 0}, {to, 0}, 1000, digest}, {}}});
  }

  CoreShell shell;
  CoreShell::Opened before;
  CoreShell::Opened after;
};

TEST_F(ReplayTest, AReopenedLaneSendsItsNewestBlockAgain) {
  EXPECT_NE(after.worker, before.worker);
  EXPECT_EQ(after.open.range.from, (Cursor{10, 0}));
}

TEST_F(ReplayTest, TheSameRowsAreDeliveredOnce) {
  Block(after.stream, 10, 20, 77);
  Block(after.stream, 20, 30, 78);
  EXPECT_EQ(shell.NextRows(), 10u);
  EXPECT_EQ(shell.NextRows(), 10u);
  EXPECT_EQ(shell.NextRows(), 0u);
  EXPECT_TRUE(shell.failures.empty());
}

TEST_F(ReplayTest, OtherRowsEndTheReaderInsteadOfMixingTwoHistories) {
  Block(after.stream, 10, 20, 99);
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kNotDeterministic);
  EXPECT_THAT(shell.failures[0].message(), HasSubstr("rows 10 to 20"));
}

TEST_F(ReplayTest, RowsCutElsewhereAreNotCompared) {
  Block(after.stream, 10, 25, 99);
  EXPECT_EQ(shell.NextRows(), 10u);
  EXPECT_TRUE(shell.failures.empty());
}

}  // namespace
}  // namespace penstock
