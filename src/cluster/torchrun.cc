// torchrun and PyTorchJob: RANK and WORLD_SIZE for each process.
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kRank = "RANK";
constexpr std::string_view kWorld = "WORLD_SIZE";
constexpr std::string_view kRunId = "TORCHELASTIC_RUN_ID";
constexpr std::string_view kRestarts = "TORCHELASTIC_RESTART_COUNT";

// PyTorchJob gives a pod its own number as RANK and all processes as WORLD_SIZE; torchrun in the pod then gives each process its own RANK, and
// a LOCAL_RANK. Without that, all processes of a pod would take themselves for one rank.
Status CheckStartedByTorchrun(const Environment& environment, const std::string& rank) {
  if (Find(environment, "LOCAL_RANK") != nullptr) return {};
  const std::string* per_node = Find(environment, "PET_NPROC_PER_NODE");
  const auto processes = per_node == nullptr ? std::nullopt : ToNumber(*per_node);
  if (!processes || *processes < 2) return {};
  return Malformed(
      kRank, rank,
      "the rank of a process, but PET_NPROC_PER_NODE is " + *per_node +
          " and LOCAL_RANK is not set, so it is the pod's; start the program with torchrun, or set PENSTOCK_RANK and PENSTOCK_WORLD_SIZE");
}

}  // namespace

Opinion<Place> TorchrunRank(const Inputs& in) {
  const std::string from = "RANK, WORLD_SIZE";
  const auto rank = FindNumber(in.environment, kRank);
  const auto world = FindNumber(in.environment, kWorld);
  if (!rank.ok()) return {rank.status(), from};
  if (!world.ok()) return {world.status(), from};
  if (!*rank && !*world) return {};
  if (!*rank) return {Place{std::nullopt, *world}, std::string(kWorld)};
  if (!*world) return {Missing(kWorld, "RANK is", "set it to the number of ranks, or unset RANK"), from};
  if (Status status = CheckStartedByTorchrun(in.environment, *Find(in.environment, kRank)); !status.ok()) return {status, from};
  return {Place{*rank, *world}, from};
}

Opinion<std::string> TorchrunJob(const Inputs& in) {
  const std::string* id = Find(in.environment, kRunId);
  if (id == nullptr || *id == "none") return {};  // "none" is torchrun's default, the same for every job
  return {ParseJob(kRunId, *id), std::string(kRunId)};
}

Opinion<uint32_t> TorchrunAttempt(const Inputs& in) {
  const auto count = FindNumber(in.environment, kRestarts);
  if (!count.ok()) return {count.status(), std::string(kRestarts)};
  if (!*count) return {};
  return {**count, std::string(kRestarts)};
}

}  // namespace penstock::cluster
