#include "cli/health.h"

#include <variant>

#include "base/log.h"
#include "wire/address.h"
#include "wire/socket.h"

namespace penstock::cli {

namespace {

// The host that `listens` names before `address`, which is ":port"; a Unix socket has none, and loopback is as near.
Result<std::string> BesideServer(const std::string& address, const std::string& listens) {
  PENSTOCK_ASSIGN(const penstock::Address server, ParseAddress(listens));
  const auto* tcp = std::get_if<TcpAddress>(&server);
  const std::string host = tcp == nullptr ? "127.0.0.1" : tcp->host;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + address;
}

uint16_t PortOf(const penstock::Address& address) {
  const auto* tcp = std::get_if<TcpAddress>(&address);
  return tcp == nullptr ? 0 : tcp->port;
}

// Which names and wildcards mean one address only the kernel knows: both are tried at once. One that somebody else has is not told of here, since he
// may be gone in a moment.
Status CheckApart(const std::string& http, const std::string& listens) {
  PENSTOCK_ASSIGN(const penstock::Address probes, ParseAddress(http));
  PENSTOCK_ASSIGN(const penstock::Address server, ParseAddress(listens));
  if (PortOf(server) == 0 || PortOf(server) != PortOf(probes)) return {};
  const auto first = ListenOn(server);
  if (!first.ok()) return {};
  if (const auto second = ListenOn(probes); second.ok() || second.status().code() != Code::kBusy) return {};
  return Status(Code::kInvalid, "--http " + http + " and --listen " + listens +
                                    " (or what the environment says of it) are one address, and each needs its own: give --http another port");
}

}  // namespace

Result<std::unique_ptr<Health>> Health::Start(const std::string& address, const std::string& listens, std::string before) {
  std::unique_ptr<Health> health(new Health(std::move(before)));
  if (address.empty()) return health;
  std::string where = address;
  if (address.starts_with(':')) {
    PENSTOCK_ASSIGN(where, BesideServer(address, listens));
  }
  PENSTOCK_TRY(CheckApart(where, listens));
  auto server = HttpServer::Start(where, [raw = health.get()](const std::string& path) { return raw->Answer(path); });
  if (!server.ok()) return server.status().Prefixed("--http");
  health->server_ = std::move(*server);
  LogInfo("http.up", {{"address", health->server_->address()}});
  return health;
}

void Health::Watch(std::function<State()> look) {
  const std::lock_guard lock(mutex_);
  look_ = std::move(look);
}

void Health::Forget() { Watch({}); }

Health::State Health::Look() {
  const std::lock_guard lock(mutex_);
  return look_ ? look_() : State{.alive = true, .ready = false, .why = before_};
}

HttpResponse Health::Answer(const std::string& path) {
  if (path != "/healthz" && path != "/readyz") return {404, "there are /healthz and /readyz\n"};
  const State state = Look();
  if (!state.alive) return {503, "the I/O thread does not answer\n"};
  if (path == "/readyz" && !state.ready) return {503, state.why + "\n"};
  return {200, "ok\n"};
}

}  // namespace penstock::cli
