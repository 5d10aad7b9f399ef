// Who this process is: the same answers as the executable gives.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/name.h"
#include "bind.h"
#include "cluster/identity.h"
#include "cluster/parse.h"
#include "errors.h"
#include "wire/token.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

using Place = std::pair<uint32_t, uint32_t>;

cluster::Inputs ToInputs(const nb::dict& facts) {
  cluster::Inputs inputs{.environment = nb::cast<cluster::Environment>(facts["environment"])};
  inputs.arguments.service = nb::cast<std::optional<std::string>>(facts["service"]);
  inputs.arguments.job_name = nb::cast<std::optional<std::string>>(facts["job_name"]);
  if (const auto rank = nb::cast<std::optional<Place>>(facts["rank"])) inputs.arguments.rank = cluster::Rank{rank->first, rank->second};
  if (const auto group = nb::cast<std::optional<Place>>(facts["group"])) {
    inputs.facts.process_group = cluster::ProcessGroup{nb::cast<std::string>(facts["group_library"]), {group->first, group->second}};
  }
  if (const auto ray_job = nb::cast<std::optional<std::string>>(facts["ray_job"])) {
    inputs.facts.ray = cluster::Ray{*ray_job, nb::cast<std::optional<std::string>>(facts["ray_dispatcher"])};
  }
  inputs.facts.hostname = nb::cast<std::string>(facts["hostname"]);
  return inputs;
}

nb::dict ToPython(const cluster::Identity& identity) {
  nb::dict out;
  out["service"] = cluster::ToString(identity.service);
  out["role"] = std::string(cluster::Name(identity.role));
  out["joins"] = cluster::JoinsTraining(identity.role);
  out["rank"] = identity.rank.rank;
  out["world"] = identity.rank.world;
  out["job"] = identity.job;
  out["job_named"] = identity.job_from == cluster::Source::kArgument || identity.job_from == cluster::Source::kPenstock;
  out["attempt"] = identity.attempt;
  out["on_platform"] = cluster::OnPlatform(identity);
  out["misplaced"] = identity.misplaced;
  out["warnings"] = identity.warnings;
  return out;
}

}  // namespace

void BindCluster(nb::module_& m) {
  m.def(
      "identify", [](const nb::dict& facts) { return ToPython(Unwrap(cluster::Identify(ToInputs(facts)))); }, nb::arg("facts"));
  m.def(
      "parse_service",
      [](const std::string& name, const std::string& value) { return cluster::ToString(Unwrap(cluster::ParseService(name, value))); },
      nb::arg("name"), nb::arg("value"));
  m.def(
      "check_name",
      [](const std::string& what, const std::string& name) {
        if (const Status status = CheckName(what, name); !status.ok()) Raise(status);
      },
      nb::arg("what"), nb::arg("name"));
  m.def(
      "check_cluster_token",
      [](const std::string& token) {
        if (const Status status = CheckClusterToken(token); !status.ok()) Raise(status);
      },
      nb::arg("token"));
}

}  // namespace penstock::python
