#include "sim/faults.h"

namespace penstock::sim {

void Faults::Begin() {
  if (!scenario_.faulty()) return;
  World& world = cluster_.world;
  if (scenario_.has(Fault::kSkewClocks)) SkewClocks();
  if (scenario_.has(Fault::kFullBudget)) world.Count(Name(Fault::kFullBudget));
  if (scenario_.has(Fault::kLoseWord)) world.faults.lose = world.random.Between(1, 10);
  if (scenario_.has(Fault::kRepeatWord)) world.faults.repeat = world.random.Between(1, 20);
  if (scenario_.has(Fault::kDelayWord)) world.faults.delay = world.random.Between(1, 10);
  cluster_.dispatcher.crash_after_restore = scenario_.has(Fault::kCrashAtCommit);
  kinds_.assign(scenario_.faults.begin(), scenario_.faults.end());
  pace_ms_ = world.random.Between(100, 3000);
  Next();
  world.At(calm(), [this] { Calm(); });
}

// A fault now, the next one later, until it is time to be calm.
void Faults::Next() {
  const Duration next = cluster_.world.random.Millis(5, pace_ms_);
  if (cluster_.world.now() + next > calm()) return;
  cluster_.world.At(cluster_.world.now() + next, [this] {
    Strike(kinds_[cluster_.world.random.Below(kinds_.size())]);
    Next();
  });
}

void Faults::Calm() {
  World& world = cluster_.world;
  world.faults = {};
  cluster_.dispatcher.crash_after_restore = false;
  for (Node* node : AllNodes()) node->side = 0;
  cluster_.stale.Stop();
}

std::vector<Node*> Faults::AllNodes() {
  std::vector<Node*> nodes{&cluster_.dispatcher};
  for (const auto& worker : cluster_.workers) nodes.push_back(worker.get());
  for (const auto& trainer : cluster_.trainers) {
    for (const auto& rank : trainer->ranks()) nodes.push_back(rank.get());
  }
  return nodes;
}

Trainer& Faults::AnyTrainer() { return *cluster_.trainers[cluster_.world.random.Below(cluster_.trainers.size())]; }
WorkerNode& Faults::AnyWorker() { return *cluster_.workers[cluster_.world.random.Below(cluster_.workers.size())]; }

// Clocks show any time, and drift by up to 2 %: leases leave room for much more.
void Faults::SkewClocks() {
  Random& random = cluster_.world.random;
  for (Node* node : AllNodes()) {
    node->SkewClock(random.Millis(0, 3'600'000), static_cast<int64_t>(random.Below(40'000)) - 20'000);
  }
  cluster_.world.Count(Name(Fault::kSkewClocks));
}

void Faults::Partition() {
  World& world = cluster_.world;
  const std::vector<Node*> nodes = AllNodes();
  for (Node* node : nodes) node->side = world.random.Percent(30) ? 1 : 0;
  world.BreakAcross();
  world.At(world.now() + world.random.Millis(200, 10000), [this] {
    for (Node* node : AllNodes()) node->side = 0;
  });
}

// Somebody starts a forgotten copy of the state directory at the address, which takes over some of the sessions there.
void Faults::StaleDispatcher() {
  World& world = cluster_.world;
  const auto& copies = cluster_.dispatcher.copies();
  if (cluster_.stale.up() || copies.size() < 2) return;
  cluster_.stale.StartFrom(copies[world.random.Below(copies.size() - 1)]);
  world.BreakControl(50);
  world.At(world.now() + world.random.Millis(500, 8000), [this] { cluster_.stale.Stop(); });
}

void Faults::Strike(Fault fault) {
  World& world = cluster_.world;
  Random& random = world.random;
  const auto count = [&] { world.Count(Name(fault)); };
  switch (fault) {
    case Fault::kBreakLink:
      if (const auto link = world.AnyLink()) {
        count();
        world.Break(*link);
      }
      return;
    case Fault::kPartition: count(); return Partition();
    case Fault::kCrashDispatcher:
      if (cluster_.dispatcher.up()) count();
      return cluster_.dispatcher.Crash();
    case Fault::kCrashAtCommit: cluster_.dispatcher.crash_at_commit = cluster_.dispatcher.up(); return;
    case Fault::kStaleDispatcher: return StaleDispatcher();
    case Fault::kCrashWorker: count(); return AnyWorker().Crash();
    case Fault::kDrainWorker: count(); return AnyWorker().Drain();
    case Fault::kSlowWorker: count(); return AnyWorker().SlowDown(random.Millis(500, 10000));
    case Fault::kPause: {
      count();
      const std::vector<Node*> nodes = AllNodes();
      return nodes[random.Below(nodes.size())]->Pause(random.Percent(70) ? random.Millis(10, 3000) : random.Millis(3001, 25000));
    }
    case Fault::kCrashConsumer: return AnyTrainer().CrashRank();
    case Fault::kCutOff: return AnyTrainer().CutOffRank(random.Millis(1000, 40000));
    case Fault::kRestartJob: return AnyTrainer().RestartJob();
    case Fault::kRollBack: return AnyTrainer().RollBack();
    case Fault::kLoseWord:
    case Fault::kRepeatWord:
    case Fault::kDelayWord:
    case Fault::kFullBudget:
    case Fault::kSkewClocks:
    case Fault::kBreakLoop: return;  // on all the time
  }
}

}  // namespace penstock::sim
