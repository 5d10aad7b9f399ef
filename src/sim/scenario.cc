#include "sim/scenario.h"

#include <algorithm>
#include <limits>
#include <optional>
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
  // Ranks that only compare themselves at an epoch's end. Likewise.
  if (Random(Hash(job.seed, 47, 7)).Percent(25)) job.lockstep = false;
  // Likewise.
  const bool evens = job.even != Even::kUneven && job.mode == Mode::kShared;
  job.layout.drop_remainder = evens && Random(Hash(job.seed, 61, 7)).Percent(30);
}

// A job with few rows is read over and over now and then: more epochs than a part keeps apart. Drawn by itself.
uint32_t DrawMoreEpochs(const JobScenario& job) {
  Random random(Hash(job.seed, 59, 7));
  const bool few = job.layout.lanes * job.lane_rows <= 100;
  return few && random.Percent(20) ? static_cast<uint32_t>(random.Between(4, 8)) : job.epochs;
}

// Memory for as few groups as any job of the run has.
uint64_t LeastMemory(const JobScenario& job) { return job.row_bytes * (job.layout.group_rows() + 3) * (job.layout.mix + 1) * 2; }

// What is gone on with in batches of another size has another plan, and so another name. Drawn by itself.
std::optional<JobScenario> DrawOtherBatch(const JobScenario& job) {
  Random random(Hash(job.seed, 53, 7));
  if (job.mode != Mode::kShared || !job.restorable() || job.layout.batch == 0 || !random.Percent(30)) return std::nullopt;
  JobScenario other = job;
  const uint64_t most = job.even == Even::kUneven ? 6 : job.layout.batch / job.layout.mix;  // steps enough to be even about
  other.name = job.name + ".again";
  other.layout.batch = job.layout.mix * random.Between(1, most);
  other.layout.serial_range = job.layout.serial ? other.layout.group_rows() * random.Between(1, 8) : 0;
  other.reader_memory = std::max(job.reader_memory, LeastMemory(other));
  if (other.layout.batch == job.layout.batch) return std::nullopt;
  return other;
}

JobScenario DrawJob(Random& random, const Scenario& run, size_t number) {
  JobScenario job;
  job.name = job.rows = number == 0 ? "train" : "other";
  job.seed = Hash(run.seed, 23, number);
  job.mode = DrawMode(random);
  DrawLayout(random, run.large, job);
  job.epochs = static_cast<uint32_t>(random.Between(1, run.large ? 2 : 3));
  if (!run.large) job.epochs = DrawMoreEpochs(job);
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
  for (const JobScenario& job : run.jobs) {
    if (const auto other = DrawOtherBatch(job)) run.others.push_back(*other);
  }
  // All that is asked for can be served, if slowly: group by group in room for a few.
  uint64_t group_bytes = 0;
  for (const auto* list : {&run.jobs, &run.others}) {
    for (const JobScenario& job : *list) group_bytes = std::max(group_bytes, job.row_bytes * (job.layout.group_rows() + 3));
  }
  run.worker_memory = group_bytes * (run.has(Fault::kFullBudget) ? random.Between(4, 40) : random.Between(64, 256));
  return run;
}

const JobScenario* Scenario::OtherBatchOf(const JobScenario& job) const {
  const auto other = std::find_if(others.begin(), others.end(), [&](const JobScenario& o) { return o.rows == job.name; });
  return other == others.end() ? nullptr : &*other;
}

const JobScenario& Scenario::JobOf(const std::string& plan) const {
  const auto named = [&](const JobScenario& job) { return job.name == plan; };
  const auto other = std::find_if(others.begin(), others.end(), named);
  return other == others.end() ? *std::find_if(jobs.begin(), jobs.end(), named) : *other;
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
                                 {layout.drop_remainder, " drop_remainder"},
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
  for (const JobScenario& job : jobs) {
    const JobScenario* other = OtherBatchOf(job);
    text += job.ToString() + (other != nullptr ? " then batch=" + std::to_string(other->layout.batch) : "") + "; ";
  }
  text += "faults:";
  for (Fault fault : faults) text += std::string(" ") + penstock::sim::Name(fault) + ",";
  return faults.empty() ? text + " none" : text.substr(0, text.size() - 1);
}

}  // namespace penstock::sim
