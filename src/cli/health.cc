#include "cli/health.h"

#include <variant>

#include "base/log.h"
#include "wire/address.h"

namespace penstock::cli {

namespace {

// The host that `listens` names before `address`, which is ":port"; a Unix socket has none, and loopback is as near.
Result<std::string> BesideServer(const std::string& address, const std::string& listens) {
  PENSTOCK_ASSIGN(const penstock::Address server, ParseAddress(listens));
  const auto* tcp = std::get_if<TcpAddress>(&server);
  const std::string host = tcp == nullptr ? "127.0.0.1" : tcp->host;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + address;
}

}  // namespace

Result<std::unique_ptr<Health>> Health::Start(const std::string& address, const std::string& listens, std::string before) {
  std::unique_ptr<Health> health(new Health(std::move(before)));
  if (address.empty()) return health;
  std::string where = address;
  if (address.starts_with(':')) {
    PENSTOCK_ASSIGN(where, BesideServer(address, listens));
  }
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
