#include "sim/run.h"

#include <algorithm>
#include <memory>

#include "sim/consumer_node.h"
#include "sim/dispatcher_node.h"
#include "sim/ledger.h"
#include "sim/scenario.h"
#include "sim/worker_node.h"
#include "sim/world.h"

namespace penstock::sim {
namespace {

constexpr auto kPatience = std::chrono::seconds(600);  // after the last fault every run ends well within this

class Cluster {
 public:
  Cluster(uint64_t seed, bool trace) : scenario_(Scenario::FromSeed(seed)), world_(seed), ledger_(scenario_), dispatcher_(world_, scenario_) {
    world_.trace = trace;
    for (uint32_t i = 0; i < scenario_.workers; ++i) workers_.push_back(std::make_unique<WorkerNode>(world_, scenario_, dispatcher_, i));
    for (uint32_t i = 0; i < scenario_.consumers; ++i) {
      consumers_.push_back(std::make_unique<ConsumerNode>(world_, scenario_, ConsumerNode::Cluster{dispatcher_, workers_, ledger_}, i));
    }
  }

  RunReport Run() {
    dispatcher_.Start();
    for (auto& worker : workers_) {
      // Replicas are counted in quiet runs: all workers are there when the job starts.
      const Duration late = scenario_.faulty() ? world_.random.Millis(0, 2000) : Duration{0};
      world_.At(world_.now() + late, [&worker] { worker->Start(); });
    }
    for (auto& consumer : consumers_) {
      world_.At(world_.now() + world_.random.Millis(scenario_.faulty() ? 0 : 400, 3000), [&consumer] { consumer->Start(); });
    }
    if (scenario_.faulty()) Plague();
    const TimePoint limit = world_.now() + std::chrono::milliseconds(scenario_.calm_after_ms) + kPatience;
    bool ended = world_.Run(limit, [this] { return AllDone(); });
    // A consumer that died when the others had left leaves rows behind: whoever joins next gets them, or hears that the job has finished.
    for (int i = 0; ended && i < 2; ++i) {
      world_.Run(world_.now() + std::chrono::seconds(20), [] { return false; });
      consumers_[0]->Start();
      ended = world_.Run(world_.now() + kPatience, [this] { return AllDone(); });
    }
    if (!ended && world_.violations().empty()) Stuck();
    if (world_.violations().empty()) CheckAtRest();
    return Report();
  }

 private:
  bool AllDone() const {
    return std::all_of(consumers_.begin(), consumers_.end(), [](const auto& consumer) { return consumer->done(); });
  }

  // A fault now, the next one later, until it is time to be calm.
  void Plague() {
    const Duration next = world_.random.Millis(5, 700);
    if (world_.now() + next > TimePoint{std::chrono::milliseconds(scenario_.calm_after_ms)}) return;
    world_.At(world_.now() + next, [this] {
      Fault();
      Plague();
    });
  }

  void Fault() {
    Random& random = world_.random;
    const uint64_t kind = random.Below(6);
    if (kind == 0 && scenario_.break_links) {
      if (const auto link = world_.AnyLink()) {
        world_.Count("link broken");
        world_.Break(*link);
      }
    } else if (kind == 1 && scenario_.crash_dispatcher) {
      if (random.Percent(50)) {
        dispatcher_.crash_at_commit = true;
      } else {
        dispatcher_.Crash();
      }
    } else if (kind == 2 && scenario_.crash_workers) {
      WorkerNode& worker = *workers_[random.Below(workers_.size())];
      if (worker.up()) world_.Count("worker crash");
      worker.Crash();
    } else if (kind == 3 && scenario_.drain_workers) {
      world_.Count("worker drained");
      workers_[random.Below(workers_.size())]->Drain();
    } else if (kind == 4 && scenario_.crash_consumers) {
      consumers_[random.Below(consumers_.size())]->Crash();
    } else if (kind == 5 && scenario_.cut_off) {
      consumers_[random.Below(consumers_.size())]->CutOff(random.Millis(1000, 25000));
    }
  }

  void Stuck() {
    std::string text = "the run did not end:";
    for (const auto& consumer : consumers_) {
      if (!consumer->done()) text += " " + consumer->name() + " waits for " + consumer->WaitingFor() + ";";
    }
    world_.Violated(text);
  }

  void CheckAtRest() {
    // What is on its way still arrives.
    world_.Run(world_.now() + std::chrono::seconds(30), [] { return false; });
    for (auto& worker : workers_) worker->CheckAtRest();
    Ledger::Outcome outcome;
    outcome.redelivered = dispatcher_.redelivered();
    outcome.expired = dispatcher_.expired() > 0;
    outcome.broken = std::any_of(consumers_.begin(), consumers_.end(), [](const auto& consumer) { return consumer->broke_off(); });
    outcome.workers_lost = scenario_.mode == Mode::kReplicated && scenario_.faulty();
    for (const std::string& wrong : ledger_.Check(outcome)) world_.Violated(wrong);
  }

  RunReport Report() const {
    RunReport report;
    report.seed = scenario_.seed;
    report.scenario = scenario_.ToString();
    report.violations = world_.violations();
    report.faults = world_.faults();
    report.events = world_.events();
    report.rows = ledger_.rows();
    report.batches = ledger_.batches();
    report.repeated = ledger_.repeated();
    report.virtual_seconds = std::chrono::duration<double>(world_.now().since_start).count();
    return report;
  }

  const Scenario scenario_;
  World world_;
  Ledger ledger_;
  DispatcherNode dispatcher_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::unique_ptr<ConsumerNode>> consumers_;
};

}  // namespace

RunReport RunSeed(uint64_t seed, bool trace) { return Cluster(seed, trace).Run(); }

}  // namespace penstock::sim
