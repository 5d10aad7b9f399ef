#include "sim/run.h"

#include <algorithm>
#include <memory>

#include "sim/dispatcher_node.h"
#include "sim/faults.h"
#include "sim/grant_book.h"
#include "sim/scenario.h"
#include "sim/trainer.h"
#include "sim/worker_node.h"
#include "sim/world.h"

namespace penstock::sim {
namespace {

constexpr auto kPatience = std::chrono::seconds(600);  // after the last fault every run ends well within this

class Cluster {
 public:
  Cluster(uint64_t seed, TraceLog& trace)
      : scenario_(Scenario::FromSeed(seed)),
        world_(seed, trace),
        dispatcher_(world_, &book_, "dispatcher"),
        stale_(world_, nullptr, "stale"),
        home_{dispatcher_, stale_},
        faults_(scenario_, {world_, dispatcher_, stale_, workers_, trainers_}) {
    for (uint32_t i = 0; i < scenario_.workers; ++i) workers_.push_back(std::make_unique<WorkerNode>(world_, scenario_, home_, i));
    for (const JobScenario& job : scenario_.jobs) {
      trainers_.push_back(std::make_unique<Trainer>(world_, scenario_, job, ConsumerNode::Cluster{home_, workers_, book_}));
    }
  }

  RunReport Run() {
    faults_.Begin();
    dispatcher_.Start();
    for (auto& worker : workers_) {
      const Duration late = scenario_.faulty() ? world_.random.Millis(0, 2000) : Duration{0};
      world_.At(world_.now() + late, [&worker] { worker->Start(); });
    }
    for (auto& trainer : trainers_) trainer->Start();
    const TimePoint limit = world_.now() + std::chrono::milliseconds(scenario_.calm_after_ms) + kPatience;
    bool ended = world_.Run(limit, [this] { return AllDone(); });
    // A consumer that died when the others had left leaves rows behind: whoever joins next gets them, or hears that the job has finished.
    for (int i = 0; ended && i < 2; ++i) {
      world_.Run(world_.now() + std::chrono::seconds(20), [] { return false; });
      for (auto& trainer : trainers_) trainer->StartLate();
      ended = world_.violations().empty() && world_.Run(world_.now() + kPatience, [this] { return AllDone(); });
    }
    if (!ended && world_.violations().empty()) Stuck();
    if (world_.violations().empty()) CheckAtRest();
    return Report();
  }

 private:
  bool AllDone() const {
    return std::all_of(trainers_.begin(), trainers_.end(), [](const auto& trainer) { return trainer->done(); });
  }

  void Stuck() {
    std::string text = "the run did not end:";
    for (const auto& trainer : trainers_) text += trainer->WaitingFor();
    world_.Violated(text);
  }

  void CheckAtRest() {
    // What is on its way still arrives.
    world_.Run(world_.now() + std::chrono::seconds(30), [] { return false; });
    for (auto& worker : workers_) worker->CheckAtRest();
    for (const auto& trainer : trainers_) {
      Ledger::Outcome outcome;
      outcome.redelivered = dispatcher_.redelivered();
      outcome.expired = dispatcher_.expired() > 0;
      outcome.unheard = scenario_.has(Fault::kLoseWord) || scenario_.has(Fault::kDelayWord);
      outcome.lost = trainer->job().mode == Mode::kReplicated && scenario_.faulty();
      outcome.workers = scenario_.workers;
      for (const std::string& wrong : trainer->ledger().Check(outcome)) world_.Violated(trainer->job().name + ": " + wrong);
    }
  }

  RunReport Report() const {
    RunReport report;
    report.seed = scenario_.seed;
    report.scenario = scenario_.ToString();
    report.violations = world_.violations();
    report.faults = world_.counted();
    report.events = world_.events();
    for (const auto& trainer : trainers_) {
      report.rows += trainer->ledger().rows();
      report.batches += trainer->ledger().batches();
      report.repeated += trainer->ledger().repeated();
    }
    report.virtual_seconds = std::chrono::duration<double>(world_.now().since_start).count();
    report.large = scenario_.large;
    return report;
  }

  const Scenario scenario_;
  World world_;
  GrantBook book_;
  DispatcherNode dispatcher_;
  DispatcherNode stale_;
  const Home home_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  Faults faults_;
};

}  // namespace

RunReport RunSeed(uint64_t seed, TraceLog& trace) { return Cluster(seed, trace).Run(); }

RunReport RunSeed(uint64_t seed) {
  TraceLog nothing(TraceLog::Keep::kNothing);
  return RunSeed(seed, nothing);
}

}  // namespace penstock::sim
