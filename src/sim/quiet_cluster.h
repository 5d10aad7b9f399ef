// For tests: a dispatcher, a worker and the ranks of one job, without any fault but those that a test makes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sim/trainer.h"

namespace penstock::sim {

inline JobScenario SmallJob(uint32_t lanes) {
  JobScenario job;
  job.name = job.rows = "train";
  job.seed = 5;
  job.layout.lanes = lanes;
  job.layout.batch = 2;
  job.consumers = 2;
  job.declared = true;
  job.on_death = OnDeath::kHold;
  job.reader_memory = 1 << 20;
  return job;
}

inline JobScenario SmallStrictJob() {
  JobScenario job = SmallJob(6);
  job.mode = Mode::kStrict;
  return job;
}

class QuietCluster : public testing::Test {
 protected:
  QuietCluster(uint64_t seed, JobScenario job) : scenario(Of(std::move(job))), world{seed, trace} {
    workers.push_back(std::make_unique<WorkerNode>(world, scenario, home, 0));
    trainer = std::make_unique<Trainer>(world, scenario, scenario.jobs[0], cluster);
    dispatcher.Start();
    workers[0]->Start();
  }
  // False: it was not done within the time.
  bool Run(Duration time, const std::function<bool()>& done) { return world.Run(world.now() + time, done); }
  void Run(Duration time) {
    Run(time, [] { return false; });
  }

  const Scenario scenario;
  TraceLog trace{TraceLog::Keep::kNothing};
  World world;
  GrantBook book;
  DispatcherNode dispatcher{world, &book, "dispatcher"};
  DispatcherNode stale{world, nullptr, "stale"};
  const Home home{dispatcher, stale};
  std::vector<std::unique_ptr<WorkerNode>> workers;
  const ConsumerNode::Cluster cluster{home, workers, book};
  std::unique_ptr<Trainer> trainer;

 private:
  static Scenario Of(JobScenario job) {
    Scenario scenario;
    scenario.workers = 1;
    scenario.worker_memory = 1 << 20;
    scenario.jobs = {std::move(job)};
    return scenario;
  }
};

}  // namespace penstock::sim
