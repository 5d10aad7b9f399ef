#include "worker/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <new>

#include "base/constants.h"

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
