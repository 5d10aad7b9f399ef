// What one run is about: drawn from its seed.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "penstock/ids.h"
#include "penstock/layout.h"

namespace penstock::sim {

// What may go wrong in a run. Each is on or off for a run; those that are on strike at random until it is calm.
enum class Fault : uint8_t {
  kBreakLink,
  kLoseWord,    // with the dispatcher
  kRepeatWord,  // likewise
  kDelayWord,   // likewise: it comes after others
  kPartition,
  kCrashDispatcher,  // at any moment
  kCrashAtCommit,    // before a transaction, or after it and before its words are said
  kStaleDispatcher,  // one of an older term answers at the address
  kCrashWorker,
  kDrainWorker,
  kSlowWorker,
  kFullBudget,  // a worker's memory holds a few blocks
  kPause,       // SIGSTOP of any process
  kSkewClocks,
  kCrashConsumer,  // one rank dies
  kCutOff,         // a consumer cannot reach the dispatcher for longer than its lease
  kRestartJob,     // all ranks die; others, of another number, go on from an earlier checkpoint
  kRollBack,       // all ranks go back to an earlier checkpoint, and live on
  kBreakLoop,      // loops leave epochs early
};
const char* Name(Fault fault);
const std::vector<Fault>& AllFaults();

// One job of the run.
struct JobScenario {
  std::string name;
  std::string rows;   // whose rows they are: those of the job of this name
  uint64_t seed = 0;  // of its rows
  Mode mode = Mode::kShared;
  Layout layout;
  uint32_t epochs = 1;
  uint32_t consumers = 1;
  bool declared = false;  // consumers say how many they are
  Even even = Even::kUneven;
  OnDeath on_death = OnDeath::kRedeliver;
  bool together = false;  // a rank that dies takes all with it, and all go on from a checkpoint
  bool lockstep = false;  // no rank is a step ahead of another
  bool breaks = false;
  bool rests = false;          // loops stay at an epoch's END for a while
  bool slow = false;           // loops take seconds a step, as long as there are faults
  bool shared_memory = false;  // blocks come home when the loop lets go of them
  uint64_t lane_rows = 10;     // source rows of the longest lane
  uint64_t filtered = 0;       // percent of the source rows
  uint64_t multiplied = 0;     // percent of them that become two or three rows
  bool resent = false;         // workers begin a little before the cursor that was asked for
  uint64_t row_bytes = 1000;
  uint64_t reader_memory = 0;

  uint64_t SourceRows(const LaneKey& lane) const;
  uint32_t RowsOf(const LaneKey& lane, Seq seq) const;  // that a source row becomes
  bool plain() const { return filtered == 0 && multiplied == 0; }
  bool restorable() const { return declared && mode != Mode::kReplicated; }
  std::string ToString() const;
};

struct Scenario {
  uint64_t seed = 0;
  bool large = false;
  uint32_t workers = 1;
  uint64_t worker_memory = 0;
  std::vector<JobScenario> jobs;
  std::vector<JobScenario> others;  // of some of them, with another batch size and another name: their states are gone on from there
  std::set<Fault> faults;           // none: everything is exact
  uint64_t calm_after_ms = 0;

  static Scenario FromSeed(uint64_t seed);
  // What a job is gone on as with another batch size; nullptr where it is not.
  const JobScenario* OtherBatchOf(const JobScenario& job) const;
  const JobScenario& JobOf(const std::string& plan) const;
  bool has(Fault fault) const { return faults.contains(fault); }
  bool faulty() const { return !faults.empty(); }
  std::string ToString() const;
};

}  // namespace penstock::sim
