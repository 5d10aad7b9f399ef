// /healthz and /readyz, for probes (deploy/README.md).
//
// Liveness fails only where starting again would help: the server's I/O thread does not come to answer. Readiness says whether to send it work; a
// dispatcher's never waits for readers, because their names resolve only once they are ready, and they need the dispatcher's to become so. A worker's
// waits for the dispatcher once, and not again when that is away: consumers read on from the lanes they have, and find it by its name to open others.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "penstock/status.h"
#include "wire/http.h"

namespace penstock::cli {

class Health {
 public:
  struct State {
    bool alive = true;
    bool ready = false;
    std::string why;  // not
  };
  // Listens on `address`; where that is "", it does nothing; ":port" is of the address that the server `listens` on, so that servers of one host
  // that have addresses of their own have ports of their own too. Until Watch it is alive and not ready, for `before`.
  static Result<std::unique_ptr<Health>> Start(const std::string& address, const std::string& listens, std::string before);

  void Watch(std::function<State()> look);
  void Forget();  // before what Watch looks at goes

 private:
  explicit Health(std::string before) : before_(std::move(before)) {}
  HttpResponse Answer(const std::string& path);
  State Look();

  const std::string before_;
  std::mutex mutex_;
  std::function<State()> look_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace penstock::cli
