// A restarted dispatcher knows what the one before it had stored, whatever had happened, at every point.
#include <gtest/gtest.h>

#include <random>

#include "dispatcher/codec.h"
#include "dispatcher/core_harness.h"

namespace penstock::dispatcher {
namespace {

// Consumers, workers and time, all by chance: what they say need not make sense.
class Chance {
 public:
  explicit Chance(uint32_t seed) : random_(seed) {}

  void Step() {
    switch (Below(10)) {
      case 0: return h.AddWorker(1 + Below(3));
      case 1: return h.Feed(SessionClosed{SessionId{Below(2) == 0 ? 1001 + Below(3) : 1 + Below(4)}});
      case 2: return h.Pass(std::chrono::milliseconds(250 * (1 + Below(80))));
      case 3: return Join();
      case 4: return Leave();
      default: return Beat();
    }
  }

  CoreHarness h;

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  void Join() {
    msg::Join join = h.JoinOf(++incarnations_, "job-" + std::to_string(Below(3)));
    join.mode = join.job_name == "job-2" ? Mode::kReplicated : Mode::kShared;
    join.epochs = join.job_name == "job-1" ? 0 : 2;
    Layout layout = LayoutOf(static_cast<uint32_t>(Below(6)));
    layout.serial = Below(3) == 0 && layout.lanes == 1;
    const Message answer = h.Join(join, layout);
    if (const auto* joined = std::get_if<msg::Joined>(&answer)) consumers_.emplace_back(*joined);
  }

  void Leave() {
    if (consumers_.empty()) return;
    const size_t who = Below(consumers_.size());
    h.Say(SessionId{Raw(consumers_[who].beat.consumer)}, msg::Leave{consumers_[who].beat.job, consumers_[who].beat.consumer, {}, {}});
    consumers_.erase(consumers_.begin() + static_cast<ptrdiff_t>(who));
  }

  void Beat() {
    if (consumers_.empty()) return;
    Scripted& consumer = consumers_[Below(consumers_.size())];
    msg::Beat& beat = consumer.beat;
    beat.holds.clear();
    beat.finished.clear();
    for (const msg::Grant& grant : consumer.reply.grants) {
      const Cursor upto{grant.range.from.seq + Below(5), static_cast<uint32_t>(Below(2))};
      if (Below(3) == 0) {
        beat.finished.push_back({grant.range.lane, grant.range.from, grant.fence, upto, Below(2) == 0});
      } else {
        beat.holds.push_back({grant.range.lane, grant.range.from, grant.fence, upto, Below(2) == 0, Below(3), Below(3) == 0});
      }
    }
    beat.want = static_cast<uint32_t>(Below(4));
    beat.idle = beat.holds.empty();
    if (consumer.reply.end || Below(20) == 0) beat.epoch = Epoch{Raw(beat.epoch) + 1};
    ++beat.serial;
    const Message answer = h.Say(SessionId{Raw(beat.consumer)}, beat);
    if (const auto* reply = std::get_if<msg::BeatReply>(&answer)) consumer.reply = *reply;
  }

  std::mt19937 random_;
  uint64_t incarnations_ = 0;
  std::vector<Scripted> consumers_;
};

TEST(Restart, AfterAnyHistoryTheNewCoreIsTheOldOne) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Chance chance(seed);
    for (int step = 0; step < 150; ++step) {
      chance.Step();
      ASSERT_EQ(chance.h.core->TakeSnapshot(), chance.h.stored) << "seed " << seed << " step " << step;
      if (step % 10 != 9) continue;
      chance.h.Restart();
      ASSERT_EQ(chance.h.core->TakeSnapshot(), chance.h.stored) << "seed " << seed << " step " << step << ", restarted";
    }
  }
}

TEST(Restart, DamagedStateIsRefusedByKey) {
  CoreHarness h;
  h.AddWorker(1);
  const msg::Joined joined = h.JoinOk(h.JoinOf(1), LayoutOf(3));
  for (const std::string& key : {JobKey(joined.job), InputsKey(joined.job), EpochKey(joined.job, Epoch{0}), MemberKey(joined.job, joined.consumer)}) {
    Snapshot damaged = h.stored;
    ASSERT_TRUE(damaged.contains(key)) << key;
    damaged[key] = "damaged";
    DispatcherCore core({});
    const Status status = core.Restore(h.now, damaged);
    EXPECT_EQ(status.code(), Code::kData);
    EXPECT_NE(status.message().find(key), std::string::npos) << status;
  }
}

TEST(Restart, ADispatcherThatWasStoppedTakesNobodyForDead) {
  CoreHarness h;
  h.AddWorker(1);
  Scripted reader(h.JoinOk(h.JoinOf(1), LayoutOf(1)));
  reader.Hold(h, 1);
  h.Feed(TimerFired{});
  h.now = h.now + std::chrono::seconds(60);
  h.Feed(TimerFired{});  // before what was said meanwhile is read
  EXPECT_EQ(h.core->counts().expired, 0u);
  EXPECT_EQ(reader.Hold(h, 1).grants.size(), 1u);
  h.Pass(std::chrono::seconds(16));
  EXPECT_EQ(h.core->counts().expired, 1u) << "who is silent from now on is";
}

}  // namespace
}  // namespace penstock::dispatcher
