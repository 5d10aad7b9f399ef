#include "cluster/parse.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "base/constants.h"
#include "base/name.h"
#include "base/nearest.h"

namespace penstock::cluster {
namespace {

constexpr size_t kShownBytes = 120;
constexpr size_t kMaxHostBytes = 253;
constexpr size_t kMaxSocketPathBytes = 107;  // sockaddr_un

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlnum(char c) { return IsDigit(c) || (Lower(c) >= 'a' && Lower(c) <= 'z'); }

bool IsIpv6(std::string_view text) {
  return std::count(text.begin(), text.end(), ':') >= 2 &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsAlnum(c) || c == ':' || c == '.' || c == '%'; });
}

std::optional<uint16_t> ToPort(std::string_view text) {
  const std::optional<uint32_t> number = ToNumber(text);
  if (!number || *number > 65'535) return std::nullopt;
  return static_cast<uint16_t>(*number);
}

bool IsIpv6Exactly(const std::string& text) {
  in6_addr ignored{};
  return inet_pton(AF_INET6, text.c_str(), &ignored) == 1;
}

// "::1:5050", which is an address as a whole, and was hardly meant as one.
Status Unbracketed(std::string_view name, std::string_view value, const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string before = address.substr(0, colon);
  const bool has_port = IsIpv6Exactly(before) && ToPort(address.substr(colon + 1));
  const std::string meant = has_port ? "[" + before + "]" + address.substr(colon) : "[" + address + "]:" + std::to_string(kDefaultPort);
  return Malformed(name, value, "an IPv6 address in brackets, and the port after them: " + meant);
}

struct RoleName {
  std::string_view name;
  Role role;
};
// What penstock calls them, and what the platforms' words mean where they are clear.
constexpr std::array kRoles = {
    RoleName{"trainer", Role::kTrainer},
    RoleName{"dispatcher", Role::kDispatcher},
    RoleName{"worker", Role::kWorker},
    RoleName{"evaluator", Role::kEvaluator},
    RoleName{"ps", Role::kParameterServer},
    RoleName{"reader", Role::kWorker},
    RoleName{"datasetdispatcher", Role::kDispatcher},
    RoleName{"datasetworker", Role::kWorker},
    RoleName{"parameterserver", Role::kParameterServer},
};
constexpr std::array kReplicaTypes = {
    RoleName{"chief", Role::kTrainer},         RoleName{"master", Role::kTrainer},
    RoleName{"worker", Role::kTrainer},        RoleName{"evaluator", Role::kEvaluator},
    RoleName{"ps", Role::kParameterServer},    RoleName{"datasetdispatcher", Role::kDispatcher},
    RoleName{"datasetworker", Role::kWorker},  RoleName{"trainer", Role::kTrainer},
    RoleName{"node", Role::kTrainer},          RoleName{"parameterserver", Role::kParameterServer},
    RoleName{"dispatcher", Role::kDispatcher}, RoleName{"reader", Role::kWorker},
};

std::optional<Role> Lookup(std::span<const RoleName> names, std::string_view value) {
  for (const RoleName& entry : names) {
    if (SameName(entry.name, value)) return entry.role;
  }
  return std::nullopt;
}

Result<Service> ParseLocal(std::string_view name, std::string_view value) {
  if (value == "local") return Service(LocalService{});
  const std::optional<uint32_t> workers = ToNumber(value.substr(std::string_view("local:").size()));
  if (!workers || *workers == 0 || *workers > kMaxLocalWorkers) {
    return Malformed(name, value, "local:N with N workers from 1 to " + std::to_string(kMaxLocalWorkers));
  }
  return Service(LocalService{*workers});
}

Result<Service> ParseUnix(std::string_view name, std::string_view value) {
  const std::string_view path = value.substr(std::string_view("unix:").size());
  if (path.empty() || path.front() != '/' || path.size() > kMaxSocketPathBytes) {
    return Malformed(name, value, "unix:/path, the path absolute and of at most " + std::to_string(kMaxSocketPathBytes) + " bytes");
  }
  return Service(UnixService{std::string(path)});
}

Status NoServiceNamed(std::string_view name, std::string_view value) {
  constexpr std::array<std::string_view, 3> kWords = {"inline", "off", "local"};
  const std::string_view nearest = Nearest(value, kWords);
  const std::string hint = nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?";
  return Malformed(name, value, "penstock://host:port, unix:/path, local:N, inline or off" + hint);
}

}  // namespace

const std::string* Find(const Environment& environment, std::string_view name) {
  const auto it = environment.find(std::string(name));
  return it == environment.end() || it->second.empty() ? nullptr : &it->second;
}

Status Malformed(std::string_view name, std::string_view value, std::string_view expected) {
  std::string shown(value.substr(0, kShownBytes));
  if (value.size() > kShownBytes) shown += "… (" + std::to_string(value.size()) + " bytes)";
  return Status(Code::kInvalid, std::string(name) + " is '" + shown + "'; expected " + std::string(expected))
      .With("variable", std::string(name))
      .With("value", shown);
}

Status Missing(std::string_view name, std::string_view why, std::string_view remedy) {
  return Status(Code::kInvalid, std::string(name) + " is not set, though " + std::string(why) + "; " + std::string(remedy))
      .With("variable", std::string(name))
      .With("value", "");
}

std::optional<uint32_t> ToNumber(std::string_view digits) {
  uint32_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (digits.empty() || error != std::errc() || stop != end) return std::nullopt;
  return number;
}

Result<std::optional<uint32_t>> FindNumber(const Environment& environment, std::string_view name) {
  const std::string* text = Find(environment, name);
  if (text == nullptr) return std::optional<uint32_t>();
  const std::optional<uint32_t> number = ToNumber(*text);
  if (!number) return Malformed(name, *text, "a number from 0");
  return number;
}

std::string Folded(std::string_view name) {
  std::string folded;
  for (char c : name) {
    if (c != '-' && c != '_') folded += Lower(c);
  }
  return folded;
}

bool SameName(std::string_view a, std::string_view b) { return Folded(a) == Folded(b); }

bool IsHost(std::string_view text) {
  if (text.empty() || text.size() > kMaxHostBytes) return false;
  if (IsIpv6(text)) return true;
  return IsAlnum(text.front()) && std::all_of(text.begin(), text.end(), [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

Result<Address> ParseAddress(std::string_view name, std::string_view value, uint16_t default_port) {
  constexpr std::string_view kExpected = "host:port, the port from 0 to 65535 (an IPv6 address in brackets)";
  std::string_view host = value;
  std::string_view port;
  if (default_port != 0 && IsIpv6(value)) return Unbracketed(name, value, std::string(value));
  if (value.starts_with('[')) {
    const size_t close = value.find(']');
    if (close == std::string_view::npos) return Malformed(name, value, kExpected);
    host = value.substr(1, close - 1);
    port = value.substr(close + 1);
    if (!IsIpv6(host) || (!port.empty() && port.front() != ':')) return Malformed(name, value, kExpected);
  } else if (!IsIpv6(value)) {
    const size_t colon = std::min(value.find(':'), value.size());
    host = value.substr(0, colon);
    port = value.substr(colon);
  }
  if (!IsHost(host)) return Malformed(name, value, kExpected);
  if (port.empty()) return Address{std::string(host), default_port};
  const std::optional<uint16_t> number = ToPort(port.substr(1));
  if (!number) return Malformed(name, value, kExpected);
  return Address{std::string(host), *number};
}

Result<Service> ParseService(std::string_view name, std::string_view value) {
  if (value == "inline") return Service(InlineService{});
  if (value == "off") return Service(OffService{});
  if (value == "local" || value.starts_with("local:")) return ParseLocal(name, value);
  if (value.starts_with("unix:")) return ParseUnix(name, value);
  std::string_view rest = value;
  for (std::string_view scheme : {"penstock://", "grpc://"}) {
    if (rest.starts_with(scheme)) {
      rest.remove_prefix(scheme.size());
      break;
    }
  }
  if (IsIpv6Exactly(std::string(rest))) return Unbracketed(name, value, std::string(rest));
  const Result<Address> address = ParseAddress(name, rest, kDefaultPort);
  // A bare word is more likely a misspelt "inline" than a host: a host without a port needs its scheme.
  const bool bare = rest.size() == value.size() && rest.find_first_of(":.") == std::string_view::npos;
  if (!address.ok() || address->port == 0 || bare) return NoServiceNamed(name, value);
  return Service(*address);
}

Result<Role> ParseRole(std::string_view name, std::string_view value) {
  if (const std::optional<Role> role = Lookup(kRoles, value)) return *role;
  return Malformed(name, value, "trainer, dispatcher, worker (a reader), evaluator or ps");
}

Result<Role> ParseReplicaType(std::string_view name, std::string_view value) {
  if (const std::optional<Role> role = Lookup(kReplicaTypes, value)) return *role;
  return Malformed(name, value,
                   "chief, master, worker, evaluator, ps, datasetdispatcher or datasetworker; for another type set PENSTOCK_ROLE to what it does");
}

Result<std::string> ParseJob(std::string_view name, std::string_view value) {
  if (!IsName(value)) return Malformed(name, value, "1 to " + std::to_string(kMostNameBytes) + " bytes without control characters");
  return std::string(value);
}

}  // namespace penstock::cluster
