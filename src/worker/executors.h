// The executors of one job: user code of one job never shares a process with another's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/code.h"
#include "wire/segments.h"
#include "worker/executor_process.h"

namespace penstock::worker {

// Lanes are spread over up to options.processes executors, which are started when lanes need them; a dead one is replaced at the next open. Any
// thread.
class JobExecutors final : public CodeHost, public std::enable_shared_from_this<JobExecutors> {
 public:
  // `table` knows the segments that blocks are written into.
  JobExecutors(std::string plan, ExecutorOptions options, std::shared_ptr<SegmentTable> table)
      : plan_(std::move(plan)), options_(std::move(options)), table_(std::move(table)), scratch_(table_) {}
  ~JobExecutors() override;

  Result<std::unique_ptr<CodeLane>> Open(const CodeOpen& open) override;
  ExtentAllocator& scratch() override { return scratch_; }
  // Ends all; calls under way fail. Nothing is opened after it.
  void Kill();

 private:
  class Executor;
  class Lane;
  Result<std::shared_ptr<Executor>> Choose();
  Status Explain(Status error, const Cursor* from) const;

  const std::string plan_;
  const ExecutorOptions options_;
  const std::shared_ptr<SegmentTable> table_;
  SegmentPool scratch_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Executor>> executors_;
  bool killed_ = false;
};

}  // namespace penstock::worker
