// The Kubernetes contract of the service that penstock replaces: SPEC_TYPE says that it holds and what this pod is, MACHINES_CONFIG (JSON)
// whether there are readers, JOB_NAME and MY_POD_NAME give the addresses. Its servers all listen on 5050.
#include <nlohmann/json.hpp>

#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr uint16_t kPort = 5050;
constexpr std::string_view kSpecType = "SPEC_TYPE";
constexpr std::string_view kMachines = "MACHINES_CONFIG";
constexpr std::string_view kJobName = "JOB_NAME";
constexpr std::string_view kPodName = "MY_POD_NAME";

Result<bool> HasReaders(const Environment& environment) {
  const std::string* text = Find(environment, kMachines);
  if (text == nullptr) {
    return Missing(kMachines, "SPEC_TYPE is", "set it to a JSON object whose dataset_worker is null without readers, or set PENSTOCK_SERVICE");
  }
  const nlohmann::json machines = nlohmann::json::parse(*text, nullptr, false);
  if (machines.is_object()) {
    for (const auto& [name, value] : machines.items()) {
      if (SameName(name, "dataset_worker")) return !value.is_null();
    }
  }
  return Malformed(kMachines, *text, "a JSON object with dataset_worker: the readers' machine, or null where there are none");
}

// "<job>-<replica>" where the job is JOB_NAME.
Result<std::string> HostOf(const Environment& environment, std::string_view replica) {
  const std::string* job = Find(environment, kJobName);
  if (job == nullptr) return Missing(kJobName, "SPEC_TYPE is and there are readers", "set it to the job's name, or set PENSTOCK_SERVICE");
  std::string host = *job + "-" + std::string(replica);
  if (!IsHost(host) || job->find_first_of(":") != std::string::npos) return Malformed(kJobName, *job, "a name that can begin a host's name");
  return host;
}

// MY_POD_NAME ends in "-<index>".
Result<uint32_t> PodIndex(const Environment& environment) {
  const std::string* pod = Find(environment, kPodName);
  if (pod == nullptr) return Missing(kPodName, "SPEC_TYPE is", "set it to metadata.name by the downward API, or set PENSTOCK_ADVERTISE");
  const size_t dash = pod->rfind('-');
  const auto index = dash == std::string::npos ? std::nullopt : ToNumber(std::string_view(*pod).substr(dash + 1));
  if (!index) return Malformed(kPodName, *pod, "a pod's name that ends in -<index>");
  return *index;
}

Result<Service> DispatcherOf(const Environment& environment) {
  PENSTOCK_ASSIGN(const bool readers, HasReaders(environment));
  if (!readers) return Service(NoService{});
  PENSTOCK_ASSIGN(std::string host, HostOf(environment, "datasetdispatcher-0"));
  return Service(Address{std::move(host), kPort});
}

Result<Address> WorkerOf(const Environment& environment) {
  PENSTOCK_ASSIGN(const uint32_t index, PodIndex(environment));
  PENSTOCK_ASSIGN(std::string host, HostOf(environment, "datasetworker-" + std::to_string(index)));
  return Address{std::move(host), kPort};
}

bool IsServer(const Environment& environment) {
  const std::string* type = Find(environment, kSpecType);
  return type != nullptr && (SameName(*type, "datasetworker") || SameName(*type, "datasetdispatcher"));
}

}  // namespace

Opinion<Service> OriginalKubernetesService(const Inputs& in) {
  if (Find(in.environment, kSpecType) == nullptr) return {};
  return {DispatcherOf(in.environment), "SPEC_TYPE, MACHINES_CONFIG, JOB_NAME"};
}

Opinion<Role> OriginalKubernetesRole(const Inputs& in) {
  const std::string* type = Find(in.environment, kSpecType);
  if (type == nullptr) return {};
  return {ParseReplicaType(kSpecType, *type), std::string(kSpecType)};
}

// The contract numbers pods of each type and counts nobody: it is for the process group to say.
Opinion<Place> OriginalKubernetesRank(const Inputs& in) {
  const std::string* type = Find(in.environment, kSpecType);
  if (type == nullptr || IsServer(in.environment)) return {};
  const auto role = ParseReplicaType(kSpecType, *type);
  const auto index = PodIndex(in.environment);
  const bool among_several = SameName(*type, "worker") || (index.ok() && *index > 0);
  if (!role.ok() || !JoinsTraining(*role) || !among_several) return {};
  return Silent{"by SPEC_TYPE=" + *type + (index.ok() ? ", MY_POD_NAME=" + *Find(in.environment, kPodName) : "") +
                " this is one of several trainers, and nothing says which rank of how many: initialise torch.distributed or jax.distributed before "
                "reading, or set PENSTOCK_RANK and PENSTOCK_WORLD_SIZE"};
}

Opinion<Address> OriginalKubernetesAdvertise(const Inputs& in) {
  const std::string* type = Find(in.environment, kSpecType);
  if (type == nullptr || !SameName(*type, "datasetworker")) return {};
  return {WorkerOf(in.environment), "JOB_NAME, MY_POD_NAME"};
}

Opinion<uint16_t> OriginalKubernetesPort(const Inputs& in) {
  if (!IsServer(in.environment)) return {};
  return {kPort, std::string(kSpecType)};
}

Opinion<std::string> OriginalKubernetesJob(const Inputs& in) {
  const std::string* job = Find(in.environment, kJobName);
  if (Find(in.environment, kSpecType) == nullptr || job == nullptr) return {};
  return {ParseJob(kJobName, *job), std::string(kJobName)};
}

}  // namespace penstock::cluster
