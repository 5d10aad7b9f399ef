#include "cluster/identity.h"

#include <unistd.h>

#include "cluster/parse.h"

namespace penstock::cluster {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

template <class T>
T ValueOr(const Answer<T>& answer, const T& otherwise) {
  return answer.value.ok() ? *answer.value : otherwise;
}

bool IsServer(Role role) { return role == Role::kDispatcher || role == Role::kWorker; }

// The first answer that the role needs and that is an error.
Status FirstError(const Report& report, Role role) {
  if (role != Role::kDispatcher) PENSTOCK_TRY(report.service.value);
  if (IsServer(role)) {
    PENSTOCK_TRY(report.advertise.value);
    PENSTOCK_TRY(report.listen_port.value);
    return {};
  }
  PENSTOCK_TRY(report.rank.value);
  PENSTOCK_TRY(report.job.value);
  PENSTOCK_TRY(report.attempt.value);
  return {};
}

}  // namespace

Environment CurrentEnvironment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string_view Name(Role role) {
  switch (role) {
    case Role::kTrainer: return "trainer";
    case Role::kDispatcher: return "dispatcher";
    case Role::kWorker: return "worker";
    case Role::kEvaluator: return "evaluator";
    case Role::kParameterServer: return "ps";
  }
  return "unknown";
}

bool JoinsTraining(Role role) { return role == Role::kTrainer; }

std::string_view Name(Source source) {
  switch (source) {
    case Source::kArgument: return "argument";
    case Source::kPenstock: return "PENSTOCK_*";
    case Source::kOriginalKubernetes: return "SPEC_TYPE contract";
    case Source::kProcessGroup: return "process group";
    case Source::kTorchrun: return "torchrun";
    case Source::kTfConfig: return "TF_CONFIG";
    case Source::kOriginalSlurm: return "HAS_READERS contract";
    case Source::kKubernetes: return "Kubernetes";
    case Source::kIndexedJob: return "Indexed Job";
    case Source::kRay: return "Ray";
    case Source::kSlurm: return "Slurm";
    case Source::kDefault: return "default";
  }
  return "unknown";
}

std::string ToString(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  std::string text = v6 ? "[" + address.host + "]" : address.host;
  if (address.port != 0) text += ":" + std::to_string(address.port);
  return text;
}

std::string ToString(const Service& service) {
  return std::visit(Overloaded{
                        [](const NoService&) -> std::string { return "none"; },
                        [](const Address& address) { return "penstock://" + ToString(address); },
                        [](const UnixService& socket) { return "unix:" + socket.path; },
                        [](const LocalService& local) { return "local:" + std::to_string(local.workers); },
                        [](const InlineService&) -> std::string { return "inline"; },
                        [](const OffService&) -> std::string { return "off"; },
                    },
                    service);
}

std::string ToString(const Rank& rank) { return std::to_string(rank.rank) + " of " + std::to_string(rank.world); }

Status CheckServing(const Report& report) {
  if (!report.role.value.ok() || !report.service.value.ok() || !IsServer(*report.role.value)) return {};
  const Service& service = *report.service.value;
  if (std::holds_alternative<Address>(service) || std::holds_alternative<UnixService>(service)) return {};
  const bool nobody_says = report.service.source == Source::kDefault;
  return Status(Code::kInvalid,
                "by " + report.role.because + " this process is a " + std::string(Name(*report.role.value)) + ", and " +
                    (nobody_says ? "nothing names the service that it is of"
                                 : "by " + report.service.because + " its service is '" + ToString(service) + "', which has no servers") +
                    ": set PENSTOCK_SERVICE=penstock://HOST:PORT, the dispatcher's address, or mend the role")
      .With("role", std::string(Name(*report.role.value)));
}

std::string Unranked(const Report& report) {
  if (report.rank.source != Source::kDefault) return {};
  for (const Other& other : report.rank.others) {
    if (other.source == Source::kOriginalKubernetes) return other.says;
  }
  return {};
}

Result<Identity> IdentityOf(const Report& report) {
  PENSTOCK_TRY(report.role.value);
  const Role role = *report.role.value;
  PENSTOCK_TRY(FirstError(report, role));
  return Identity{
      .service = ValueOr<Service>(report.service, NoService{}),
      .role = role,
      .rank = ValueOr(report.rank, Rank{}),
      .advertise = ValueOr(report.advertise, Address{}),
      .listen_port = ValueOr<uint16_t>(report.listen_port, 0),
      .job = ValueOr<std::string>(report.job, ""),
      .attempt = ValueOr<uint32_t>(report.attempt, 0),
      .service_from = report.service.source,
      .role_from = report.role.source,
      .rank_from = report.rank.source,
      .job_from = report.job.source,
      .misplaced = std::string(CheckServing(report).message()),
      .warnings = report.warnings,
  };
}

Result<Identity> Identify(const Inputs& inputs) { return IdentityOf(Examine(inputs)); }

bool OnPlatform(const Identity& identity) {
  const auto is_platform = [](Source source) {
    switch (source) {
      case Source::kOriginalKubernetes:
      case Source::kTfConfig:
      case Source::kOriginalSlurm:
      case Source::kKubernetes:
      case Source::kIndexedJob:
      case Source::kRay:
      case Source::kSlurm: return true;
      case Source::kArgument:
      case Source::kPenstock:
      case Source::kProcessGroup:
      case Source::kTorchrun:  // on one machine as well, by hand
      case Source::kDefault: return false;
    }
    return false;
  };
  return is_platform(identity.service_from) || is_platform(identity.role_from) || is_platform(identity.rank_from) || is_platform(identity.job_from);
}

}  // namespace penstock::cluster
