// Plain Slurm: the tasks of a step that srun started.
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kProcId = "SLURM_PROCID";
constexpr std::string_view kTasks = "SLURM_NTASKS";
constexpr std::string_view kJobId = "SLURM_JOB_ID";
constexpr std::string_view kRestarts = "SLURM_RESTART_COUNT";

// A batch script sees SLURM_PROCID=0 and the job's SLURM_NTASKS too, but is one process; only srun sets SLURM_STEP_ID.
bool IsBatchScript(const Environment& environment, uint32_t proc) {
  return proc == 0 && Find(environment, kJobId) != nullptr && Find(environment, "SLURM_STEP_ID") == nullptr;
}

}  // namespace

Opinion<Place> SlurmRank(const Inputs& in) {
  const std::string from = "SLURM_PROCID, SLURM_NTASKS";
  const auto proc = FindNumber(in.environment, kProcId);
  if (!proc.ok()) return {proc.status(), from};
  if (!*proc) return {};
  if (IsBatchScript(in.environment, **proc)) {
    return Silent{"this is the batch script itself (SLURM_STEP_ID is not set), not one of its tasks; start the ranks with srun"};
  }
  const auto tasks = FindNumber(in.environment, kTasks);
  if (!tasks.ok()) return {tasks.status(), from};
  if (!*tasks) return {Missing(kTasks, "SLURM_PROCID is", "start the program with srun --ntasks=N"), from};
  return {Place{*proc, *tasks}, from};
}

Opinion<std::string> SlurmJob(const Inputs& in) {
  const std::string* id = Find(in.environment, kJobId);
  if (id == nullptr) return {};
  const std::string* array = Find(in.environment, "SLURM_ARRAY_JOB_ID");
  const std::string* task = Find(in.environment, "SLURM_ARRAY_TASK_ID");
  if (array != nullptr && task != nullptr) return {ParseJob("SLURM_ARRAY_JOB_ID", "slurm-" + *array + "_" + *task), "SLURM_ARRAY_JOB_ID, _TASK_ID"};
  return {ParseJob(kJobId, "slurm-" + *id), std::string(kJobId)};
}

Opinion<uint32_t> SlurmAttempt(const Inputs& in) {
  const auto count = FindNumber(in.environment, kRestarts);
  if (!count.ok()) return {count.status(), std::string(kRestarts)};
  if (!*count) return {};
  return {**count, std::string(kRestarts)};
}

}  // namespace penstock::cluster
