#include "cluster/describe.h"

#include <nlohmann/json.hpp>

namespace penstock::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumn = 12;

std::string Text(const Service& service) { return ToString(service); }
std::string Text(const Address& address) { return ToString(address); }
std::string Text(Role role) { return std::string(Name(role)); }
std::string Text(const Rank& rank) { return ToString(rank); }
std::string Text(const std::string& job) { return job.empty() ? "anonymous" : job; }
std::string Text(uint32_t number) { return std::to_string(number); }

std::string_view Name(Other::Kind kind) {
  switch (kind) {
    case Other::Kind::kOutranked: return "outranked";
    case Other::Kind::kMalformed: return "outranked, malformed";
    case Other::Kind::kSilent: return "silent";
  }
  return "unknown";
}

std::string Padded(std::string_view text) {
  std::string padded(text);
  padded.resize(std::max(padded.size() + 1, kColumn), ' ');
  return padded;
}

std::string Parenthesised(const std::string& because) { return because.empty() ? "" : " (" + because + ")"; }

template <class T>
std::string Lines(std::string_view question, const Answer<T>& answer) {
  const std::string indent(kColumn, ' ');
  std::string text = Padded(question);
  text += answer.value.ok() ? Text(*answer.value) : "error: " + answer.value.status().message();
  text += "\n" + indent + "from " + std::string(Name(answer.source)) + Parenthesised(answer.because) + "\n";
  for (const Other& other : answer.others) {
    text += indent + std::string(Name(other.kind)) + ": " + std::string(Name(other.source)) + ": " + other.says + Parenthesised(other.because) + "\n";
  }
  return text;
}

template <class T>
Json ValueOf(const T& value) {
  return Text(value);
}
Json ValueOf(const Rank& rank) { return {{"rank", rank.rank}, {"world", rank.world}}; }
Json ValueOf(const std::string& job) { return job; }
Json ValueOf(uint16_t port) { return port; }
Json ValueOf(uint32_t attempt) { return attempt; }

template <class T>
Json ObjectOf(const Answer<T>& answer) {
  Json object;
  if (answer.value.ok()) {
    object["value"] = ValueOf(*answer.value);
  } else {
    object["error"] = answer.value.status().message();
  }
  object["source"] = Name(answer.source);
  object["because"] = answer.because;
  object["others"] = Json::array();
  for (const Other& other : answer.others) {
    object["others"].push_back({{"kind", Name(other.kind)}, {"source", Name(other.source)}, {"because", other.because}, {"says", other.says}});
  }
  return object;
}

// One rank alone shares its job with nobody: a name that only the platform gives is used where a program asks for one, as penstock.dds does.
bool ReadsAlone(const Report& report) {
  const bool derived =
      report.job.source != Source::kArgument && report.job.source != Source::kPenstock && report.job.value.ok() && !report.job.value.value().empty();
  return derived && report.rank.value.ok() && report.rank.value.value().world == 1;
}

std::string JobLines(const Report& report) {
  Answer<std::string> job = report.job;
  if (ReadsAlone(report)) job.value = "anonymous: one rank shares it with nobody (in penstock.dds " + *job.value + ")";
  return Lines("job", job);
}

Json JobObject(const Report& report) {
  Json object = ObjectOf(report.job);
  if (ReadsAlone(report)) {
    object["dds"] = object["value"];
    object["value"] = "";
  }
  return object;
}

// In words, whether this process would join a training job by itself.
std::string Joins(const Answer<Role>& role) {
  if (!role.value.ok()) return "unknown: the role is an error";
  switch (*role.value) {
    case Role::kTrainer: return "yes";
    case Role::kEvaluator: return "no: an evaluator would take rows from the ranks; it reads on its own";
    case Role::kParameterServer: return "no: a parameter server reads nothing";
    case Role::kDispatcher:
    case Role::kWorker: return "no: a server serves";
  }
  return "unknown";
}

}  // namespace

std::string Describe(const Report& report) {
  const bool server = report.role.value.ok() && (*report.role.value == Role::kDispatcher || *report.role.value == Role::kWorker);
  std::string text = Lines("service", report.service) + Lines("role", report.role);
  text += Padded("joins") + Joins(report.role) + "\n";
  if (server) {
    text += Lines("advertise", report.advertise) + Lines("port", report.listen_port);
  } else {
    text += Lines("rank", report.rank) + JobLines(report) + Lines("attempt", report.attempt);
  }
  for (const std::string& warning : report.warnings) text += Padded("warning") + warning + "\n";
  return text;
}

std::string DescribeJson(const Report& report) {
  const Json object = {
      {"service", ObjectOf(report.service)},
      {"role", ObjectOf(report.role)},
      {"joins_training", report.role.value.ok() && JoinsTraining(*report.role.value)},
      {"rank", ObjectOf(report.rank)},
      {"advertise", ObjectOf(report.advertise)},
      {"listen_port", ObjectOf(report.listen_port)},
      {"job", JobObject(report)},
      {"attempt", ObjectOf(report.attempt)},
      {"warnings", report.warnings},
  };
  return object.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace penstock::cluster
