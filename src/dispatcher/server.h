// A running dispatcher: DispatcherCore on real sessions, with a store, on one I/O thread.
//
// What happens within a store tick is committed in one transaction, and only then answered. If a commit fails nothing is sent, the dispatcher
// stops, and Wait() says why.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/constants.h"
#include "penstock/status.h"
#include "wire/net.h"

namespace penstock::dispatcher {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";
  std::string state_dir{};           // "": state lives as long as the process
  std::string token{};               // "": anybody may come
  std::shared_ptr<const Tls> tls{};  // null: plain
  // Checks a plan beyond its structure and fingerprint (engine/pipeline.h CheckPlan). Empty: structure only.
  std::function<Status(std::string_view plan)> check_plan{};
  // Without a worker for so long a join is answered with Unavailable. How long to ask again is the consumer's own deadline, and so it knows why.
  Duration worker_deadline = std::chrono::milliseconds(250);
  Duration store_tick = kStoreTick;
  Duration exit_when_done{0};  // ends when jobs were read and none was for so long; 0: never
  Pace pace{};
};

class DispatcherServer {
 public:
  static Result<std::unique_ptr<DispatcherServer>> Start(ServerOptions options);
  ~DispatcherServer();  // stops

  const std::string& address() const;  // with the port that was got
  const std::string& cluster() const;
  // Commits what was taken in, then closes. Idempotent; any thread but its own.
  void Stop();
  // Until Stop, until all is done, or until the store failed: then the reason.
  Status Wait();
  // Whether its I/O thread answers in time: liveness.
  bool Alive(Duration within) const;

 private:
  class Impl;
  explicit DispatcherServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::dispatcher
