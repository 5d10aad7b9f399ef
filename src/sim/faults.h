// What goes wrong in a run, and when: the kinds that its scenario has on strike at random until it is time to be calm.
#pragma once

#include <memory>
#include <vector>

#include "sim/dispatcher_node.h"
#include "sim/scenario.h"
#include "sim/trainer.h"
#include "sim/worker_node.h"
#include "sim/world.h"

namespace penstock::sim {

class Faults {
 public:
  struct Cluster {
    World& world;
    DispatcherNode& dispatcher;
    DispatcherNode& stale;
    std::vector<std::unique_ptr<WorkerNode>>& workers;
    std::vector<std::unique_ptr<Trainer>>& trainers;
  };
  Faults(const Scenario& scenario, Cluster cluster) : scenario_(scenario), cluster_(cluster) {}

  void Begin();  // before anything starts

 private:
  void Next();
  void Strike(Fault fault);
  void Calm();
  void SkewClocks();
  void Partition();
  void StaleDispatcher();
  std::vector<Node*> AllNodes();
  Trainer& AnyTrainer();
  WorkerNode& AnyWorker();
  TimePoint calm() const { return TimePoint{std::chrono::milliseconds(scenario_.calm_after_ms)}; }

  const Scenario& scenario_;
  const Cluster cluster_;
  std::vector<Fault> kinds_;
  uint64_t pace_ms_ = 0;  // between two of them, at most
};

}  // namespace penstock::sim
