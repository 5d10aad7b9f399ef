#include "cluster/variables.h"

#include <algorithm>
#include <array>

#include "base/nearest.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kPrefix = "PENSTOCK_";

constexpr std::array kPenstockVariables = {
    Variable{"PENSTOCK_SERVICE", "where the service is: penstock://host:port, unix:/path, local:N, inline or off"},
    Variable{"PENSTOCK_ROLE", "what this process is: trainer, dispatcher, worker, evaluator or ps"},
    Variable{"PENSTOCK_RANK", "which of the ranks this process is, from 0"},
    Variable{"PENSTOCK_WORLD_SIZE", "how many ranks there are"},
    Variable{"PENSTOCK_JOB_NAME", "the job's name: ranks that give the same name share one reading of the dataset"},
    Variable{"PENSTOCK_PROCESSING_MODE", "the mode where the program does not say: shared, strict or replicated"},
    Variable{"PENSTOCK_ADVERTISE", "the address a worker tells others, host or host:port"},
    Variable{"PENSTOCK_REPLICA_TYPE", "the pod's label training.kubeflow.org/replica-type, passed on by the downward API"},
    Variable{"PENSTOCK_DISPATCHER_SERVICE_HOST", "set by Kubernetes for a service named penstock-dispatcher"},
    Variable{"PENSTOCK_DISPATCHER_SERVICE_PORT", "set by Kubernetes for a service named penstock-dispatcher"},
    Variable{"PENSTOCK_TOKEN", "the token to show to servers, and that servers ask for"},
    Variable{"PENSTOCK_TOKEN_FILE", "a file that holds the token"},
    Variable{"PENSTOCK_TLS_CA", "PEM file of the authorities that a peer's certificate is checked against"},
    Variable{"PENSTOCK_TLS_CERT", "PEM file of this process's certificate"},
    Variable{"PENSTOCK_TLS_KEY", "PEM file of the certificate's key"},
    Variable{"PENSTOCK_STATE_DIR", "where the dispatcher keeps its state"},
    Variable{"PENSTOCK_MEMORY", "bytes of blocks a worker may hold, such as 4GiB; 0.6 of the cgroup's limit where not set"},
    Variable{"PENSTOCK_LOG", "what is logged: debug, info, warn, error or off"},
    Variable{"PENSTOCK_PROGRESS", "0 switches progress bars off"},
    Variable{"PENSTOCK_BIN", "the penstock executable that Python starts servers with"},
    Variable{"PENSTOCK_PYTHON", "the Python interpreter that executors run in"},
    Variable{"PENSTOCK_EXECUTOR_CHECKPOINTS", "a directory that all workers see, where executors save how far they are in tf.data graphs"},
    Variable{"PENSTOCK_TF_OP", "0: tf.data gets its elements by way of Python, and no op is compiled for it"},
    Variable{"PENSTOCK_CACHE", "where what is made once for a machine is kept, such as the TensorFlow op; ~/.cache/penstock where not set"},
    Variable{"PENSTOCK_PRELOAD", "modules that executors import first, divided by commas"},
};

constexpr std::array kPlatformVariables = {
    Variable{"SPEC_TYPE", "the original's Kubernetes contract: what this pod is (chief, worker, datasetworker, datasetdispatcher…)"},
    Variable{"MACHINES_CONFIG", "with SPEC_TYPE: JSON whose dataset_worker is null where there are no readers"},
    Variable{"JOB_NAME", "with SPEC_TYPE: the job's name, with which its hosts' names begin"},
    Variable{"MY_POD_NAME", "with SPEC_TYPE: the pod's name, which ends in its index"},
    Variable{"TF_CONFIG", "TFJob: JSON of all tasks' addresses and of this task's type and index"},
    Variable{"HAS_READERS", "the original's Slurm contract: True where there are readers"},
    Variable{"TASK_TYPE", "with HAS_READERS: what this task is, as SPEC_TYPE"},
    Variable{"SLURM_JOB_NODELIST_HET_GROUP_0", "with HAS_READERS: the first group's nodes; the dispatcher is on the first"},
    Variable{"SLURMD_NODENAME", "with TASK_TYPE=datasetworker: the address the worker tells others"},
    Variable{"DATASET_JOURNALING_DIR", "the original's name of PENSTOCK_STATE_DIR"},
    Variable{"POD_IP", "the pod's address, passed on by the downward API: what a worker tells others"},
    Variable{"RANK", "torchrun, PyTorchJob: this process's rank"},
    Variable{"WORLD_SIZE", "torchrun, PyTorchJob: how many ranks there are"},
    Variable{"LOCAL_RANK", "torchrun: shows that RANK is this process's and not the pod's"},
    Variable{"TORCHELASTIC_RUN_ID", "torchrun: the id of the run, to derive a job's name from"},
    Variable{"TORCHELASTIC_RESTART_COUNT", "torchrun: how often it has restarted its processes"},
    Variable{"JOB_COMPLETION_INDEX", "Indexed Job, JobSet, TrainJob: the pod's index, and its rank where RANK is not set"},
    Variable{"PET_NODE_RANK", "TrainJob: the same, where JOB_COMPLETION_INDEX is not set"},
    Variable{"PET_NNODES", "TrainJob: how many pods there are"},
    Variable{"PET_NPROC_PER_NODE", "TrainJob, PyTorchJob: processes a pod; more than 1 demands torchrun"},
    Variable{"SLURM_PROCID", "Slurm: this task's number in its step"},
    Variable{"SLURM_STEP_NUM_TASKS", "Slurm: how many tasks the step has"},
    Variable{"SLURM_NTASKS", "Slurm: the same, where SLURM_STEP_NUM_TASKS is not set; in a shell of salloc it is the job's"},
    Variable{"SLURM_STEP_ID", "Slurm: the step, and so the run, that this task of srun is of; the batch script has none"},
    Variable{"SLURM_JOB_ID", "Slurm: the job's id, to derive a job's name from"},
    Variable{"SLURM_ARRAY_JOB_ID", "Slurm: the same, for an array of jobs"},
    Variable{"SLURM_ARRAY_TASK_ID", "Slurm: which of the array this is"},
    Variable{"SLURM_RESTART_COUNT", "Slurm: how often the job was requeued"},
};

bool IsKnown(std::string_view name) {
  return std::any_of(kPenstockVariables.begin(), kPenstockVariables.end(), [&](const Variable& known) { return known.name == name; });
}

// NAME_SERVICE_HOST, NAME_SERVICE_PORT[_X], NAME_PORT, NAME_PORT_5050_TCP[_X]: what the kubelet sets for a service.
bool IsOfKubernetes(std::string_view name) {
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos || name.ends_with("_PORT")) return true;
  const size_t port = name.find("_PORT_");
  return port != std::string_view::npos && port + 6 < name.size() && name[port + 6] >= '0' && name[port + 6] <= '9';
}

}  // namespace

std::span<const Variable> PenstockVariables() { return kPenstockVariables; }
std::span<const Variable> PlatformVariables() { return kPlatformVariables; }

std::string_view NearestVariable(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  std::vector<std::string_view> tails;
  for (const Variable& known : kPenstockVariables) tails.push_back(known.name.substr(kPrefix.size()));
  const auto nearest = std::find(tails.begin(), tails.end(), Nearest(name.substr(kPrefix.size()), tails));
  return nearest == tails.end() ? std::string_view() : kPenstockVariables[static_cast<size_t>(nearest - tails.begin())].name;
}

std::vector<std::string> WarnOfVariables(const Environment& environment) {
  std::vector<std::string> warnings;
  for (auto it = environment.lower_bound(std::string(kPrefix)); it != environment.end() && it->first.starts_with(kPrefix); ++it) {
    const auto& [name, value] = *it;
    if (IsKnown(name)) {
      if (value.empty()) warnings.push_back(name + " is set but empty, and counts as not set");
      continue;
    }
    if (IsOfKubernetes(name)) continue;
    const std::string_view nearest = NearestVariable(name);
    warnings.push_back(name + " is not a variable of penstock" +
                       (nearest.empty() ? "; docs/reference/environment.md lists them" : "; did you mean " + std::string(nearest) + "?"));
  }
  return warnings;
}

}  // namespace penstock::cluster
