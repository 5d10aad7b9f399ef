// A session to the dispatcher that comes back by itself. I/O thread only.
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

// Whom a client talks to. Shared by all its links: an older term than any of them saw, or another cluster, is refused.
struct ServiceIdentity {
  std::string cluster;  // "" until the first hello
  Term term{};
  // Takes the newer term, or says why not.
  Status Accept(const msg::HelloReply& reply, const std::string& address);
};

class DispatcherLink final : public ControlHandler, public std::enable_shared_from_this<DispatcherLink> {
 public:
  struct Handler {
    std::function<void()> up;
    std::function<void(const Status&)> down;     // once a loss, and for each attempt that failed; tried again after a pause
    std::function<void(const Status&)> refused;  // permanent: token, version, another cluster
    std::function<void(Message)> said;           // not as an answer
  };
  static std::shared_ptr<DispatcherLink> Make(IoThread& io, std::string address, ConnectParams params, std::shared_ptr<ServiceIdentity> identity,
                                              Handler handler);

  void Start();
  // No handler is called after this.
  void Stop();
  // Unavailable where the link is down, or the session ended before the answer.
  void Request(Message message, Duration deadline, Session::Answer answer);

  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override;
  void OnClosed(Session& session, const Status& why) override;

 private:
  DispatcherLink(IoThread& io, std::string address, ConnectParams params, std::shared_ptr<ServiceIdentity> identity, Handler handler);
  void Attempt();
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
};

// "cannot reach the dispatcher at A: …", and what to look at.
Status Unreachable(const std::string& address, const Status& why);
// The service's name as users write it -> an address of net.h.
Result<std::string> ServiceAddress(const std::string& service);

}  // namespace penstock
