// TF_CONFIG, which TFJob sets: the addresses of all tasks by type, and which of them this is.
//
//   {"cluster": {"chief": ["j-chief-0.ns.svc:2222"], "worker": […], "datasetdispatcher": ["j-datasetdispatcher-0.ns.svc:5050"], …},
//    "task": {"type": "worker", "index": 0}}
//
// With enableDynamicWorker a task is told of the parameter servers and of itself only: "sparseCluster" instead of "cluster", and in it
// "worker": {"3": "j-worker-3.ns.svc:2222"}.
#include <map>
#include <nlohmann/json.hpp>

#include "base/constants.h"
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kVariable = "TF_CONFIG";
constexpr std::string_view kDispatcher = "datasetdispatcher";
constexpr std::string_view kWorker = "datasetworker";

struct TfConfig {
  Json cluster;  // an object, or null where there is none
  bool sparse = false;
  std::string type;  // "" where it does not say
  std::optional<uint32_t> index;
};

std::string Shown(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<uint32_t> IndexOf(const Json& value) {
  std::optional<uint32_t> index;
  if (value.is_string()) index = ToNumber(value.get_ref<const std::string&>());
  if (value.is_number_unsigned()) index = ToNumber(Shown(value));
  if (!index) return Malformed("TF_CONFIG.task.index", Shown(value), "a number from 0");
  return *index;
}

Status ReadTask(const Json& task, TfConfig& config) {
  if (!task.is_object()) return Malformed("TF_CONFIG.task", Shown(task), "an object with type and index");
  if (const auto type = task.find("type"); type != task.end()) {
    if (!type->is_string()) return Malformed("TF_CONFIG.task.type", Shown(*type), "a string");
    config.type = type->get<std::string>();
  }
  if (const auto index = task.find("index"); index != task.end()) {
    PENSTOCK_ASSIGN(config.index, IndexOf(*index));
  }
  return {};
}

// Which of two spellings of a type would win is nothing to rely on.
Status CheckTypes(const Json& cluster) {
  std::map<std::string, std::string> spelt;
  for (auto it = cluster.begin(); it != cluster.end(); ++it) {
    if (it->is_null()) continue;
    const auto [known, is_new] = spelt.emplace(Folded(it.key()), it.key());
    if (is_new) continue;
    return Malformed("TF_CONFIG.cluster", Shown(cluster),
                     "one of '" + known->second + "' and '" + it.key() + "': types compare without case, '-' and '_', so they are the same");
  }
  return {};
}

// The sparse form is known by its name, or by workers that are numbered instead of listed.
Status ReadCluster(const Json& root, TfConfig& config) {
  const bool sparse = root.contains("sparseCluster");
  const auto cluster = root.find(sparse ? "sparseCluster" : "cluster");
  if (cluster == root.end() || cluster->is_null()) return {};
  if (!cluster->is_object()) return Malformed("TF_CONFIG.cluster", Shown(*cluster), "an object of task types, each with its addresses");
  PENSTOCK_TRY(CheckTypes(*cluster));
  config.cluster = *cluster;
  config.sparse = sparse || (cluster->contains("worker") && cluster->at("worker").is_object());
  return {};
}

// nullopt where the variable is not set.
Result<std::optional<TfConfig>> Read(const Environment& environment) {
  const std::string* text = Find(environment, kVariable);
  if (text == nullptr) return std::optional<TfConfig>();
  const Json root = Json::parse(*text, nullptr, false);
  if (!root.is_object()) return Malformed(kVariable, *text, "a JSON object with cluster and task");
  TfConfig config;
  PENSTOCK_TRY(ReadCluster(root, config));
  if (const auto task = root.find("task"); task != root.end() && !task->is_null()) PENSTOCK_TRY(ReadTask(*task, config));
  return std::optional<TfConfig>(std::move(config));
}

// The addresses of a type: a list, or by index in the sparse form; nullptr where the cluster has none of it.
const Json* TasksOf(const TfConfig& config, std::string_view type) {
  for (auto it = config.cluster.begin(); it != config.cluster.end(); ++it) {
    if (SameName(it.key(), type) && !it->is_null()) return &*it;
  }
  return nullptr;
}

Result<Address> AddressOf(const TfConfig& config, std::string_view type, uint32_t index) {
  const std::string name = "TF_CONFIG.cluster." + std::string(type);
  const Json* tasks = TasksOf(config, type);
  if (tasks == nullptr) return Malformed(name, "", "the addresses of this type's tasks");
  const Json* entry = nullptr;
  if (tasks->is_array() && index < tasks->size()) entry = &tasks->at(index);
  if (tasks->is_object() && tasks->contains(std::to_string(index))) entry = &tasks->at(std::to_string(index));
  if (entry == nullptr || !entry->is_string()) {
    return Malformed(name, Shown(*tasks), "addresses host:port, one of them with index " + std::to_string(index));
  }
  const std::string& text = entry->get_ref<const std::string&>();
  const std::string which = name + "[" + std::to_string(index) + "]";
  PENSTOCK_ASSIGN(Address address, ParseAddress(which, text, kDefaultPort));
  if (address.port == 0 && SameName(type, kDispatcher))
    return Malformed(which, text, "host:port, the port from 1 to 65535: others look for it there");
  return address;
}

Result<uint32_t> CountOf(const TfConfig& config, std::string_view type) {
  const Json* tasks = TasksOf(config, type);
  if (tasks == nullptr) return 0u;
  if (!tasks->is_array()) return Malformed("TF_CONFIG.cluster." + std::string(type), Shown(*tasks), "a list of addresses");
  return static_cast<uint32_t>(tasks->size());
}

// Ranks count chiefs, then masters, then workers. (A cluster has one chief or one master; both are the same to us.)
Result<Place> PlaceOf(const TfConfig& config) {
  if (config.sparse) {
    return Malformed(
        kVariable, "of enableDynamicWorker's sparse form",
        "the whole cluster, to count ranks; set PENSTOCK_RANK (by the downward API, from the label training.kubeflow.org/replica-index) and "
        "PENSTOCK_WORLD_SIZE, or switch enableDynamicWorker off");
  }
  if (!config.index) return Malformed("TF_CONFIG.task.index", "", "a number from 0");
  uint32_t before = 0;
  std::optional<uint32_t> rank;
  for (std::string_view type : {"chief", "master", "worker"}) {
    PENSTOCK_ASSIGN(const uint32_t count, CountOf(config, type));
    if (SameName(config.type, type)) {
      if (*config.index >= count) {
        return Malformed("TF_CONFIG.task.index", std::to_string(*config.index),
                         "less than " + std::to_string(count) + ", the number of tasks of type " + std::string(type));
      }
      rank = before + *config.index;
    }
    before += count;
  }
  return Place{rank, before};
}

std::string FromTask() { return "TF_CONFIG.task"; }

// Of a cluster, every task is told which one it is: without that, all of them would take themselves for the only trainer.
Status CheckTaskIsNamed(const TfConfig& config) {
  if (!config.type.empty() || config.cluster.empty()) return {};
  return Missing(config.index ? "TF_CONFIG.task.type" : "TF_CONFIG.task", "TF_CONFIG.cluster is",
                 "give the task its type and index, or set PENSTOCK_ROLE, PENSTOCK_RANK and PENSTOCK_WORLD_SIZE");
}

bool IsTrainerType(std::string_view type) { return SameName(type, "chief") || SameName(type, "master") || SameName(type, "worker"); }

// Where the others were told to look for this server; nullopt where it is none, or they were told nothing.
Result<std::optional<Address>> OwnAddress(const Inputs& in) {
  PENSTOCK_ASSIGN(const std::optional<TfConfig> config, Read(in.environment));
  if (!config || !config->index || config->sparse) return std::optional<Address>();
  if (!SameName(config->type, kDispatcher) && !SameName(config->type, kWorker)) return std::optional<Address>();
  PENSTOCK_ASSIGN(Address own, AddressOf(*config, config->type, *config->index));
  return std::optional<Address>(std::move(own));
}

}  // namespace

Opinion<Service> TfConfigService(const Inputs& in) {
  const std::string from = "TF_CONFIG.cluster.datasetdispatcher[0]";
  const auto config = Read(in.environment);
  if (!config.ok()) return {config.status(), from};
  if (!*config) return {};
  if (TasksOf(**config, kDispatcher) != nullptr) {
    const Result<Address> address = AddressOf(**config, kDispatcher, 0);
    if (!address.ok()) return {address.status(), from};
    return {Service(*address), from};
  }
  if ((*config)->sparse) return Silent{"enableDynamicWorker's sparse form does not name the dispatcher; if there is one, set PENSTOCK_SERVICE"};
  return Silent{"the cluster has no datasetdispatcher"};
}

Opinion<Role> TfConfigRole(const Inputs& in) {
  const std::string from = "TF_CONFIG.task.type";
  const auto config = Read(in.environment);
  if (!config.ok()) return {config.status(), from};
  if (!*config) return {};
  if (Status named = CheckTaskIsNamed(**config); !named.ok()) return {named, from};
  if ((*config)->type.empty()) return Silent{"it has no task.type"};
  return {ParseReplicaType(from, (*config)->type), from};
}

Opinion<Place> TfConfigRank(const Inputs& in) {
  const auto config = Read(in.environment);
  if (!config.ok()) return {config.status(), FromTask()};
  if (!*config) return {};
  if ((*config)->cluster.empty()) return Silent{"it has no cluster"};
  if (Status named = CheckTaskIsNamed(**config); !named.ok()) return {named, FromTask()};
  if (!IsTrainerType((*config)->type)) return Silent{"a task of type '" + (*config)->type + "' is no rank"};
  return {PlaceOf(**config), FromTask() + ", cluster"};
}

Opinion<Address> TfConfigAdvertise(const Inputs& in) {
  const auto own = OwnAddress(in);
  if (!own.ok()) return {own.status(), FromTask()};
  if (!*own) return {};
  return {**own, FromTask() + ", cluster"};
}

Opinion<uint16_t> TfConfigPort(const Inputs& in) {
  const auto own = OwnAddress(in);
  if (!own.ok()) return {own.status(), FromTask()};
  if (!*own) return {};
  return {(*own)->port, FromTask()};
}

// TFJob names a task's host <job>-<type>-<index>.
Opinion<std::string> TfConfigJob(const Inputs& in) {
  const auto config = Read(in.environment);
  if (!config.ok()) return {config.status(), FromTask()};
  if (!*config || (*config)->type.empty() || !(*config)->index || TasksOf(**config, (*config)->type) == nullptr) return {};
  const Result<Address> own = AddressOf(**config, (*config)->type, *(*config)->index);
  if (!own.ok()) return {own.status(), FromTask()};
  const std::string label = own->host.substr(0, own->host.find('.'));
  const std::string suffix = "-" + (*config)->type + "-" + std::to_string(*(*config)->index);
  if (label.size() <= suffix.size() || !label.ends_with(suffix)) return Silent{"the host " + own->host + " is not named <job>" + suffix};
  return {ParseJob(kVariable, label.substr(0, label.size() - suffix.size())), "the name of this task's host in TF_CONFIG"};
}

}  // namespace penstock::cluster
