// Indexed Jobs, and what is built of them: JobSet, TrainJob. A pod knows its index; how many there are only TrainJob says, for torchrun (PET_*).
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kIndex = "JOB_COMPLETION_INDEX";
constexpr std::string_view kNodeRank = "PET_NODE_RANK";
constexpr std::string_view kNodes = "PET_NNODES";
constexpr std::string_view kPerNode = "PET_NPROC_PER_NODE";

// The pods, if their number is fixed ("2:4" is an elastic one). With several processes a pod the pod's index is nobody's rank.
Result<std::optional<uint32_t>> Pods(const Environment& environment) {
  const std::string* per_node = Find(environment, kPerNode);
  if (const auto processes = per_node == nullptr ? std::nullopt : ToNumber(*per_node); processes && *processes > 1) {
    return Malformed(kPerNode, *per_node,
                     "1 where RANK is not set; start the program with torchrun, which sets it, or set PENSTOCK_RANK and PENSTOCK_WORLD_SIZE");
  }
  const std::string* nodes = Find(environment, kNodes);
  if (nodes == nullptr) return std::optional<uint32_t>();
  const size_t colon = nodes->find(':');
  const auto least = ToNumber(std::string_view(*nodes).substr(0, colon));
  const auto most = colon == std::string::npos ? least : ToNumber(std::string_view(*nodes).substr(colon + 1));
  if (!least || !most || *least == 0 || *least > *most) return Malformed(kNodes, *nodes, "a number of nodes, or least:most");
  return *least == *most ? least : std::optional<uint32_t>();
}

}  // namespace

Opinion<Place> IndexedJobRank(const Inputs& in) {
  const std::string_view variable = Find(in.environment, kIndex) != nullptr ? kIndex : kNodeRank;
  const auto index = FindNumber(in.environment, variable);
  if (!index.ok()) return {index.status(), std::string(variable)};
  if (!*index) return {};
  const auto pods = Pods(in.environment);
  if (!pods.ok()) return {pods.status(), std::string(variable) + ", PET_*"};
  return {Place{*index, *pods}, std::string(variable) + (*pods ? ", PET_NNODES" : "")};
}

}  // namespace penstock::cluster
