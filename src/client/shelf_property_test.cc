#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "client/shelf_test_shell.h"

namespace penstock {
namespace {

using std::chrono::seconds;

// Random lanes, blocks and cuts: every row once and in order, all batches full but the last, every block passed once.
TEST(ShelfProperty, EveryRowComesOnceAndBatchesAreFull) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    const uint32_t mix = below(2) == 0 ? 1 : static_cast<uint32_t>(1 + below(4));
    const uint64_t batch = below(5) == 0 ? 0 : mix * (1 + below(5));
    ManualClock clock;
    Shelf shelf(clock);
    shelf.Configure(Cut(batch, mix), Epoch{0});
    shelf.SetLease({seconds(1)});
    struct Source {
      uint64_t at = 0, rows = 0, got = 0;
      bool ended = false;
    };
    std::vector<Source> lanes(1 + below(6));
    uint64_t total = 0, handle = 0, got = 0, passed = 0, ended = 0, short_batches = 0;
    for (uint32_t i = 0; i < lanes.size(); ++i) {
      total += lanes[i].rows = below(40);
      shelf.Add(Grant(i), {}, Epoch{0});
      shelf.SetOpen(Grant(i), true);
    }
    while (true) {
      const auto i = static_cast<uint32_t>(below(lanes.size()));
      Source& lane = lanes[i];
      if (lane.at < lane.rows) {
        const uint64_t from = lane.at - std::min(lane.at, below(3));  // some rows come twice
        const uint64_t to = std::min(lane.rows, lane.at + 1 + below(7));
        shelf.Put(Grant(i), Rows(++handle, from, to));
        lane.at = to;
      } else if (!lane.ended) {
        lane.ended = true;
        shelf.End(Grant(i), {lane.rows, 0});
        if (++ended == lanes.size()) shelf.EndEpoch(Epoch{0});
      }
      if (below(2) == 0) continue;
      const Shelf::Taken taken = shelf.Next();
      passed += shelf.TakeProgress().passed.size();
      if (std::holds_alternative<Shelf::EpochEnd>(taken)) break;
      const auto* slices = std::get_if<std::vector<Slice>>(&taken);
      if (slices == nullptr) continue;
      for (const Slice& slice : *slices) {
        Source& from = lanes[Raw(slice.grant.lane.lane)];
        ASSERT_EQ(slice.first.seq, from.got) << seed;
        from.got = slice.end.seq;
      }
      got += Count(*slices);
      if (batch > 0 && Count(*slices) != batch) ++short_batches;
    }
    EXPECT_EQ(got, total) << seed;
    EXPECT_LE(short_batches, 1u) << seed;
    EXPECT_EQ(passed, handle) << seed;
  }
}

TEST(ShelfThreads, ALoopAndACoreShareAShelf) {
  Shelf shelf(Clock::System());
  shelf.Configure(Cut(8), Epoch{0});
  shelf.SetLease(Clock::System().Now() + seconds(600));
  std::thread core([&] {
    for (uint32_t lane = 0; lane < 20; ++lane) {
      shelf.Add(Grant(lane), {}, Epoch{0});
      shelf.SetOpen(Grant(lane), true);
      for (uint64_t row = 0; row < 100; row += 10) shelf.Put(Grant(lane), Rows(lane * 100 + row, row, row + 10));
      shelf.End(Grant(lane), {100, 0});
      shelf.TakeProgress();
    }
    shelf.EndEpoch(Epoch{0});
  });
  uint64_t rows = 0;
  while (true) {
    const Shelf::Taken taken = shelf.Next();
    if (std::holds_alternative<Shelf::EpochEnd>(taken)) break;
    if (const auto* wait = std::get_if<Shelf::Wait>(&taken)) {
      ASSERT_TRUE(shelf.WaitForNews(wait->seen, Clock::System().Now() + seconds(60)));
    } else {
      rows += Count(std::get<std::vector<Slice>>(taken));
      shelf.Claimed();
    }
  }
  core.join();
  EXPECT_EQ(rows, 2000u);
}

}  // namespace
}  // namespace penstock
