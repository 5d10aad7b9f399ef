// A session to the dispatcher that comes back by itself: a client's and a worker's. I/O thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/io_thread.h"
#include "wire/net.h"
#include "wire/session.h"

namespace penstock {

// Whom a process talks to. Shared by all its links: an older term than any of them saw, or another cluster, is refused.
struct ServiceIdentity {
  std::string cluster;  // "" until the first hello
  Term term{};
  // Takes the newer term, or says why not: Mismatch for another cluster, Unavailable for an older term, which may be on its way out.
  Status Accept(const msg::HelloReply& reply, const std::string& address);
};

class DispatcherLink final : public ControlHandler, public std::enable_shared_from_this<DispatcherLink>, private IoResident {
 public:
  struct Handler {
    std::function<void()> up;
    std::function<void(const Status&)> down;       // once a loss, and for each attempt that failed; tried again after a pause
    std::function<void(const Status&)> refused;    // token, version, another cluster: tried again only after Start
    std::function<void(RequestId, Message)> said;  // not as an answer
  };
  ~DispatcherLink() override;
  static std::shared_ptr<DispatcherLink> Make(IoThread& io, std::string address, ConnectParams params, std::shared_ptr<ServiceIdentity> identity,
                                              Handler handler);

  void Start();
  // No handler is called after this.
  void Stop();
  // `answer` is called once, never inside the call; Unavailable where the link is down, or the session ended before the answer.
  void Request(Message message, Duration deadline, Session::Answer answer);
  void Tell(Message message);  // wants no answer; lost where the link is down
  // Dropped where the session that asked is gone.
  void Reply(SessionId asked_on, RequestId request, Message message);
  SessionId session() const { return session_ == nullptr ? SessionId{} : session_->id(); }

  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override;
  void OnClosed(Session& session, const Status& why) override;

 private:
  DispatcherLink(IoThread& io, std::string address, ConnectParams params, std::shared_ptr<ServiceIdentity> identity, Handler handler);
  void OnIoStop() override;
  void OnConnected(Result<std::shared_ptr<Session>> outcome);
  void Down(const Status& why);

  IoThread& io_;
  const std::string address_;
  const ConnectParams params_;
  const std::shared_ptr<ServiceIdentity> identity_;
  Handler handler_;
  Timer timer_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<DispatcherLink> self_;  // while a session may call back
  uint32_t failures_ = 0;
  bool stopped_ = false;
  bool resident_ = false;
};

// Trying again would not help: token, version, another cluster.
bool IsPermanent(Code code);
// "cannot reach the dispatcher at A: …", and what to look at; "the dispatcher at A: …" where it was reached, and is not to be spoken to: a token,
// certificate or version that is refused, by either side, says itself what to do. Said once, however often this is asked.
Status Unreachable(const std::string& address, const Status& why);

}  // namespace penstock
