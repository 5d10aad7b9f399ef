#include "worker/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <new>

#include "base/constants.h"
#include "penstock/manifest.h"
#include "penstock/plan.h"

namespace penstock::worker {
namespace {

using testing::HasSubstr;

// A lane whose operators want more memory than there is: what a plan from outside may bring about, and no test can for real.
class HungryRun final : public LaneRun {
 public:
  StepResult Step() override { throw std::bad_alloc(); }
  void Extend(Seq /*to*/) override {}
  uint64_t state_bytes() const override { return 0; }
  std::string where() const override { return "read /data/a.tfrecord at 4096"; }
};

class HungryPipeline final : public Pipeline {
 public:
  const Layout& layout() const override { return layout_; }
  std::string inputs_hash() const override { return {}; }
  bool runs_code() const override { return false; }
  uint64_t block_target() const override { return 0; }
  std::string explain() const override { return {}; }
  Result<std::unique_ptr<LaneRun>> OpenLane(const LaneRequest& /*request*/) const override { return std::unique_ptr<LaneRun>(new HungryRun()); }

 private:
  Layout layout_;
};

// The first step of a lane over numbers, batched, by group or not.
StepDone FirstStep(int64_t numbers, int64_t batch, bool by_group, uint64_t room) {
  AttrMap range;
  range.Set("start", int64_t{0});
  range.Set("stop", numbers);
  range.Set("step", int64_t{1});
  AttrMap group;
  group.Set("n", batch);
  group.Set("drop_remainder", false);
  const Plan plan = Plan::Over({Plan::Over({}, "range", std::move(range))}, "batch", std::move(group));
  const auto pipeline = Pipeline::Compile(plan, *ListInputs(plan), 7);
  const ManualClock clock;
  IoThread io("test-lanes");
  std::promise<StepDone> told;
  const auto inbox = std::make_shared<Inbox>(io, [&](Inbox::Notes notes) {
    for (const Note& note : notes) {  // memory that comes home is told of, too
      const auto* done = std::get_if<StepDone>(&note.event);
      if (done == nullptr) continue;
      EXPECT_EQ(done->made().size(), note.blocks.size());
      told.set_value(*done);
    }
  });
  Pool pool(1);
  Lanes lanes(pool, inbox, std::make_shared<JobSegments>(std::make_shared<SegmentTable>(), 64 * kMiB), std::make_shared<Packers>(1), clock);
  lanes.AddJob(JobId{1}, "train", *pipeline, nullptr, 0);
  lanes.Start({.task = TaskId{3}, .job = JobId{1}, .lane = {}, .from = {}, .block_target = kMiB, .block_cap = 8 * kMiB, .by_group = by_group});
  lanes.Step({.task = TaskId{3}, .room = room});
  StepDone done = told.get_future().get();
  inbox->Close();
  return done;
}

TEST(Lanes, ManySmallGroupsAreMadeInOneStepAndTheLanesEndWithThem) {
  const StepDone done = FirstStep(16, 2, true, kMiB);
  ASSERT_EQ(done.before.size(), 8U);
  EXPECT_TRUE(std::holds_alternative<LaneOver>(done.outcome));
  for (size_t i = 0; i < done.before.size(); ++i) {
    EXPECT_EQ(done.before[i].info.first.seq, 2 * i);
    EXPECT_EQ(done.before[i].info.rows, 2U);
  }
}

TEST(Lanes, GroupsOfAStepTakeNoMoreThanItsRoom) {
  const StepDone first = FirstStep(1 << 20, 2, true, 4 * kKiB);
  const uint64_t charge = first.made().front().charge;
  const uint64_t room = 5 * charge / 2;
  uint64_t taken = 0;
  for (const BlockToken& block : FirstStep(1 << 20, 2, true, room).made()) taken += block.charge;
  EXPECT_GT(taken, 0U);
  EXPECT_LE(taken, room);
}

TEST(Lanes, ALargeGroupIsOneStepAndSoIsABlockOfManyGroups) {
  EXPECT_TRUE(FirstStep(1 << 20, 1 << 15, true, kMiB).before.empty());
  EXPECT_TRUE(FirstStep(1 << 20, 2, false, 4 * kMiB).before.empty());
}

TEST(Lanes, AnOperatorThatRunsOutOfMemoryEndsItsLaneAndNothingElse) {
  IoThread io("test-lanes");
  std::promise<Inbox::Notes> told;
  const auto inbox = std::make_shared<Inbox>(io, [&](Inbox::Notes notes) { told.set_value(std::move(notes)); });
  Pool pool(1);
  Lanes lanes(pool, inbox, std::make_shared<JobSegments>(std::make_shared<SegmentTable>(), 64 * kMiB), std::make_shared<Packers>(1));
  lanes.AddJob(JobId{1}, "train", std::make_shared<HungryPipeline>(), nullptr, 0);
  lanes.Start({.task = TaskId{3}, .job = JobId{1}, .lane = {.epoch = Epoch{0}, .replica = {}, .lane = LaneId{5}}, .from = {}});
  lanes.Step({.task = TaskId{3}, .room = kMiB});
  const Inbox::Notes notes = told.get_future().get();
  inbox->Close();
  ASSERT_EQ(notes.size(), 1U);
  const auto& done = std::get<StepDone>(notes[0].event);
  EXPECT_EQ(done.task, TaskId{3});
  const auto& status = std::get<Status>(done.outcome);
  EXPECT_EQ(status.code(), Code::kTooLarge);
  EXPECT_THAT(status.message(), HasSubstr("lane 5"));
  EXPECT_THAT(status.message(), HasSubstr("read /data/a.tfrecord at 4096"));
}

}  // namespace
}  // namespace penstock::worker
