// A worker on real sockets and threads: one I/O thread with the core, a pool for the lanes.
//
// Listens on TCP and, where blocks may be lent, on an abstract Unix socket; keeps a session with the dispatcher and reconnects when it breaks.
// Lanes that are open go on while the dispatcher is away.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "penstock/status.h"
#include "worker/core.h"

namespace penstock {
class Tls;
}

namespace penstock::worker {

class WorkerServer {
 public:
  struct Options {
    std::string dispatcher;  // "host:port" or "unix:/path"
    std::string listen = "127.0.0.1:0";
    std::string advertise;  // "": what it listens on
    uint64_t memory = 0;    // bytes of blocks and operators' state
    uint32_t cpus = 0;      // threads of the pool; 0: as many as there are
    std::string token;
    std::shared_ptr<const Tls> tls{};                 // null: plain
    bool shm = true;                                  // lend blocks to consumers on this host
    bool allow_code = false;                          // run user code of plans, in executors
    Duration code_timeout = std::chrono::minutes(5);  // for user code to give the next rows
    uint64_t code_memory = 0;                         // bytes of one executor; 0: a share of what blocks leave
    Duration drain_timeout = std::chrono::seconds(30);
    Duration exit_when_done{0};  // drains when the dispatcher says that all is done, or is away for so long and no lane is open
    Duration start_timeout = std::chrono::minutes(10);  // for the dispatcher to be there: servers are started in any order, and images take minutes
  };

  // Returns when the dispatcher has welcomed it. Fails with Invalid (an option, an address in use), Permission (the token), Mismatch (the
  // version) or Unavailable (no dispatcher within start_timeout).
  static Result<std::unique_ptr<WorkerServer>> Start(Options options);
  ~WorkerServer();  // Stop

  const std::string& address() const;  // as advertised
  // Tells the consumers, takes no new lanes, finishes the open ones; Wait returns then, or after drain_timeout. Any thread; idempotent.
  void Drain();
  // At once. Any thread but its own; idempotent.
  void Stop();
  void Wait();                        // until drained or stopped
  CoreStats stats() const;            // any thread but its own; all zero after Stop
  bool Alive(Duration within) const;  // whether its I/O thread answers in time: liveness

 private:
  class Impl;
  explicit WorkerServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::worker
