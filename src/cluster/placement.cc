#include "cluster/placement.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

namespace penstock::cluster {
namespace {

constexpr const char* kEverywhere = "0.0.0.0";
constexpr const char* kHere = "127.0.0.1";

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Found Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_PASSIVE;  // as who listens there asks: "*" is every address then, and loopback else
  addrinfo* found = nullptr;
  if (host.empty() || getaddrinfo(host.c_str(), "0", &hints, &found) != 0) found = nullptr;
  return {found, freeaddrinfo};
}

bool LeadsBack(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr) >> 24 == 127;
  }
  return address.ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

bool CanBind(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = bind(fd, address.ai_addr, address.ai_addrlen) == 0;
  close(fd);
  return bound;
}

// The name by which others look for this server; "" where there is none.
std::string OwnHost(const Report& report) {
  const bool dispatcher = *report.role.value == Role::kDispatcher && report.service.value.ok();
  const auto* service = dispatcher ? std::get_if<Address>(&*report.service.value) : nullptr;
  const bool platform_says = report.advertise.source != Source::kArgument && report.advertise.source != Source::kPenstock;
  if (service != nullptr && report.service.source == Source::kPenstock && platform_says) return service->host;  // a person's word goes before
  if (report.advertise.value.ok() && report.advertise.source != Source::kDefault) return report.advertise.value.value().host;
  return service == nullptr ? std::string() : service->host;
}

// Where a dispatcher is looked for by a socket of this machine.
const UnixService* OwnSocket(const Report& report) {
  if (*report.role.value != Role::kDispatcher || !report.service.value.ok()) return nullptr;
  return std::get_if<UnixService>(&*report.service.value);
}

// The dispatcher is on another machine: so are those who read.
bool IsElsewhere(const Answer<Service>& service, const IsLocal& is_local) {
  const auto* address = service.value.ok() ? std::get_if<Address>(&*service.value) : nullptr;
  return address != nullptr && !IsLoopback(address->host) && !is_local(address->host);
}

}  // namespace

bool IsLoopback(const std::string& host) {
  const auto found = Resolve(host);  // also of a name like 127.example.com, which may be any machine's
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    if (!LeadsBack(*at)) return false;
  }
  return found != nullptr;
}

bool IsLocalHost(const std::string& host) {
  if (IsLoopback(host)) return true;
  const auto found = Resolve(host);
  return found != nullptr && CanBind(*found);
}

Result<Placement> PlaceServer(const Report& report, const std::string& listen, const IsLocal& is_local) {
  PENSTOCK_TRY(report.role.value);
  if (!listen.empty() && *report.role.value == Role::kDispatcher) return Placement{listen, ""};
  PENSTOCK_TRY(report.advertise.value);
  const bool named = report.advertise.source != Source::kDefault;
  if (!listen.empty()) return Placement{listen, named ? ToString(*report.advertise.value) : ""};
  if (const UnixService* socket = OwnSocket(report)) return Placement{"unix:" + socket->path, ""};
  PENSTOCK_ASSIGN(const uint16_t port, report.listen_port.value);
  const std::string own = OwnHost(report);
  if (own.empty()) {
    const bool alone = *report.role.value == Role::kDispatcher || !IsElsewhere(report.service, is_local);
    const Address bound{alone ? kHere : kEverywhere, port};
    return Placement{ToString(bound) + (port == 0 ? ":0" : ""), alone ? "" : ToString(*report.advertise.value)};
  }
  // The port others were told is the one to listen on.
  const uint16_t told = port == 0 && named ? report.advertise.value.value().port : port;
  const Address bound{is_local(own) ? own : kEverywhere, told};
  return Placement{ToString(bound) + (told == 0 ? ":0" : ""), named ? ToString(*report.advertise.value) : own};
}

}  // namespace penstock::cluster
