// Strict: what two workers tell of the same rows is compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/core_test_shell.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// One lane in groups of two rows, of which a worker has told of two.
struct StrictReplayTest : ::testing::Test {
  static Layout Groups(Purity purity) {
    Layout layout;
    layout.lanes = 1;
    layout.batch = 2;
    layout.purity = purity;
    return layout;
  }
  explicit StrictReplayTest(Purity purity = Purity::kPure, std::vector<msg::WorkerInfo> workers = {WorkerAt(1), WorkerAt(2)})
      : shell(Groups(purity)) {
    shell.adjust_join = [](msg::Joined& joined) {
      joined.mode = Mode::kStrict;
      joined.consumers = joined.places = 1;
    };
    shell.Join(std::move(workers));
    shell.Answer(shell.Reply({}));
    before = shell.OpenOf(0);
    Tell(before, {GroupAt(0, 71), GroupAt(2, 72)});
    shell.Block(before.stream, 0, 2);
  }

  static msg::Group GroupAt(Seq first, uint64_t digest, Seq rows = 2) { return {{first, 0}, {first + rows, 0}, 2, 1000, digest}; }
  void Tell(const CoreShell::Opened& opened, std::vector<msg::Group> groups, bool ended = false) {
    shell.Do(event::LaneSays{opened.stream, msg::Groups{.groups = std::move(groups), .ended = ended}});
  }
  // The lane goes on elsewhere.
  CoreShell::Opened Move() {
    shell.Do(event::WorkerDown{before.worker, Status(Code::kUnavailable, "killed")});
    CoreShell::Opened after = shell.OpenOf(0);
    EXPECT_NE(after.worker, before.worker);
    return after;
  }
  void ExpectNotDeterministic() {
    ASSERT_EQ(shell.failures.size(), 1u);
    EXPECT_EQ(shell.failures[0].code(), Code::kNotDeterministic);
    EXPECT_THAT(shell.failures[0].message(), HasSubstr("rows 2 to 4"));
  }

  CoreShell shell;
  CoreShell::Opened before;
};

TEST_F(StrictReplayTest, TheSameGroupsGoIntoTheSameBatches) {
  const CoreShell::Opened after = Move();
  Tell(after, {GroupAt(2, 72), GroupAt(4, 73)}, true);
  shell.Block(after.stream, 2, 4);
  shell.Block(after.stream, 4, 6);
  for (int batch = 0; batch < 3; ++batch) EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_TRUE(std::holds_alternative<Shelf::EpochEnd>(shell.Next()));
  EXPECT_TRUE(shell.failures.empty());
}

TEST_F(StrictReplayTest, AGroupOfOtherRowsEndsTheReaderInsteadOfMixingTwoHistories) {
  Tell(Move(), {GroupAt(2, 99)});
  ExpectNotDeterministic();
}

TEST_F(StrictReplayTest, AGroupThatEndsElsewhereIsAnother) {
  Tell(Move(), {GroupAt(2, 72, 3)});
  ExpectNotDeterministic();
}

TEST_F(StrictReplayTest, ALaneThatEndsBeforeAGroupThatItHadIsAnother) {
  Tell(Move(), {}, true);
  ExpectNotDeterministic();
}

TEST_F(StrictReplayTest, WhereAllThatWasToldOfIsHereTheLastGroupIsToldOfAgainAndNotSent) {
  shell.Block(before.stream, 2, 4);
  const CoreShell::Opened after = Move();
  EXPECT_EQ(after.open.range.from, (Cursor{2, 0}));
  Tell(after, {GroupAt(2, 72), GroupAt(4, 73)});
  EXPECT_EQ(shell.takes[after.stream].want, (std::vector<Cursor>{{4, 0}}));
  EXPECT_TRUE(shell.failures.empty());
}

TEST_F(StrictReplayTest, WhereAllThatWasToldOfIsHereOtherRowsOfTheLastGroupEndTheReader) {
  shell.Block(before.stream, 2, 4);
  Tell(Move(), {GroupAt(2, 99)});
  ExpectNotDeterministic();
}

struct StrictReplayImpureTest : StrictReplayTest {
  StrictReplayImpureTest() : StrictReplayTest(Purity::kPureIdentity) {}
};

TEST_F(StrictReplayImpureTest, CodeThatSaysSoMayMakeOtherContent) {
  Tell(Move(), {GroupAt(2, 99)});
  EXPECT_TRUE(shell.failures.empty());
}

struct StrictReplayAloneTest : StrictReplayTest {
  StrictReplayAloneTest() : StrictReplayTest(Purity::kPure, {WorkerAt(1)}) {}
};

TEST_F(StrictReplayAloneTest, TheSameWorkerIsNotAskedForWhatItHasToldOf) {
  shell.Block(before.stream, 2, 4);
  shell.Refuse(before.stream, Code::kBusy);
  shell.Pass(2s);
  EXPECT_NE(shell.OpenOf(0).stream, before.stream);
  EXPECT_EQ(shell.OpenOf(0).open.range.from, (Cursor{4, 0}));
}

}  // namespace
}  // namespace penstock
