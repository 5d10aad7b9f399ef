// The Slurm contract of the service that penstock replaces: a heterogeneous job whose first group holds the dispatcher. HAS_READERS says
// whether there are readers, TASK_TYPE what this task is. Its servers all listen on 5051.
#include "cluster/detectors.h"
#include "cluster/nodelist.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr uint16_t kPort = 5051;
constexpr std::string_view kHasReaders = "HAS_READERS";
constexpr std::string_view kTaskType = "TASK_TYPE";
constexpr std::string_view kDispatcherNodes = "SLURM_JOB_NODELIST_HET_GROUP_0";
constexpr std::string_view kNodeName = "SLURMD_NODENAME";

Result<bool> HasReaders(const std::string& value) {
  if (SameName(value, "true")) return true;
  if (SameName(value, "false")) return false;
  return Malformed(kHasReaders, value, "True or False");
}

Result<Service> DispatcherOf(const Environment& environment, const std::string& has_readers) {
  PENSTOCK_ASSIGN(const bool readers, HasReaders(has_readers));
  if (!readers) return Service(NoService{});
  const std::string* nodes = Find(environment, kDispatcherNodes);
  if (nodes == nullptr) {
    return Missing(kDispatcherNodes, "HAS_READERS is True",
                   "submit a heterogeneous job whose first group is the dispatcher's, or set PENSTOCK_SERVICE=penstock://host:5051");
  }
  const Result<std::string> first = FirstNode(*nodes);
  if (!first.ok()) return Malformed(kDispatcherNodes, *nodes, "a Slurm nodelist: " + first.status().message());
  if (!IsHost(*first)) return Malformed(kDispatcherNodes, *nodes, "a Slurm nodelist whose first entry is the name of a host");
  return Service(Address{*first, kPort});
}

// TASK_TYPE is a name that anybody might use; it is ours only in a job that has the rest of the contract.
const std::string* TaskType(const Environment& environment) {
  const bool ours = Find(environment, kHasReaders) != nullptr || Find(environment, kDispatcherNodes) != nullptr;
  return ours ? Find(environment, kTaskType) : nullptr;
}

bool IsTask(const Environment& environment, std::string_view type) {
  const std::string* task = TaskType(environment);
  return task != nullptr && SameName(*task, type);
}

}  // namespace

Opinion<Service> OriginalSlurmService(const Inputs& in) {
  const std::string* has_readers = Find(in.environment, kHasReaders);
  if (has_readers == nullptr) return {};
  return {DispatcherOf(in.environment, *has_readers), "HAS_READERS, SLURM_JOB_NODELIST_HET_GROUP_0"};
}

Opinion<Role> OriginalSlurmRole(const Inputs& in) {
  const std::string* type = TaskType(in.environment);
  if (type != nullptr) return {ParseReplicaType(kTaskType, *type), std::string(kTaskType)};
  if (Find(in.environment, kTaskType) == nullptr) return {};
  return Silent{"TASK_TYPE is set, but neither HAS_READERS nor SLURM_JOB_NODELIST_HET_GROUP_0, so it may mean something else"};
}

Opinion<Address> OriginalSlurmAdvertise(const Inputs& in) {
  if (!IsTask(in.environment, "datasetworker")) return {};
  const std::string from(kNodeName);
  const std::string* node = Find(in.environment, kNodeName);
  if (node == nullptr) return {Missing(kNodeName, "TASK_TYPE is datasetworker", "start the worker with srun, or set PENSTOCK_ADVERTISE"), from};
  if (!IsHost(*node)) return {Malformed(kNodeName, *node, "the name of a host"), from};
  return {Address{*node, kPort}, from};
}

Opinion<uint16_t> OriginalSlurmPort(const Inputs& in) {
  if (!IsTask(in.environment, "datasetworker") && !IsTask(in.environment, "datasetdispatcher")) return {};
  return {kPort, std::string(kTaskType)};
}

}  // namespace penstock::cluster
