// Consumers of a strict job over scripted workers: what the loops get is the reference's order, whatever is late, repeated or lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "client/core_test_shell.h"
#include "client/ring_reference.h"
#include "plan/position.h"

namespace penstock {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kRowBytes = 100;

struct RingCase {
  std::vector<uint64_t> lane_rows;
  uint64_t batch = 4;
  uint32_t mix = 1;
  uint32_t places = 2;
  uint32_t consumers = 1;
  uint32_t workers = 2;
  Even even = Even::kUneven;
  bool drop_remainder = false;
  uint64_t memory = 1 << 20;

  std::vector<Parts> Batches() const {
    std::vector<Parts> batches = Reference(lane_rows, batch / mix, places).Mixed(mix);
    const bool is_short = !batches.empty() && Reference::RowsOf(batches.back()) < batch;
    if (is_short && drop_remainder) batches.pop_back();
    return batches;
  }
  // What a consumer's loop gets.
  std::vector<Parts> Expected(uint32_t index) const {
    const std::vector<Parts> all = Batches();
    std::vector<Parts> mine;
    for (size_t step = 0; step * consumers < all.size(); ++step) {
      const size_t g = step * consumers + index;
      const bool whole = (step + 1) * consumers <= all.size();
      if (whole || (g < all.size() && even != Even::kDrop)) {
        mine.push_back(all[g]);
      } else if (even == Even::kPad) {
        mine.push_back(all.back());
      }
    }
    return mine;
  }
};

// Consumers in lockstep or not, and workers that say one thing at a time, in a random order.
class RingCluster {
 public:
  RingCluster(RingCase c, uint64_t seed, const std::string& base = "") : case_(std::move(c)), random_(seed) {
    for (uint32_t i = 0; i < case_.consumers; ++i) consumers_.push_back(MakeConsumer(i, base));
  }

  // Until every loop has seen the epoch's end. `disturb`: workers die.
  void Run(bool disturb) {
    for (int i = 0; !std::all_of(ended_.begin(), ended_.end(), [](const auto& item) { return item.second; }); ++i) {
      ASSERT_LT(i, 200'000) << Waits();
      const auto consumer = static_cast<uint32_t>(random_() % case_.consumers);
      const uint64_t what = random_() % 100;
      if (disturb && what == 0) {
        KillWorker(WorkerId{1 + random_() % case_.workers});
      } else if (what < 30) {
        TakeBatch(consumer);
      } else {
        SaySomething(consumer);
      }
    }
  }

  const std::vector<Parts>& got(uint32_t consumer) { return got_[consumer]; }
  CoreShell& shell(uint32_t consumer) { return *consumers_[consumer]; }
  uint64_t most_held() const { return most_held_; }

 private:
  struct Stream {
    Seq told = 0;
    bool end_told = false;
  };

  std::unique_ptr<CoreShell> MakeConsumer(uint32_t index, const std::string& base) {
    Layout layout;
    layout.lanes = static_cast<uint32_t>(case_.lane_rows.size());
    layout.batch = case_.batch;
    layout.mix = case_.mix;
    layout.drop_remainder = case_.drop_remainder;
    auto shell = std::make_unique<CoreShell>(layout, case_.memory);
    shell->adjust_join = [&](msg::Joined& joined) {
      joined.mode = Mode::kStrict;
      joined.index = index;
      joined.consumers = case_.consumers;
      joined.places = case_.places;
      joined.even = case_.even;
      joined.base = base;
    };
    std::vector<msg::WorkerInfo> workers;
    for (uint32_t w = 1; w <= case_.workers; ++w) workers.push_back(WorkerAt(w));
    shell->Join(workers);
    EXPECT_TRUE(shell->opens.empty()) << "not before all consumers have joined";
    shell->Answer(shell->Reply({}));
    ended_[index] = false;
    return shell;
  }

  std::string Waits() const {
    std::string words = "it does not end:";
    for (const auto& consumer : consumers_) words += " " + consumer->core().WaitingFor() + ";";
    return words;
  }

  void TakeBatch(uint32_t consumer) {
    if (ended_[consumer]) return;
    const Shelf::Taken taken = consumers_[consumer]->Next();
    ended_[consumer] = std::holds_alternative<Shelf::EpochEnd>(taken);
    const auto* slices = std::get_if<std::vector<Slice>>(&taken);
    if (slices == nullptr) return;
    Parts parts;
    for (const Slice& slice : *slices) parts.emplace_back(Raw(slice.grant.lane.lane), slice.first.seq, slice.rows);
    got_[consumer].push_back(std::move(parts));
  }

  // One stream of the consumer hears of a group, or gets one that it asked for.
  void SaySomething(uint32_t consumer) {
    CoreShell& shell = *consumers_[consumer];
    shell.Pass(1ms);
    if (random_() % 100 == 0) shell.Answer(shell.Reply({}));  // the lease goes on
    std::vector<CoreShell::Opened> open;
    for (const CoreShell::Opened& opened : shell.opens) {
      if (!shell.Closed(opened.stream) && !lost_.contains({consumer, opened.stream})) open.push_back(opened);
    }
    if (open.empty()) return;
    const CoreShell::Opened& opened = open[random_() % open.size()];
    const auto at = streams_.try_emplace({consumer, opened.stream}, Stream{opened.open.range.from.seq, false}).first;
    Stream& stream = at->second;
    const uint64_t group = case_.batch / case_.mix;
    const uint64_t rows = case_.lane_rows[Raw(opened.open.range.lane.lane)];
    std::vector<Cursor>& wants = shell.takes[opened.stream].want;
    for (auto want = wants.begin(); want != wants.end(); ++want) {
      if (want->seq >= stream.told || random_() % 2 == 0) continue;
      const Seq first = want->seq;
      const Seq end = std::min(first + group, rows);
      wants.erase(want);
      shell.Block(opened.stream, first, end, (end - first) * kRowBytes);
      most_held_ = std::max(most_held_, shell.core().counts().held_bytes);
      return;
    }
    if (stream.end_told) return;
    msg::Groups groups;
    if (stream.told < rows) {
      const Seq end = std::min(stream.told + group, rows);
      groups.groups.push_back({{stream.told, 0}, {end, 0}, end - stream.told, (end - stream.told) * kRowBytes});
      stream.told = end;
    }
    groups.ended = stream.end_told = stream.told == rows && random_() % 2 == 0;
    shell.Do(event::LaneSays{opened.stream, groups});
  }

  void KillWorker(WorkerId worker) {
    for (uint32_t c = 0; c < case_.consumers; ++c) {
      bool connected = false;
      for (const CoreShell::Opened& opened : consumers_[c]->opens) {
        if (opened.worker == worker && !consumers_[c]->Closed(opened.stream)) connected |= lost_.insert({c, opened.stream}).second;
      }
      if (connected) consumers_[c]->Do(event::WorkerDown{worker, Status(Code::kUnavailable, "killed")});
    }
  }

  const RingCase case_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<CoreShell>> consumers_;
  std::map<uint32_t, std::vector<Parts>> got_;
  std::map<uint32_t, bool> ended_;
  std::map<std::pair<uint32_t, LaneStream>, Stream> streams_;
  std::set<std::pair<uint32_t, LaneStream>> lost_;
  uint64_t most_held_ = 0;
};

RingCase RandomCase(std::mt19937_64& random) {
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  RingCase c;
  c.mix = 1 + below(2);
  c.batch = c.mix * (1 + below(4));
  c.places = 1 + below(4);
  c.consumers = 1 + below(4);
  c.workers = 1 + below(3);
  c.even = std::vector<Even>{Even::kDrop, Even::kPad, Even::kUneven}[below(3)];
  c.drop_remainder = below(2) == 0;
  c.memory = (1 + below(8)) * c.batch * kRowBytes;
  const uint32_t lanes = below(8);
  for (uint32_t i = 0; i < lanes; ++i) c.lane_rows.push_back(below(30));
  return c;
}

TEST(ClientCoreStrict, EveryLoopGetsItsBatchesOfTheOneOrder) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 150; ++i) {
    const RingCase c = RandomCase(random);
    RingCluster cluster(c, random());
    cluster.Run(false);
    for (uint32_t index = 0; index < c.consumers; ++index) EXPECT_EQ(cluster.got(index), c.Expected(index)) << "case " << i << ", " << index;
  }
}

TEST(ClientCoreStrict, WorkersThatDieChangeNothing) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 150; ++i) {
    const RingCase c = RandomCase(random);
    RingCluster cluster(c, random());
    cluster.Run(true);
    for (uint32_t index = 0; index < c.consumers; ++index) {
      EXPECT_EQ(cluster.got(index), c.Expected(index)) << "case " << i << ", " << index;
      EXPECT_TRUE(cluster.shell(index).failures.empty());
    }
  }
}

TEST(ClientCoreStrict, AReaderHoldsNoMoreThanItsMemoryOrOneBatch) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 100; ++i) {
    RingCase c = RandomCase(random);
    c.memory = 2 * c.batch * kRowBytes;
    RingCluster cluster(c, random());
    cluster.Run(false);
    // A tail that is cut between batches is held whole.
    EXPECT_LE(cluster.most_held(), c.memory + c.batch * kRowBytes) << "case " << i;
  }
}

TEST(ClientCoreStrict, AnyNumberOfConsumersGoesOnFromTheStateOfOneOfThem) {
  std::mt19937_64 random(14);
  for (int i = 0; i < 100; ++i) {
    RingCase c = RandomCase(random);
    c.even = Even::kUneven;
    RingCluster cluster(c, random());
    cluster.Run(false);
    // The beat of consumer 0 after its k-th batch was asked for stands for the whole job.
    for (const msg::Beat& beat : cluster.shell(0).beats) {
      if (beat.position.empty() || beat.idle) continue;
      const auto position = ParsePosition(beat.position);
      ASSERT_TRUE(position.ok()) << position.status();
      if (!position->ring || position->ring->epoch != Epoch{0}) continue;
      const size_t first = position->ring->turn / c.mix;
      ASSERT_EQ(first % c.consumers, 0u);
      RingCase rest = c;
      rest.consumers = static_cast<uint32_t>(1 + random() % 3);
      RingCluster again(rest, random(), beat.position);
      again.Run(false);
      const std::vector<Parts> all = c.Batches();
      std::vector<Parts> joined;
      for (size_t g = first; g < all.size(); ++g) {
        const size_t ordinal = g - first;
        joined.push_back(again.got(static_cast<uint32_t>(ordinal % rest.consumers))[ordinal / rest.consumers]);
      }
      EXPECT_EQ(joined, std::vector<Parts>(all.begin() + static_cast<ptrdiff_t>(first), all.end())) << "case " << i << " from " << first;
    }
  }
}

// Joins a job of one consumer and so many places, which starts.
void BeginStrict(CoreShell& shell, uint32_t places) {
  shell.adjust_join = [places](msg::Joined& joined) {
    joined.mode = Mode::kStrict;
    joined.consumers = 1;
    joined.places = places;
  };
  shell.Join({WorkerAt(1)});
  shell.Answer(shell.Reply({}));
}

TEST(ClientCoreStrict, ALaneThatTheLoopWaitsForIsOpenedAsSuchAlsoWhenPartOfTheBatchIsHere) {
  Layout layout;
  layout.lanes = 2;
  layout.batch = 4;
  layout.mix = 2;
  CoreShell shell(layout);
  BeginStrict(shell, 2);
  EXPECT_FALSE(shell.OpenOf(1).open.urgent);
  EXPECT_EQ(shell.NextRows(), 0u);  // the loop waits
  for (const uint32_t lane : {0u, 1u}) {
    shell.Do(event::LaneSays{shell.OpenOf(lane).stream, msg::Groups{.groups = {{{0, 0}, {2, 0}, 2, 200}}}});
  }
  shell.Block(shell.OpenOf(0).stream, 0, 2, 200);
  const LaneStream refused = shell.OpenOf(1).stream;
  shell.Refuse(refused, Code::kBusy);
  EXPECT_NE(shell.OpenOf(1).stream, refused) << "it was opened ahead, and is waited for now: that is worth no pause";
  EXPECT_TRUE(shell.OpenOf(1).open.urgent);
}

TEST(ClientCoreStrict, AWorkerHearsOnceAGroupThatTheLoopWaitsForItsLane) {
  Layout layout;
  layout.lanes = 1;
  layout.batch = 4;
  layout.mix = 2;
  CoreShell shell(layout);
  BeginStrict(shell, 1);
  EXPECT_EQ(shell.waits, 0);
  EXPECT_EQ(shell.NextRows(), 0u);  // the loop waits
  EXPECT_EQ(shell.waits, 1);
  EXPECT_EQ(shell.NextRows(), 0u);
  EXPECT_EQ(shell.waits, 1);
  shell.Do(event::LaneSays{shell.OpenOf(0).stream, msg::Groups{.groups = {{{0, 0}, {2, 0}, 2, 200}}}});
  EXPECT_EQ(shell.waits, 2) << "one group of a batch of two";
}

TEST(ClientCoreStrict, WhatFollowsFromWordsThatComeTogetherIsDoneOnce) {
  Layout layout;
  layout.lanes = 2;
  layout.batch = 2;
  CoreShell shell(layout);
  BeginStrict(shell, 2);
  shell.SettleByHand();
  for (const uint32_t lane : {0u, 1u}) {
    shell.Do(event::LaneSays{shell.OpenOf(lane).stream, msg::Groups{.groups = {{{0, 0}, {2, 0}, 2, 200}}}});
  }
  EXPECT_EQ(shell.settles, 1);
  EXPECT_TRUE(shell.takes.empty());
  shell.Do(event::Settle{});
  EXPECT_EQ(shell.takes.size(), 2u);
  for (const uint32_t lane : {0u, 1u}) shell.Block(shell.OpenOf(lane).stream, 0, 2, 200);
  EXPECT_EQ(shell.settles, 2);
  shell.Pass(1ms);  // anything else is answered at once, with what has waited
  EXPECT_EQ(shell.NextRows(), 2u);
  shell.Do(event::Settle{});
  EXPECT_EQ(shell.NextRows(), 2u);
}

TEST(ClientCoreStrict, ATailOfABatchThatIsDroppedStaysForTheEarlierBatchThatLiesInItToo) {
  Layout layout;
  layout.lanes = 5;
  layout.batch = 3;
  CoreShell shell(layout);
  shell.adjust_join = [](msg::Joined& joined) {
    joined.mode = Mode::kStrict;
    joined.consumers = 3;
    joined.index = 0;
    joined.places = 1;
    joined.even = Even::kDrop;
  };
  shell.Join({WorkerAt(1)});
  shell.Answer(shell.Reply({}));
  const auto tell = [&shell](uint32_t lane, Seq rows, bool ended) {
    msg::Groups groups{.groups = {}, .ended = ended};
    for (Seq at = 0; at < rows; at += 3) groups.groups.push_back({{at, 0}, {std::min(at + 3, rows), 0}, std::min<Seq>(3, rows - at), 300});
    shell.Do(event::LaneSays{shell.OpenOf(lane).stream, groups});
  };
  // The first of three: batch 0 is lane 0 and a row of lane 1, batch 3 the other row and lane 3.
  tell(0, 2, true);
  tell(1, 2, true);
  tell(2, 6, true);
  tell(3, 2, true);
  tell(4, 3, false);
  shell.Block(shell.OpenOf(0).stream, 0, 2, 300);
  const Handle shared = shell.Block(shell.OpenOf(1).stream, 0, 2, 300);
  shell.Block(shell.OpenOf(3).stream, 0, 2, 300);
  shell.Do(event::LaneSays{shell.OpenOf(4).stream, msg::Groups{.groups = {}, .ended = true}});  // nobody has a batch 5: 3 is dropped
  EXPECT_FALSE(shell.released.contains(shared));
  EXPECT_EQ(shell.NextRows(), 3u);
  EXPECT_TRUE(shell.released.contains(shared));
  EXPECT_TRUE(std::holds_alternative<Shelf::EpochEnd>(shell.Next()));
}

TEST(ClientCoreStrict, NothingIsOpenedBeforeAllConsumersHaveJoined) {
  Layout layout;
  layout.lanes = 4;
  layout.batch = 2;
  CoreShell shell(layout);
  shell.adjust_join = [](msg::Joined& joined) {
    joined.mode = Mode::kStrict;
    joined.consumers = 2;
    joined.places = 2;
  };
  shell.Join({WorkerAt(1)});
  msg::BeatReply reply = shell.Reply({});
  reply.started = false;
  reply.waiting_for = "consumer 1 to join";
  shell.Answer(reply);
  EXPECT_TRUE(shell.opens.empty());
  EXPECT_EQ(shell.core().WaitingFor(), "consumer 1 to join");
  reply.started = true;
  shell.Answer(reply);
  EXPECT_EQ(shell.opens.size(), 4u);  // two places, and two in line
  EXPECT_TRUE(shell.opens[0].open.by_group);
}

TEST(ClientCoreStrict, AReaderThatIsClosedSaysHowFarItsLoopCameBeforeItLeaves) {
  CoreShell shell(BatchOf(2));
  shell.adjust_join = [](msg::Joined& joined) {
    joined.mode = Mode::kStrict;
    joined.consumers = 1;
  };
  shell.Join({WorkerAt(1)});
  const size_t beats = shell.beats.size();
  shell.Do(event::Close{});
  ASSERT_EQ(shell.beats.size(), beats + 1);
  EXPECT_FALSE(shell.beats.back().position.empty());
  EXPECT_EQ(shell.leaves.size(), 1u);
}

}  // namespace
}  // namespace penstock
