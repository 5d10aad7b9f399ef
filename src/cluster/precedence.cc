// The one table of precedence, a column a question, and the walk over it.
#include <array>
#include <span>

#include "base/constants.h"
#include "cluster/detectors.h"
#include "cluster/parse.h"
#include "cluster/variables.h"

namespace penstock::cluster {
namespace {

template <class T>
struct Row {
  Source source;
  Opinion<T> (*ask)(const Inputs& in);
};

constexpr std::array kService = {
    Row<Service>{Source::kArgument, ArgumentService},
    Row<Service>{Source::kPenstock, PenstockService},
    Row<Service>{Source::kOriginalKubernetes, OriginalKubernetesService},
    Row<Service>{Source::kTfConfig, TfConfigService},
    Row<Service>{Source::kOriginalSlurm, OriginalSlurmService},
    Row<Service>{Source::kKubernetes, KubernetesService},
    Row<Service>{Source::kRay, RayService},
    Row<Service>{Source::kDefault, [](const Inputs&) { return Opinion<Service>(NoService{}, "no source speaks"); }},
};
constexpr std::array kRole = {
    Row<Role>{Source::kArgument, ArgumentRole},
    Row<Role>{Source::kPenstock, PenstockRole},
    Row<Role>{Source::kOriginalKubernetes, OriginalKubernetesRole},
    Row<Role>{Source::kTfConfig, TfConfigRole},
    Row<Role>{Source::kOriginalSlurm, OriginalSlurmRole},
    Row<Role>{Source::kKubernetes, KubernetesRole},
    Row<Role>{Source::kRay, RayRole},
    Row<Role>{Source::kDefault, [](const Inputs&) { return Opinion<Role>(Role::kTrainer, "no source speaks"); }},
};
constexpr std::array kRank = {
    Row<Place>{Source::kArgument, ArgumentRank},
    Row<Place>{Source::kPenstock, PenstockRank},
    Row<Place>{Source::kOriginalKubernetes, OriginalKubernetesRank},
    Row<Place>{Source::kProcessGroup, ProcessGroupRank},
    Row<Place>{Source::kTorchrun, TorchrunRank},
    Row<Place>{Source::kTfConfig, TfConfigRank},
    Row<Place>{Source::kIndexedJob, IndexedJobRank},
    Row<Place>{Source::kSlurm, SlurmRank},
    Row<Place>{Source::kDefault,
               [](const Inputs&) {
                 return Opinion<Place>(Place{0, 1}, "no source speaks");
               }},
};
constexpr std::array kAdvertise = {
    Row<Address>{Source::kArgument, ArgumentAdvertise},
    Row<Address>{Source::kPenstock, PenstockAdvertise},
    Row<Address>{Source::kKubernetes, KubernetesAdvertise},
    Row<Address>{Source::kOriginalKubernetes, OriginalKubernetesAdvertise},
    Row<Address>{Source::kOriginalSlurm, OriginalSlurmAdvertise},
    Row<Address>{Source::kTfConfig, TfConfigAdvertise},
    Row<Address>{Source::kDefault,
                 [](const Inputs& in) {
                   return Opinion<Address>(Address{in.facts.hostname, 0}, "hostname");
                 }},
};
constexpr std::array kPort = {
    Row<uint16_t>{Source::kArgument, ArgumentPort},
    Row<uint16_t>{Source::kPenstock, PenstockPort},
    Row<uint16_t>{Source::kOriginalKubernetes, OriginalKubernetesPort},
    Row<uint16_t>{Source::kTfConfig, TfConfigPort},
    Row<uint16_t>{Source::kOriginalSlurm, OriginalSlurmPort},
};
constexpr std::array kJob = {
    Row<std::string>{Source::kArgument, ArgumentJob},
    Row<std::string>{Source::kPenstock, PenstockJob},
    Row<std::string>{Source::kOriginalKubernetes, OriginalKubernetesJob},
    Row<std::string>{Source::kTfConfig, TfConfigJob},
    Row<std::string>{Source::kTorchrun, TorchrunJob},
    Row<std::string>{Source::kSlurm, SlurmJob},
    Row<std::string>{Source::kRay, RayJob},
    Row<std::string>{Source::kDefault, [](const Inputs&) { return Opinion<std::string>(std::string(), "no source speaks"); }},
};
constexpr std::array kAttempt = {
    Row<uint32_t>{Source::kTorchrun, TorchrunAttempt},
    Row<uint32_t>{Source::kSlurm, SlurmAttempt},
    Row<uint32_t>{Source::kDefault, [](const Inputs&) { return Opinion<uint32_t>(0u, "no source speaks"); }},
};

std::string Text(const Service& service) { return ToString(service); }
std::string Text(const Address& address) { return ToString(address); }
std::string Text(Role role) { return std::string(Name(role)); }
std::string Text(const std::string& text) { return text; }
std::string Text(uint32_t number) { return std::to_string(number); }
std::string Text(const Place& place) {
  return (place.index ? std::to_string(*place.index) : "?") + " of " + (place.world ? std::to_string(*place.world) : "?");
}

template <class T>
struct Heard {
  Source source;
  Opinion<T> opinion;

  const Silent* silent() const { return std::get_if<Silent>(&opinion.says); }
  const Status* error() const { return std::get_if<Status>(&opinion.says); }
  const T* value() const { return std::get_if<T>(&opinion.says); }
};

// The words for a source that did not win; nullopt for one that is not there, and for the default, which is nobody.
template <class T>
std::optional<Other> OtherOf(const Heard<T>& heard) {
  using Kind = Other::Kind;
  const std::string& because = heard.opinion.because;
  if (heard.source == Source::kDefault) return std::nullopt;
  if (const Status* error = heard.error()) return Other{Kind::kMalformed, heard.source, because, error->message()};
  if (const T* value = heard.value()) return Other{Kind::kOutranked, heard.source, because, Text(*value)};
  if (heard.silent()->why.empty()) return std::nullopt;
  return Other{Kind::kSilent, heard.source, because, heard.silent()->why};
}

// The first that speaks, in the table's order, and words for all others. The last row always speaks.
template <class T>
Answer<T> Decide(const std::vector<Heard<T>>& heard, size_t winner) {
  const Heard<T>& won = heard[winner];
  Answer<T> answer{won.error() != nullptr ? Result<T>(*won.error()) : Result<T>(*won.value()), won.source, won.opinion.because, {}};
  for (size_t i = 0; i < heard.size(); ++i) {
    if (i == winner) continue;
    if (auto other = OtherOf(heard[i])) answer.others.push_back(std::move(*other));
  }
  return answer;
}

template <class T>
std::vector<Heard<T>> Hear(std::span<const Row<T>> rows, const Inputs& in) {
  std::vector<Heard<T>> heard;
  for (const Row<T>& row : rows) heard.push_back({row.source, row.ask(in)});
  return heard;
}

template <class T>
Answer<T> Ask(std::span<const Row<T>> rows, const Inputs& in) {
  const std::vector<Heard<T>> heard = Hear(rows, in);
  size_t winner = 0;
  while (heard[winner].silent() != nullptr) ++winner;
  return Decide(heard, winner);
}

// A place is whole when it has both halves and they fit. `alone` is a world size that a source before gave without an index.
Result<Rank> Complete(const Answer<Place>& answer, const Heard<Place>* alone) {
  PENSTOCK_ASSIGN(const Place place, answer.value);
  const std::string world_from = alone != nullptr ? alone->opinion.because : answer.because;
  const std::optional<uint32_t> world = alone != nullptr ? alone->value()->world : place.world;
  if (!world) {
    return Missing("PENSTOCK_WORLD_SIZE", answer.because + " gives this process the index " + std::to_string(*place.index) + " of an unknown number",
                   "set it to the number of ranks (an Indexed Job's spec.completions)");
  }
  if (answer.source == Source::kDefault && *world != 1) {
    return Malformed(world_from, std::to_string(*world), "a rank beside it: nothing says which of them this process is; set PENSTOCK_RANK");
  }
  if (place.world && *place.world != *world) {
    return Malformed(world_from, std::to_string(*world),
                     std::to_string(*place.world) + " as in " + answer.because + "; set both PENSTOCK_RANK and PENSTOCK_WORLD_SIZE, or neither");
  }
  if (*place.index >= *world) {
    return Malformed(answer.because, Text(Place{place.index, world}), "a rank less than the number of ranks");
  }
  return Rank{*place.index, *world};
}

Answer<Rank> AskRank(const Inputs& in) {
  const std::vector<Heard<Place>> heard = Hear<Place>(kRank, in);
  const Heard<Place>* alone = nullptr;
  size_t winner = 0;
  for (; heard[winner].error() == nullptr; ++winner) {
    const Place* place = heard[winner].value();
    if (place == nullptr) continue;
    if (place->index) break;
    if (alone == nullptr) alone = &heard[winner];
  }
  Answer<Place> answer = Decide(heard, winner);
  Result<Rank> rank = Complete(answer, alone);
  if (alone != nullptr && answer.value.ok()) {  // it did not lose: it is half of the answer
    answer.because += "; " + alone->opinion.because;
    std::erase_if(answer.others, [&](const Other& other) { return other.source == alone->source; });
  }
  return {std::move(rank), answer.source, std::move(answer.because), std::move(answer.others)};
}

// The role decides where nobody says: the dispatcher's port is known to all, a worker tells its own. What PENSTOCK_SERVICE names is the
// dispatcher's.
Answer<uint16_t> AskPort(const Inputs& in, const Answer<Role>& role) {
  std::vector<Heard<uint16_t>> heard = Hear<uint16_t>(kPort, in);
  const bool dispatcher = role.value.ok() && *role.value == Role::kDispatcher;
  if (!dispatcher) std::erase_if(heard, [](const Heard<uint16_t>& other) { return other.source == Source::kPenstock; });
  heard.push_back(
      {Source::kDefault, dispatcher ? Opinion<uint16_t>(kDefaultPort, "a dispatcher's") : Opinion<uint16_t>(uint16_t{0}, "any free one")});
  size_t winner = 0;
  while (heard[winner].silent() != nullptr) ++winner;
  return Decide(heard, winner);
}

}  // namespace

Report Examine(const Inputs& in) {
  Answer<Role> role = Ask<Role>(kRole, in);
  Answer<uint16_t> port = AskPort(in, role);
  return {
      .service = Ask<Service>(kService, in),
      .role = std::move(role),
      .rank = AskRank(in),
      .advertise = Ask<Address>(kAdvertise, in),
      .listen_port = std::move(port),
      .job = Ask<std::string>(kJob, in),
      .attempt = Ask<uint32_t>(kAttempt, in),
      .warnings = WarnOfVariables(in.environment),
  };
}

}  // namespace penstock::cluster
