#include "sim/scenario.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/random.h"

namespace penstock::sim {
namespace {

struct FaultRow {
  Fault fault;
  const char* name;
  uint64_t percent;  // of the runs with faults
};
constexpr FaultRow kFaults[] = {
    {Fault::kBreakLink, "link broken", 50},
    {Fault::kLoseWord, "word lost", 15},
    {Fault::kRepeatWord, "word repeated", 20},
    {Fault::kDelayWord, "word late", 15},
    {Fault::kPartition, "partition", 15},
    {Fault::kCrashDispatcher, "dispatcher crash", 35},
    {Fault::kCrashAtCommit, "crash at commit", 30},
    {Fault::kStaleDispatcher, "stale dispatcher", 15},
    {Fault::kCrashWorker, "worker crash", 45},
    {Fault::kDrainWorker, "worker drained", 25},
    {Fault::kSlowWorker, "worker slow", 20},
    {Fault::kFullBudget, "full budget", 20},
    {Fault::kPause, "pause", 25},
    {Fault::kSkewClocks, "clocks differ", 25},
    {Fault::kCrashConsumer, "consumer crash", 30},
    {Fault::kCutOff, "consumer cut off", 20},
    {Fault::kRestartJob, "job restart", 35},
    {Fault::kRollBack, "job rolled back", 30},
    {Fault::kBreakLoop, "loop break", 15},
};

Mode DrawMode(Random& random) {
  const uint64_t dice = random.Below(100);
  if (dice < 25) return Mode::kStrict;
  return dice < 45 && dice >= 25 ? Mode::kReplicated : Mode::kShared;
}

void DrawLayout(Random& random, bool large, JobScenario& job) {
  Layout& layout = job.layout;
  layout.serial = job.mode != Mode::kStrict && random.Percent(20);
  layout.lanes = layout.serial ? 1 : static_cast<uint32_t>(random.Percent(5) ? 0 : random.Between(1, large ? 120 : 24));
  layout.mix = random.Percent(30) ? static_cast<uint32_t>(random.Between(2, 3)) : 1;
  layout.batch = random.Percent(10) && job.mode != Mode::kStrict ? 0 : layout.mix * random.Between(1, 6);
  if (layout.batch == 0) layout.mix = 1;
  layout.serial_range = layout.serial ? layout.group_rows() * random.Between(1, 8) : 0;
  layout.row_spec = LeafSpec(DType::kInt64, {});
  job.lane_rows = layout.serial ? random.Between(0, 300) : random.Between(0, large ? 20 : 40);
  if (random.Percent(30)) job.filtered = random.Between(1, 60);
  if (random.Percent(15)) job.multiplied = random.Between(5, 50);
  job.resent = job.mode != Mode::kStrict && random.Percent(25);
}

uint64_t RowsOfEpoch(const JobScenario& job) {
  uint64_t fewest = std::numeric_limits<uint64_t>::max();
  for (uint32_t epoch = 0; epoch < job.epochs; ++epoch) {
    uint64_t rows = 0;
    for (uint32_t lane = 0; lane < job.layout.lanes; ++lane)
      rows += job.SourceRows({Epoch{epoch}, ReplicaId{}, LaneId{lane}}) * (100 - job.filtered) / 100;
    fewest = std::min(fewest, rows);
  }
  return fewest;
}

void DrawConsumers(Random& random, const Scenario& run, JobScenario& job) {
  job.consumers = static_cast<uint32_t>(run.large ? random.Between(35, 60) : random.Between(1, 5));
  job.declared = job.mode == Mode::kStrict || random.Percent(60);
  if (!job.declared || job.mode == Mode::kReplicated) return;
  job.together = random.Percent(50);
  job.on_death = random.Percent(50) ? OnDeath::kHold : OnDeath::kRedeliver;
  const bool may_be_even = job.mode == Mode::kStrict || job.layout.batch > 0;
  // With fewer batches than ranks there is nothing to be even about.
  const bool enough = RowsOfEpoch(job) >= 3 * std::max<uint64_t>(job.consumers, 6) * std::max<uint64_t>(job.layout.batch, 1);
  if (may_be_even && enough && random.Percent(60)) job.even = random.Percent(70) ? Even::kDrop : Even::kPad;
  // Who wants equal steps has collectives: no rank is a step ahead of another, and none goes on without the others.
  job.lockstep = job.even != Even::kUneven;
  job.together = job.together || job.lockstep;
  // Where others take over from one that is taken for dead it does not count any more, and comes back to another step than theirs.
  if (job.lockstep) job.on_death = OnDeath::kHold;
  // Some launchers start a rank that died anew alone. Drawn by itself, so that other seeds are what they were.
  if (job.lockstep && job.mode == Mode::kShared && Random(Hash(job.seed, 41, 7)).Percent(25)) job.together = false;
}

JobScenario DrawJob(Random& random, const Scenario& run, size_t number) {
  JobScenario job;
  job.name = number == 0 ? "train" : "other";
  job.seed = Hash(run.seed, 23, number);
  job.mode = DrawMode(random);
  DrawLayout(random, run.large, job);
  job.epochs = static_cast<uint32_t>(random.Between(1, run.large ? 2 : 3));
  DrawConsumers(random, run, job);
  job.slow = run.faulty() && random.Percent(15);
  job.shared_memory = random.Percent(50);
  job.row_bytes = random.Between(100, 4000);
  job.breaks = run.has(Fault::kBreakLoop) && job.mode != Mode::kStrict && job.even == Even::kUneven;
  job.rests = Random(Hash(job.seed, 43, 7)).Percent(20);  // drawn by itself, likewise
  const uint64_t group_bytes = job.row_bytes * (job.layout.group_rows() + 3);
  job.reader_memory = group_bytes * (job.layout.mix + 1) * random.Between(2, 24);
  return job;
}

}  // namespace

const char* Name(Fault fault) { return kFaults[static_cast<size_t>(fault)].name; }

const std::vector<Fault>& AllFaults() {
  static const std::vector<Fault> all = [] {
    std::vector<Fault> list;
    for (const FaultRow& row : kFaults) list.push_back(row.fault);
    return list;
  }();
  return all;
}

Scenario Scenario::FromSeed(uint64_t seed) {
  Random random(Hash(seed, 17, 4));
  Scenario run;
  run.seed = seed;
  run.large = random.Percent(1);
  run.workers = static_cast<uint32_t>(run.large ? random.Between(12, 20) : random.Between(1, 3));
  if (!random.Percent(15)) {
    run.calm_after_ms = random.Between(200, 20000);
    for (const FaultRow& row : kFaults) {
      if (random.Percent(row.percent)) run.faults.insert(row.fault);
    }
  }
  const size_t jobs = !run.large && random.Percent(15) ? 2 : 1;
  for (size_t i = 0; i < jobs; ++i) run.jobs.push_back(DrawJob(random, run, i));
  // All that is asked for can be served, if slowly: group by group in room for a few.
  uint64_t group_bytes = 0;
  for (const JobScenario& job : run.jobs) group_bytes = std::max(group_bytes, job.row_bytes * (job.layout.group_rows() + 3));
  run.worker_memory = group_bytes * (run.has(Fault::kFullBudget) ? random.Between(4, 40) : random.Between(64, 256));
  return run;
}

uint64_t JobScenario::SourceRows(const LaneKey& lane) const {
  const uint64_t mixed = Hash(seed, Raw(lane.epoch), Raw(lane.lane));
  return layout.serial ? lane_rows : mixed % (lane_rows + 1);
}

uint32_t JobScenario::RowsOf(const LaneKey& lane, Seq seq) const {
  if (plain()) return 1;
  Random dice(Hash(seed ^ Raw(lane.epoch), Raw(lane.lane), seq + 7));
  if (dice.Percent(filtered)) return 0;
  return dice.Percent(multiplied) ? static_cast<uint32_t>(dice.Between(2, 3)) : 1;
}

std::string JobScenario::ToString() const {
  std::string text = name + ": " + std::string(penstock::Name(mode)) + " lanes=" + std::to_string(layout.lanes) + (layout.serial ? " serial" : "") +
                     " batch=" + std::to_string(layout.batch) + " mix=" + std::to_string(layout.mix) + " lane_rows<=" + std::to_string(lane_rows) +
                     " filtered=" + std::to_string(filtered) + "% multiplied=" + std::to_string(multiplied) + "% epochs=" + std::to_string(epochs) +
                     " consumers=" + std::to_string(consumers);
  for (const auto& [on, word] : {std::pair{declared, " declared"},
                                 {together, " together"},
                                 {lockstep, " lockstep"},
                                 {even == Even::kDrop, " drop"},
                                 {even == Even::kPad, " pad"},
                                 {on_death == OnDeath::kHold, " hold"},
                                 {resent, " resent"},
                                 {breaks, " breaks"},
                                 {rests, " rests"},
                                 {slow, " slow"},
                                 {shared_memory, " shm"}}) {
    if (on) text += word;
  }
  return text;
}

std::string Scenario::ToString() const {
  std::string text = std::to_string(workers) + " workers; ";
  for (const JobScenario& job : jobs) text += job.ToString() + "; ";
  text += "faults:";
  for (Fault fault : faults) text += std::string(" ") + penstock::sim::Name(fault) + ",";
  return faults.empty() ? text + " none" : text.substr(0, text.size() - 1);
}

}  // namespace penstock::sim
