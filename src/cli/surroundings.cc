#include "cli/surroundings.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>
#include <variant>

#include "base/log.h"

namespace penstock::cli {
namespace {

cluster::Answer<cluster::Service> Service(const std::string& flag) {
  return ExamineSurroundings({.service = flag.empty() ? std::nullopt : std::optional(flag)}).service;
}

}  // namespace

cluster::Report ExamineSurroundings(cluster::Arguments arguments) {
  std::array<char, 256> hostname{};
  gethostname(hostname.data(), hostname.size() - 1);
  return cluster::Examine({.environment = cluster::CurrentEnvironment(), .arguments = std::move(arguments), .facts = {.hostname = hostname.data()}});
}

void LogWarnings(const cluster::Report& report) {
  for (const std::string& warning : report.warnings) LogWarn("environment", {{"what", warning}});
}

std::string Variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  if (value != nullptr && *value != '\0') return value;
  return otherwise == nullptr ? "" : Variable(otherwise);
}

Result<std::string> ServiceAddress(const std::string& flag) {
  const auto answer = Service(flag);
  PENSTOCK_ASSIGN(const cluster::Service service, answer.value);
  if (const auto* address = std::get_if<cluster::Address>(&service)) return cluster::ToString(*address);
  if (const auto* local = std::get_if<cluster::UnixService>(&service)) return "unix:" + local->path;
  if (std::holds_alternative<cluster::NoService>(service)) {
    return Status(Code::kInvalid,
                  "no service is named: give --dispatcher HOST:PORT, or set PENSTOCK_SERVICE (`penstock doctor --env` says what was looked at)");
  }
  return Status(Code::kInvalid,
                answer.because + " names the service '" + cluster::ToString(service) + "', which has no address: give --dispatcher HOST:PORT");
}

bool HasService(const std::string& flag) {
  const auto answer = Service(flag);
  if (!answer.value.ok()) return true;  // whoever asks for its address gets the error
  return std::holds_alternative<cluster::Address>(*answer.value) || std::holds_alternative<cluster::UnixService>(*answer.value);
}

}  // namespace penstock::cli
