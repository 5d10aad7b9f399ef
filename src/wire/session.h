// One connection to a peer, after hello: frames in, frames out. TCP or Unix socket, with blocks beside the frames where both share a host.
//
// Everything here runs on the io_context's one thread (engine.md 4); nothing locks. Handlers are called on that thread, never from inside a
// call of Send, Request, Reply or Close. A session pings each second; a peer that breaks off or is silent for three is closed with the reason.
// A session lives until its OnClosed has returned, and as long as somebody holds it; after that what it is given to send is dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/constants.h"
#include "base/extent.h"
#include "penstock/status.h"
#include "wire/link_use.h"
#include "wire/messages.h"

namespace penstock {

enum class SessionId : uint64_t {};  // unique in this process
enum class RequestId : uint64_t {};  // 0: not a request
enum class StreamId : uint32_t {};   // an open lane on one session; 0: the session itself

// How a block goes to the peer: in shared memory where there is some, or always written to the socket.
enum class Handover : uint8_t { kLend, kCopy };

// What is between the two ends: a Unix socket; TCP, which does not leave the host; a network.
enum class Reach : uint8_t { kUnixSocket, kSameHost, kNetwork };

class Session;

// Who acts on what a peer says.
class SessionHandler {
 public:
  virtual ~SessionHandler() = default;
  // request != 0: the peer waits for Reply(request, …).
  virtual void OnMessage(Session& session, StreamId stream, RequestId request, Message message) = 0;
  // Memory for a block that comes over the socket: at least `bytes`, or an empty extent for one that nobody wants any more: it is read over, and
  // OnBlock does not follow. An error closes the session: the peer sent more than its credit.
  virtual Result<Extent> OnBlockComing(Session& session, StreamId stream, uint64_t bytes) = 0;
  // A whole block, over the socket, where it took `on_wire` bytes, or in shared memory (0). Unchecked: CheckBlock comes next.
  virtual void OnBlock(Session& session, StreamId stream, Extent block, uint64_t on_wire) = 0;
  // The last call for this session.
  virtual void OnClosed(Session& session, const Status& why) = 0;
};

// A handler for peers that never send blocks (the dispatcher's side, the CLI).
class ControlHandler : public SessionHandler {
 public:
  Result<Extent> OnBlockComing(Session& session, StreamId stream, uint64_t bytes) override;
  void OnBlock(Session& session, StreamId stream, Extent block, uint64_t on_wire) override;
};

class Session {
 public:
  using Answer = std::function<void(Result<Message>)>;  // a Failed reply arrives as its Status
  virtual ~Session() = default;

  virtual SessionId id() const = 0;
  virtual const msg::Hello& peer_hello() const = 0;        // on the accepting side
  virtual const msg::HelloReply& hello_reply() const = 0;  // on the connecting side
  virtual bool shares_memory() const = 0;
  virtual Reach reach() const = 0;                  // on the accepting side
  virtual const std::string& peer() const = 0;      // address, for logs
  virtual const std::string& only_job() const = 0;  // on the accepting side: the one job that the peer's token is for; "": any
  virtual bool may_serve() const = 0;               // on the accepting side: its token is not one of those for who reads

  virtual void Send(StreamId stream, Message message) = 0;
  // Calls `answer` exactly once: the reply, Deadline, or why the session closed.
  virtual void Request(Message message, Duration deadline, Answer answer) = 0;
  virtual void Reply(RequestId request, Message message) = 0;
  // The extent goes home when it was written, or when the peer let go of it. If the session ends while it is on loan, its segment is retired,
  // never reused.
  // A block that is packed goes so, also over a Unix socket: to a peer that said that it unpacks (Open.compression).
  // What it takes on the socket: nothing where it was lent.
  virtual uint64_t SendBlock(StreamId stream, Extent block, Handover how) = 0;
  // Nobody wants what comes of this stream: a block of it that is half here is let go of.
  virtual void Skip(StreamId stream) = 0;
  virtual uint64_t unsent_bytes() const = 0;  // accepted and not written yet
  virtual LinkUse link_use() const = 0;       // nothing, once it is closed
  virtual void Close(Status why) = 0;         // OnClosed follows
};

}  // namespace penstock
