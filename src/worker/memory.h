// The memory of blocks: segments a job, under the worker's budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/extent.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/segments.h"
#include "worker/inbox.h"

namespace penstock::worker {

// The segments of all jobs. What is free in one gives way when a block elsewhere, or of another size, needs the room. Any thread.
class JobSegments {
 public:
  JobSegments(std::shared_ptr<SegmentTable> table, uint64_t memory) : table_(std::move(table)), memory_(memory) {}
  std::shared_ptr<SegmentPool> For(JobId job);
  void Forget(JobId job);
  // From a pool of For(): what is touched of all pools stays within the budget, as long as what is out of them does.
  Result<Extent> Allocate(SegmentPool& pool, uint64_t bytes);
  void TrimAll();
  void Shrink(uint64_t bytes);  // of the budget: they are used for something else from now on

 private:
  uint64_t TouchedBytes() const;  // both with mutex_ held
  void TrimPools();

  std::shared_ptr<SegmentTable> table_;
  uint64_t memory_;
  std::mutex mutex_;
  std::map<JobId, std::shared_ptr<SegmentPool>> pools_;
};

// Where one lane gets memory for its blocks: as much a step as the core gave it room for. One thread at a time.
class LaneAllocator final : public ExtentAllocator {
 public:
  LaneAllocator(std::shared_ptr<JobSegments> segments, JobId job, std::shared_ptr<Inbox> inbox)
      : segments_(std::move(segments)), pool_(segments_->For(job)), inbox_(std::move(inbox)) {}

  void BeginStep(uint64_t room);
  uint64_t room() const { return room_; }  // that is left
  Result<Extent> Allocate(uint64_t bytes) override;

  struct Given {
    BlockHandle handle{};
    uint64_t charge = 0;
  };
  // What it gave out in this step for a block that came of it.
  Given Of(const Extent& block) const;

 private:
  class Home;
  struct Piece {
    const std::byte* at = nullptr;
    Given given;
  };
  std::shared_ptr<JobSegments> segments_;
  std::shared_ptr<SegmentPool> pool_;
  std::shared_ptr<Inbox> inbox_;
  uint64_t room_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace penstock::worker
