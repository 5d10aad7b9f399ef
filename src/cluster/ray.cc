// Ray, once the program has initialised it. Bindings look; this only judges.
#include "cluster/detectors.h"
#include "cluster/parse.h"

namespace penstock::cluster {

Opinion<Service> RayService(const Inputs& in) {
  const auto& ray = in.facts.ray;
  if (!ray) return {};
  if (!ray->dispatcher) return Silent{"Ray is initialised but has no actor named penstock-dispatcher"};
  return {ParseService("the address of the actor penstock-dispatcher", *ray->dispatcher), "actor penstock-dispatcher"};
}

Opinion<Role> RayRole(const Inputs& in) {
  if (!in.facts.ray) return {};
  return {Role::kTrainer, "Ray is initialised"};
}

Opinion<std::string> RayJob(const Inputs& in) {
  const auto& ray = in.facts.ray;
  if (!ray || ray->job_id.empty()) return {};
  return {ParseJob("Ray's job id", ray->job_id), "Ray's job id"};
}

}  // namespace penstock::cluster
