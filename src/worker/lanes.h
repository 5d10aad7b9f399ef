// Runs of lanes on the pool: carries out what the core says about tasks, and reports back through the inbox.
#pragma once

#include <map>
#include <memory>

#include "base/clock.h"
#include "engine/pipeline.h"
#include "worker/events.h"
#include "worker/executors.h"
#include "worker/inbox.h"
#include "worker/memory.h"
#include "worker/packers.h"
#include "worker/pool.h"

namespace penstock::worker {

// On the I/O thread; steps run on the pool, one at a time a task. A StepDone for each StepLane; a block's memory comes beside it.
class Lanes {
 public:
  Lanes(Pool& pool, std::shared_ptr<Inbox> inbox, std::shared_ptr<JobSegments> segments, std::shared_ptr<Packers> packers,
        const Clock& clock = Clock::System())
      : pool_(pool), inbox_(std::move(inbox)), segments_(std::move(segments)), packers_(std::move(packers)), clock_(clock) {}

  ~Lanes();

  // `executors`: of a pipeline that runs code, else null. Its lanes wait for user code on threads of their own, so that nobody else's wait for it.
  void AddJob(JobId job, std::string name, std::shared_ptr<const Pipeline> pipeline, std::shared_ptr<JobExecutors> executors, uint32_t threads);
  void Forget(JobId job);
  std::shared_ptr<const Pipeline> Find(JobId job) const;  // null where it is not known

  void Start(const StartLane& start);
  void Step(const StepLane& step);
  void Extend(const ExtendLane& extend);
  void Stop(const StopLane& stop);

 private:
  class Task;
  Pool& pool_;
  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<JobSegments> segments_;
  std::shared_ptr<Packers> packers_;
  const Clock& clock_;
  struct Job {
    std::string name;
    std::shared_ptr<const Pipeline> pipeline;
    std::shared_ptr<JobExecutors> executors;
    std::shared_ptr<Pool> threads;
  };
  static void End(Job job);

  std::map<JobId, Job> jobs_;
  std::map<TaskId, std::shared_ptr<Task>> tasks_;
};

}  // namespace penstock::worker
