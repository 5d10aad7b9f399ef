#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "client/core.h"
#include "client/core_test_shell.h"

namespace penstock {
namespace {

constexpr uint64_t kMemory = 8000;

// Workers whose lanes are of one row a block. They send what credit covers, and tell of what it does not.
class TightReader {
 public:
  TightReader(uint64_t batch, uint64_t lane_rows, uint64_t row_bytes) : shell(BatchOf(batch), kMemory), lane_rows_(lane_rows), row_bytes_(row_bytes) {
    shell.Join({WorkerAt(1)});
  }

  // Until no worker has anything to do.
  void Work() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < shell.opens.size(); ++i) moved = WorkOn(shell.opens[i]) || moved;
    }
  }

  CoreShell shell;

 private:
  struct Sent {
    Seq next = 0;
    uint64_t bytes = 0;
    bool told = false;
    bool ended = false;
  };
  bool WorkOn(const CoreShell::Opened& open) {
    const LaneStream stream = open.stream;
    Sent& sent = sent_.try_emplace(stream, Sent{open.open.range.from.seq}).first->second;
    if (shell.Closed(stream) || sent.ended) return false;
    if (sent.next == lane_rows_) {
      sent.ended = true;
      shell.End(stream, lane_rows_);
      return true;
    }
    if (open.open.credit + shell.credit[stream] < sent.bytes + row_bytes_) {
      if (std::exchange(sent.told, true)) return false;
      shell.BlockWaits(stream, sent.next, sent.next + 1, row_bytes_);
      return true;
    }
    const Seq row = sent.next++;
    sent.bytes += row_bytes_;
    sent.told = false;
    shell.Block(stream, row, row + 1, row_bytes_);
    EXPECT_LE(shell.core().counts().held_bytes, std::max(kMemory, row_bytes_));
    return true;
  }

  const uint64_t lane_rows_;
  const uint64_t row_bytes_;
  std::map<LaneStream, Sent> sent_;
};

TEST(ClientMemory, WhatLanesMayHaveOnTheirWayIsWithinTheBudgetTogether) {
  TightReader reader(1, 100, 1500);
  reader.shell.Grant({GrantOf(0), GrantOf(1), GrantOf(2), GrantOf(3)});
  uint64_t credit = 0;
  for (const auto& open : reader.shell.opens) credit += open.open.credit;
  EXPECT_LE(credit, kMemory);
  for (int batch = 0; batch < 50; ++batch) {
    reader.Work();
    ASSERT_EQ(reader.shell.NextRows(), 1u);
  }
}

TEST(ClientMemory, ALoopThatStandsAtTheLimitGetsAllThatItsMemoryHolds) {
  TightReader reader(1, 100, 500);
  msg::BeatReply reply = reader.shell.Reply({GrantOf(0)});
  reply.limit = 0;
  reader.shell.Answer(reply);
  reader.Work();
  EXPECT_GT(reader.shell.core().counts().held_bytes + 500, kMemory) << "how far it could come decides how far all go";
}

// Where workers lend their memory, one that came first would borrow all of it, and the others had none for what it waits for.
TEST(ClientMemory, ALoopThatStandsAtTheLimitWithABatchReadyDoesNotHaveMoreMadeForIt) {
  CoreShell shell(BatchOf(2), kMemory);
  shell.Join({WorkerAt(1)});
  msg::BeatReply reply = shell.Reply({GrantOf(0)});
  reply.limit = 0;
  shell.Answer(reply);
  for (Seq row = 0; row < 2; ++row) {
    shell.Block(shell.OpenOf(0).stream, row, row + 1, 500);
    EXPECT_EQ(shell.NextRows(), 0u);
    EXPECT_EQ(shell.waits, static_cast<int>(row) + 1);
  }
  for (Seq row = 2; row < 6; ++row) {
    shell.Block(shell.OpenOf(0).stream, row, row + 1, 500);
    EXPECT_EQ(shell.NextRows(), 0u);
    EXPECT_EQ(shell.waits, 2) << "the others are to come as far first";
  }
}

TEST(ClientMemory, ALoopThatStandsAtTheLimitHasTheLastSourceRowOfARangeMadeToItsEnd) {
  CoreShell shell(BatchOf(2), kMemory);
  shell.Join({WorkerAt(1)});
  msg::Grant range = GrantOf(0);
  range.range.to = 3;
  msg::BeatReply reply = shell.Reply({range});
  reply.limit = 0;
  shell.Answer(reply);
  shell.Block(shell.OpenOf(0).stream, 0, 2, 500);
  EXPECT_EQ(shell.NextRows(), 0u);
  const int before = shell.waits;
  shell.Block(shell.OpenOf(0).stream, 2, 3, 500);
  EXPECT_EQ(shell.waits, before + 1) << "nobody else can have it, and how many rows there are is to be known";
}

TEST(ClientMemory, ALargeBlockIsLetComeForOneLaneAtATime) {
  CoreShell shell(BatchOf(1), kMemory);
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0), GrantOf(1), GrantOf(2), GrantOf(3)});
  for (uint32_t lane = 0; lane < 4; ++lane) shell.BlockWaits(shell.OpenOf(lane).stream, 0, 1, 7000);
  std::vector<LaneStream> covered;
  for (uint32_t lane = 0; lane < 4; ++lane) {
    const auto open = shell.OpenOf(lane);
    if (open.open.credit + shell.credit[open.stream] >= 7000) covered.push_back(open.stream);
  }
  ASSERT_EQ(covered.size(), 1u);
  shell.Block(covered[0], 0, 1, 7000);
  EXPECT_EQ(shell.NextRows(), 1u);
  const auto has_more = [&](const auto& open) { return open.stream != covered[0] && open.open.credit + shell.credit[open.stream] >= 7000; };
  EXPECT_EQ(std::count_if(shell.opens.begin(), shell.opens.end(), has_more), 1) << "the next lane's turn came with the memory";
}

TEST(ClientMemory, ALoopGetsCopiesWhereABatchInItsHandsLeavesNoRoomForTheNextBlock) {
  for (const uint64_t bytes : {kMemory / 2, kMemory / 2 + 1}) {
    CoreShell shell(BatchOf(1), kMemory);
    shell.KeepMemory();
    shell.Join({WorkerAt(1)});
    shell.Grant({GrantOf(0)});
    shell.Block(shell.OpenOf(0).stream, 0, 1, bytes);
    EXPECT_EQ(shell.core().LoopGetsCopies(), bytes > kMemory / 2) << bytes;
  }
}

// The loop holds a batch of 6000 of the 8000 bytes, and waits for one of 3000.
void WaitBesideABatch(CoreShell& shell) {
  shell.KeepMemory();
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const LaneStream stream = shell.OpenOf(0).stream;
  shell.BlockWaits(stream, 0, 1, 6000);
  shell.Block(stream, 0, 1, 6000);
  EXPECT_EQ(shell.NextRows(), 1u);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.BlockWaits(stream, 1, 2, 3000);
}

TEST(ClientMemory, ALoopThatHoldsWhatItsNextBatchNeedsIsToldSo) {
  CoreShell shell(BatchOf(1), kMemory);
  WaitBesideABatch(shell);
  shell.Pass(std::chrono::seconds(20));
  EXPECT_TRUE(shell.failures.empty()) << "another thread of it may let go";
  EXPECT_NE(shell.core().WaitingFor().find("6000 bytes"), std::string::npos) << shell.core().WaitingFor();
  shell.Pass(std::chrono::seconds(11));
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kTooLarge);
  EXPECT_NE(shell.failures[0].message().find("your loop holds batches of 6000 bytes"), std::string::npos) << shell.failures[0];
}

// As a `for` does, which lets go of its batch when it has the next.
TEST(ClientMemory, ABatchInPiecesThatDoNotFitTogetherIsAnErrorAtOnceThoughTheLoopHoldsTheLastOne) {
  CoreShell shell(BatchOf(2), kMemory);
  shell.KeepMemory();
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const LaneStream stream = shell.OpenOf(0).stream;
  shell.Block(stream, 0, 2, 100);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.Block(stream, 2, 3, 100);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.BlockWaits(stream, 3, 4, 3 * kMemory);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.Pass(std::chrono::seconds(1));
  ASSERT_EQ(shell.failures.size(), 1u);
  EXPECT_EQ(shell.failures[0].code(), Code::kTooLarge);
  EXPECT_NE(shell.failures[0].message().find("a batch of 2 rows"), std::string::npos) << shell.failures[0].message();
}

TEST(ClientMemory, ABlockLargerThanTheBudgetComesBesideTheSmallBatchThatTheLoopHolds) {
  for (const uint64_t bytes : {kMemory - 100, 3 * kMemory}) {
    CoreShell shell(BatchOf(1), kMemory);
    shell.KeepMemory();
    shell.Join({WorkerAt(1)});
    shell.Grant({GrantOf(0), GrantOf(1)});
    const auto open = shell.OpenOf(0);
    const auto covered = [&] { return open.open.credit + shell.credit[open.stream] >= 200 + bytes; };
    shell.Block(open.stream, 0, 1, 200);
    EXPECT_EQ(shell.NextRows(), 1u);
    EXPECT_EQ(shell.NextRows(), 0u);
    for (const uint32_t lane : {0u, 1u}) shell.BlockWaits(shell.OpenOf(lane).stream, lane == 0 ? 1 : 0, lane == 0 ? 2 : 1, bytes);
    EXPECT_FALSE(covered()) << "what was let go of may be on its way home";
    shell.Pass(std::chrono::milliseconds(100));
    ASSERT_TRUE(covered());
    EXPECT_LT(shell.OpenOf(1).open.credit + shell.credit[shell.OpenOf(1).stream], bytes) << "one at a time";
    shell.Block(open.stream, 1, 2, bytes);
    EXPECT_EQ(shell.NextRows(), 1u);
    EXPECT_TRUE(shell.core().LoopGetsCopies()) << "so what it holds does not grow";
    EXPECT_TRUE(shell.failures.empty());
  }
}

TEST(ClientMemory, ALoopThatLetsGoInTimeGoesOn) {
  CoreShell shell(BatchOf(1), kMemory);
  WaitBesideABatch(shell);
  shell.Pass(std::chrono::seconds(20));
  shell.Do(event::Freed{Handle{1}});
  shell.Pass(std::chrono::seconds(20));
  EXPECT_TRUE(shell.failures.empty());
  shell.Block(shell.OpenOf(0).stream, 1, 2, 3000);
  shell.Grant({GrantOf(0)});
  EXPECT_EQ(shell.NextRows(), 1u);
}

TEST(ClientMemory, LanesGiveWayAlsoWhereTheLoopHoldsABatch) {
  CoreShell shell(BatchOf(2), kMemory);
  shell.KeepMemory();
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0), GrantOf(1)});
  const LaneStream first = shell.OpenOf(0).stream;
  const LaneStream second = shell.OpenOf(1).stream;
  shell.BlockWaits(first, 0, 2, 3000);
  shell.Block(first, 0, 2, 3000);
  EXPECT_EQ(shell.NextRows(), 2u);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.BlockWaits(first, 2, 3, 2000);
  shell.Block(first, 2, 3, 2000);
  const Handle other = shell.Block(second, 0, 1, 2000);
  EXPECT_EQ(shell.NextRows(), 0u);
  shell.BlockWaits(second, 1, 2, 2000);
  shell.BlockWaits(first, 3, 4, 2000);
  EXPECT_FALSE(shell.Closed(second)) << "what was let go of may be on its way home";
  shell.Pass(std::chrono::milliseconds(100));
  EXPECT_TRUE(shell.Closed(second));
  EXPECT_TRUE(shell.core().LoopGetsCopies());
  ASSERT_TRUE(shell.released.contains(other));
  shell.Do(event::Freed{other});
  EXPECT_EQ(shell.NextRows(), 0u);  // the loop looks again, and still waits
  shell.Block(first, 3, 4, 2000);
  EXPECT_EQ(shell.NextRows(), 2u);
}

TEST(ClientMemory, ABlockLargerThanTheBudgetComesAlone) {
  TightReader reader(1, 3, 3 * kMemory);
  reader.shell.Grant({GrantOf(0), GrantOf(1)});
  for (int batch = 0; batch < 6; ++batch) {
    reader.Work();
    ASSERT_EQ(reader.shell.NextRows(), 1u) << batch;
  }
}

TEST(ClientMemory, LanesGiveWayToTheOneNearestToAWholeBatchAndBeginAgainAfterIt) {
  TightReader reader(6, 6, 1000);
  reader.shell.Grant({GrantOf(0), GrantOf(1), GrantOf(2), GrantOf(3)});
  reader.Work();
  EXPECT_EQ(reader.shell.core().counts().held_bytes, kMemory) << "two rows of each lane, and a batch is six";
  for (int batch = 0; batch < 4; ++batch) {
    uint64_t rows = reader.shell.NextRows();
    for (int turn = 0; turn < 20 && rows == 0; ++turn) {
      reader.Work();
      rows = reader.shell.NextRows();
    }
    ASSERT_EQ(rows, 6u) << batch;
  }
  EXPECT_EQ(reader.shell.NextRows(), 0u);
  EXPECT_TRUE(reader.shell.failures.empty());
  EXPECT_EQ(reader.shell.core().counts().lanes_done, 4u);
}

TEST(ClientMemory, ABatchThatDoesNotFitTheWholeBudgetIsAnErrorOnceAllOthersGaveWay) {
  TightReader reader(9, 100, 1000);
  reader.shell.Grant({GrantOf(0), GrantOf(1), GrantOf(2), GrantOf(3)});
  for (int turn = 0; turn < 20 && reader.shell.failures.empty(); ++turn) {
    reader.Work();
    EXPECT_EQ(reader.shell.NextRows(), 0u);
  }
  ASSERT_EQ(reader.shell.failures.size(), 1u);
  EXPECT_EQ(reader.shell.failures[0].code(), Code::kTooLarge);
  EXPECT_NE(reader.shell.failures[0].message().find("8000 are held, 1000 more"), std::string::npos) << reader.shell.failures[0];
}

TEST(ClientMemory, RowsThatWaitForALeaseAreNoBatchThatDoesNotFit) {
  TightReader reader(0, 100, 1000);
  reader.shell.Grant({GrantOf(0), GrantOf(1)});
  reader.Work();
  reader.shell.Pass(std::chrono::seconds(13));
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(reader.shell.NextRows(), 0u);
    reader.Work();
  }
  EXPECT_TRUE(reader.shell.failures.empty()) << reader.shell.failures[0];
  reader.shell.Grant({GrantOf(0), GrantOf(1)});
  EXPECT_EQ(reader.shell.NextRows(), 1u);
}

TEST(ClientMemory, ABlockThatItsCreditDoesNotCoverIsTheWorkersFault) {
  CoreShell shell(BatchOf(1), kMemory);
  shell.Join({WorkerAt(1), WorkerAt(2)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  EXPECT_FALSE(shell.core().Expects(open.stream, open.open.credit + 1));
  EXPECT_TRUE(shell.released.contains(shell.Block(open.stream, 0, 1, open.open.credit + 1)));
  EXPECT_TRUE(shell.Closed(open.stream));
  EXPECT_NE(shell.OpenOf(0).worker, open.worker);
  EXPECT_EQ(shell.core().counts().held_bytes, 0u);
}

// A lane of 5 rows in one block of 7000 bytes; the loop has the batch of 4, and one row is left.
void LeaveATail(CoreShell& shell) {
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0)});
  const auto open = shell.OpenOf(0);
  shell.BlockWaits(open.stream, 0, 5, 7000);
  shell.Block(open.stream, 0, 5, 7000);
  shell.End(open.stream, 5);
  EXPECT_EQ(shell.NextRows(), 4u);
}

TEST(ClientMemory, TheCopyOfATailIsCountedUntilItIsFreed) {
  CoreShell shell(BatchOf(4), kMemory);
  shell.tail_bytes = 900;
  shell.KeepMemory();
  LeaveATail(shell);
  EXPECT_EQ(shell.core().counts().held_bytes, 7900u);
  for (const Handle handle : std::set(shell.released)) shell.Do(event::Freed{handle});
  EXPECT_EQ(shell.core().counts().held_bytes, 900u);
  msg::BeatReply end = shell.Reply({GrantOf(0)});
  end.end = true;
  shell.Answer(end);
  EXPECT_EQ(shell.NextRows(), 1u);
  for (const Handle handle : std::set(shell.released)) shell.Do(event::Freed{handle});
  EXPECT_EQ(shell.core().counts().held_bytes, 0u);
}

TEST(ClientMemory, ATailThatHasNoRoomForItsCopyStaysInItsBlock) {
  CoreShell shell(BatchOf(4), kMemory);
  shell.tail_bytes = 1100;
  LeaveATail(shell);
  EXPECT_TRUE(shell.shrunk.empty());
  EXPECT_EQ(shell.core().counts().held_bytes, 7000u);
}

TEST(ClientMemory, ATailIsCopiedOnceAnotherBlockMadeRoomForIt) {
  CoreShell shell(BatchOf(4), 2 * kMemory);
  shell.tail_bytes = 2500;
  shell.Join({WorkerAt(1)});
  shell.Grant({GrantOf(0), GrantOf(1)});
  for (const uint32_t lane : {1u, 0u}) shell.BlockWaits(shell.OpenOf(lane).stream, 0, 5, 7000);
  shell.Block(shell.OpenOf(1).stream, 0, 5, 7000);
  shell.Block(shell.OpenOf(0).stream, 0, 5, 7000);
  shell.End(shell.OpenOf(0).stream, 5);
  shell.KeepMemory();
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_EQ(shell.NextRows(), 4u);
  EXPECT_TRUE(shell.shrunk.empty()) << "14000 of 16000 bytes are held";
  shell.Fail(shell.OpenOf(1).stream, Code::kUnavailable);
  shell.Do(event::Freed{Handle{1}});
  EXPECT_EQ(shell.shrunk.size(), 1u);
}

}  // namespace
}  // namespace penstock
