// Who runs the ranks of one job: starts them, keeps their checkpoints, and starts them anew when they died: one alone, or all together, on
// another number of ranks, from any checkpoint that was kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/consumer_node.h"
#include "sim/ledger.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace penstock::sim {

class Trainer {
 public:
  Trainer(World& world, const Scenario& run, const JobScenario& job, ConsumerNode::Cluster cluster);

  void Start();
  void StartLate();  // once more, after all had left: whoever comes next gets what a dead one left
  bool done() const;
  std::string WaitingFor() const;

  // Faults.
  void CrashRank();
  void CutOffRank(Duration time);
  void RestartJob();
  void RollBack();
  ConsumerNode* AnyRank();
  const std::vector<std::unique_ptr<ConsumerNode>>& ranks() const { return ranks_; }

  // What ranks say.
  void RankDied(ConsumerNode& rank);
  void LeftUnheard(ConsumerNode& rank, HistoryId id);  // no answer came to its Leave
  void Joined(const Reader& reader, const msg::Joined& joined);
  void Saved(HistoryId id, const std::string& state, const std::optional<Ledger::Cut>& at_end);
  bool MayStep(const ConsumerNode& rank) const;
  bool Unhurried() const { return world_.now() < TimePoint{std::chrono::milliseconds(run_.calm_after_ms)}; }

  const JobScenario& job() const { return *job_; }
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

 private:
  using Checkpoint = std::vector<std::string>;  // a position, or a part of each rank

  ConsumerNode::Launch LaunchOf(uint32_t index) const;
  std::vector<ConsumerId> Alive() const;
  bool AllRead() const;
  void SaveNowAndThen();
  void SaveParts();
  void KillAll();
  void RankStartsAgain(ConsumerNode& rank, Duration after);
  const Checkpoint& AnyCheckpoint();
  static std::string StateOf(const Checkpoint& checkpoint, uint32_t index, bool one_file);
  void StartFrom(const Checkpoint& checkpoint, uint32_t consumers);
  void ChangeBatch(const JobScenario& other);
  void SetRanks(uint32_t count);

  World& world_;
  const Scenario& run_;
  const JobScenario* job_;
  const ConsumerNode::Cluster cluster_;
  Ledger ledger_;
  std::vector<std::unique_ptr<ConsumerNode>> ranks_;    // those beyond `count_` are not used now
  std::vector<std::unique_ptr<ConsumerNode>> retired_;  // of the job before its batch size changed: what was to happen to them still may
  uint32_t count_;
  uint64_t attempt_ = 0;
  uint64_t restores_ = 0;  // that were begun
  bool restarting_ = false;
  TimePoint rolls_until_{};
  HistoryId history_;                          // the newest
  std::vector<Checkpoint> checkpoints_{{""}};  // the first is the job's start
};

}  // namespace penstock::sim
