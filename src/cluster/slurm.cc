// Plain Slurm: the tasks of a step that srun started.
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kProcId = "SLURM_PROCID";
constexpr std::string_view kStepTasks = "SLURM_STEP_NUM_TASKS";
constexpr std::string_view kTasks = "SLURM_NTASKS";
constexpr std::string_view kStepId = "SLURM_STEP_ID";
constexpr std::string_view kJobId = "SLURM_JOB_ID";
constexpr std::string_view kRestarts = "SLURM_RESTART_COUNT";

// A batch script sees SLURM_PROCID=0 and the job's SLURM_NTASKS too, but is one process; only srun sets SLURM_STEP_ID.
bool IsBatchScript(const Environment& environment, uint32_t proc) {
  return proc == 0 && Find(environment, kJobId) != nullptr && Find(environment, kStepId) == nullptr;
}

// Who says how many tasks this process's step has. A shell of salloc may be a step of one task itself (LaunchParameters=use_interactive_step); its
// SLURM_NTASKS is the job's.
std::string_view TasksVariable(const Environment& environment) { return Find(environment, kStepTasks) != nullptr ? kStepTasks : kTasks; }

// ".2", the step in Slurm's own notation: the tasks of one srun are the ranks of one run, and the next srun of the same allocation is another. A step
// of one task may be one of several whose sruns each started some of the ranks, which have the allocation alone in common.
std::string StepSuffix(const Environment& environment) {
  const std::string* step = Find(environment, kStepId);
  const std::string* tasks = Find(environment, TasksVariable(environment));
  const auto count = tasks == nullptr ? std::nullopt : ToNumber(*tasks);
  return step != nullptr && count && *count > 1 ? "." + *step : "";
}

}  // namespace

Opinion<Place> SlurmRank(const Inputs& in) {
  const std::string_view counts = TasksVariable(in.environment);
  const std::string from = std::string(kProcId) + ", " + std::string(counts);
  const auto proc = FindNumber(in.environment, kProcId);
  if (!proc.ok()) return {proc.status(), from};
  if (!*proc) return {};
  if (IsBatchScript(in.environment, **proc)) {
    return Silent{"this is the batch script itself (SLURM_STEP_ID is not set), not one of its tasks; start the ranks with srun"};
  }
  const auto tasks = FindNumber(in.environment, counts);
  if (!tasks.ok()) return {tasks.status(), from};
  if (!*tasks) return {Missing(kTasks, "SLURM_PROCID is", "start the program with srun --ntasks=N"), from};
  return {Place{*proc, *tasks}, from};
}

Opinion<std::string> SlurmJob(const Inputs& in) {
  const std::string* id = Find(in.environment, kJobId);
  if (id == nullptr) return {};
  const std::string* array = Find(in.environment, "SLURM_ARRAY_JOB_ID");
  const std::string* task = Find(in.environment, "SLURM_ARRAY_TASK_ID");
  const std::string step = StepSuffix(in.environment);
  const std::string and_step = step.empty() ? "" : ", SLURM_STEP_ID";
  if (array != nullptr && task != nullptr) {
    return {ParseJob("SLURM_ARRAY_JOB_ID", "slurm-" + *array + "_" + *task + step), "SLURM_ARRAY_JOB_ID, _TASK_ID" + and_step};
  }
  return {ParseJob(kJobId, "slurm-" + *id + step), std::string(kJobId) + and_step};
}

Opinion<uint32_t> SlurmAttempt(const Inputs& in) {
  const auto count = FindNumber(in.environment, kRestarts);
  if (!count.ok()) return {count.status(), std::string(kRestarts)};
  if (!*count) return {};
  return {**count, std::string(kRestarts)};
}

}  // namespace penstock::cluster
