// What a person said: arguments, flags, subcommands, and PENSTOCK_* variables.
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

constexpr std::string_view kService = "PENSTOCK_SERVICE";
constexpr std::string_view kRole = "PENSTOCK_ROLE";
constexpr std::string_view kRank = "PENSTOCK_RANK";
constexpr std::string_view kWorld = "PENSTOCK_WORLD_SIZE";
constexpr std::string_view kAdvertise = "PENSTOCK_ADVERTISE";
constexpr std::string_view kJobName = "PENSTOCK_JOB_NAME";

}  // namespace

Opinion<Service> ArgumentService(const Inputs& in) {
  if (!in.arguments.service) return {};
  return {ParseService("the service argument", *in.arguments.service), "argument"};
}

Opinion<Role> ArgumentRole(const Inputs& in) {
  if (!in.arguments.role) return {};
  return {*in.arguments.role, "subcommand"};
}

Opinion<Place> ArgumentRank(const Inputs& in) {
  if (!in.arguments.rank) return {};
  return {Place{in.arguments.rank->rank, in.arguments.rank->world}, "arguments"};
}

Opinion<Address> ArgumentAdvertise(const Inputs& in) {
  if (!in.arguments.advertise) return {};
  return {ParseAddress("--advertise", *in.arguments.advertise, 0), "--advertise"};
}

Opinion<uint16_t> ArgumentPort(const Inputs& in) {
  if (!in.arguments.listen_port) return {};
  return {*in.arguments.listen_port, "--listen"};
}

Opinion<std::string> ArgumentJob(const Inputs& in) {
  if (!in.arguments.job_name) return {};
  return {ParseJob("the job_name argument", *in.arguments.job_name), "argument"};
}

Opinion<Service> PenstockService(const Inputs& in) {
  const std::string* value = Find(in.environment, kService);
  if (value == nullptr) return {};
  return {ParseService(kService, *value), std::string(kService)};
}

Opinion<Role> PenstockRole(const Inputs& in) {
  const std::string* value = Find(in.environment, kRole);
  if (value == nullptr) return {};
  return {ParseRole(kRole, *value), std::string(kRole)};
}

Opinion<Place> PenstockRank(const Inputs& in) {
  const std::string from = std::string(kRank) + ", " + std::string(kWorld);
  const auto rank = FindNumber(in.environment, kRank);
  const auto world = FindNumber(in.environment, kWorld);
  if (!rank.ok()) return {rank.status(), from};
  if (!world.ok()) return {world.status(), from};
  if (!*rank && !*world) return {};
  if (!*rank) return {Place{std::nullopt, *world}, std::string(kWorld)};
  if (!*world) return {Missing(kWorld, "PENSTOCK_RANK is", "set it to the number of ranks"), from};
  return {Place{*rank, *world}, from};
}

Opinion<Address> PenstockAdvertise(const Inputs& in) {
  const std::string* value = Find(in.environment, kAdvertise);
  if (value == nullptr) return {};
  return {ParseAddress(kAdvertise, *value, 0), std::string(kAdvertise)};
}

Opinion<uint16_t> PenstockPort(const Inputs& in) {
  const Opinion<Service> service = PenstockService(in);
  const auto* value = std::get_if<Service>(&service.says);
  const auto* address = value == nullptr ? nullptr : std::get_if<Address>(value);
  if (address == nullptr) return {};
  return {address->port, std::string(kService)};
}

Opinion<std::string> PenstockJob(const Inputs& in) {
  const std::string* value = Find(in.environment, kJobName);
  if (value == nullptr) return {};
  return {ParseJob(kJobName, *value), std::string(kJobName)};
}

}  // namespace penstock::cluster
