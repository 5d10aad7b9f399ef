// How sessions come about: connect to an address, or listen on one.
//
// An address is "host:port", "[v6]:port" (port 0 to listen on any free one), "unix:/path", or "@name" for an abstract Unix socket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/constants.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/io_thread.h"
#include "wire/peer_limits.h"
#include "wire/session.h"

namespace penstock {

class SegmentTable;
class Tls;

// What a process shows to those it connects to, and asks of those who connect to it.
struct Credentials {
  std::string token{};               // "": none is shown or asked for
  std::shared_ptr<const Tls> tls{};  // null: plain
};

inline constexpr uint16_t kMinVersion = 1;  // of the protocol, that this build speaks
inline constexpr uint16_t kMaxVersion = 1;

// How often a session pings, and how long it waits for a sign of life.
struct Pace {
  Duration ping_every = kPingEvery;
  Duration silence = kSilence;
  Duration hello_within = kHelloWithin;
  Duration stalled = kProgressWithin;  // for one message to come in whole, for queued bytes to begin to leave
};

struct ConnectParams {
  std::string token{};
  std::shared_ptr<const Tls> tls{};  // over TCP; null: plain
  std::string role{};                // "consumer" | "worker" | "cli"
  std::string name{};                // host:pid, for people; "" for just that
  bool shared_memory = true;         // over a Unix socket: take blocks as shared memory
  Duration timeout = kHelloWithin;
  Pace pace{};
  uint16_t min_version = kMinVersion;
  uint16_t max_version = kMaxVersion;
};

// One attempt: resolves, connects, says hello. Calls `done` once, on the I/O thread, never inside the call: a session whose peer took the
// hello, or Unavailable (nobody there), Deadline, Permission (the token), Mismatch (the version), Invalid (the address). `handler` must live
// until the session's OnClosed, or until io is stopped. Any thread.
using Connected = std::function<void(Result<std::shared_ptr<Session>>)>;
void Connect(IoThread& io, const std::string& address, ConnectParams params, SessionHandler& handler, Connected done);

// The same, waiting for the outcome. Not from the I/O thread.
Result<std::shared_ptr<Session>> ConnectAndWait(IoThread& io, const std::string& address, ConnectParams params, SessionHandler& handler);

struct ListenParams {
  std::string address{};
  std::string token{};               // "": anybody may come; tokens derived from it (token.h) are good, too
  std::shared_ptr<const Tls> tls{};  // over TCP; null: plain
  PeerLimits limits{};
  std::string cluster{};  // the dispatcher's, for HelloReply
  Term term{};
  std::shared_ptr<SegmentTable> segments{};  // on a Unix socket: lend blocks to peers of the same uid; null: never
  Pace pace{};
  uint16_t min_version = kMinVersion;
  uint16_t max_version = kMaxVersion;
};

// Stops to listen when destroyed; sessions stay. Any thread, before its IoThread.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual const std::string& address() const = 0;  // with the port that was got
};

// Called on the I/O thread for each peer that said a good hello, before anything else about the session. `handler` must live until the
// OnClosed of every session, or until io is stopped.
using Accepted = std::function<void(std::shared_ptr<Session>)>;
Result<std::unique_ptr<Listener>> Listen(IoThread& io, ListenParams params, SessionHandler& handler, Accepted accepted);

}  // namespace penstock
