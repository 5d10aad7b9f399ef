// The worker's session with the dispatcher, that comes back by itself. I/O thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "penstock/status.h"
#include "wire/io_thread.h"
#include "wire/net.h"
#include "wire/session.h"

namespace penstock::worker {

class DispatcherLink final : public ControlHandler {
 public:
  struct Handler {
    std::function<void()> up;
    std::function<void(const Status&)> down;       // an attempt that failed, or the session's end; tried again after a pause
    std::function<void(RequestId, Message)> said;  // not as an answer
  };
  // `io` outlives it, and is stopped before it goes.
  DispatcherLink(IoThread& io, std::string address, ConnectParams params, Handler handler);

  void Start();
  // `answer` is called once, never inside the call; Unavailable where the link is down.
  void Request(Message message, Duration deadline, Session::Answer answer);
  // Dropped where the session that asked is gone.
  void Reply(SessionId asked_on, RequestId request, Message message);
  SessionId session() const { return session_ == nullptr ? SessionId{} : session_->id(); }

  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override;
  void OnClosed(Session& session, const Status& why) override;

 private:
  void Attempt();
  void OnConnected(Result<std::shared_ptr<Session>> outcome);
  void Down(const Status& why);

  IoThread& io_;
  const std::string address_;
  const ConnectParams params_;
  const Handler handler_;
  Timer timer_;
  Duration pause_{};
  std::shared_ptr<Session> session_;
};

}  // namespace penstock::worker
