#include "worker/dispatcher_link.h"

#include <algorithm>
#include <utility>

namespace penstock::worker {
namespace {

// A dispatcher that is just starting, or starts again, is found within milliseconds; one that is away is not hammered.
constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::seconds(1);

}  // namespace

DispatcherLink::DispatcherLink(IoThread& io, std::string address, ConnectParams params, Handler handler)
    : io_(io), address_(std::move(address)), params_(std::move(params)), handler_(std::move(handler)), timer_(io), pause_(kFirstPause) {}

void DispatcherLink::Start() { Attempt(); }

void DispatcherLink::Request(Message message, Duration deadline, Session::Answer answer) {
  if (session_ != nullptr) return session_->Request(std::move(message), deadline, std::move(answer));
  io_.Post([answer = std::move(answer), address = address_] {
    answer(Status(Code::kUnavailable, "the dispatcher at " + address + " cannot be reached now"));
  });
}

void DispatcherLink::Reply(SessionId asked_on, RequestId request, Message message) {
  if (session_ != nullptr && session_->id() == asked_on) session_->Reply(request, std::move(message));
}

void DispatcherLink::OnMessage(Session& /*session*/, StreamId /*stream*/, RequestId request, Message message) {
  handler_.said(request, std::move(message));
}

void DispatcherLink::OnClosed(Session& session, const Status& why) {
  if (session_ == nullptr || session_->id() != session.id()) return;
  Down(why);
}

void DispatcherLink::Attempt() {
  Connect(io_, address_, params_, *this, [this](Result<std::shared_ptr<Session>> outcome) { OnConnected(std::move(outcome)); });
}

void DispatcherLink::OnConnected(Result<std::shared_ptr<Session>> outcome) {
  if (!outcome.ok()) return Down(outcome.status());
  session_ = std::move(outcome).value();
  pause_ = kFirstPause;
  handler_.up();
}

void DispatcherLink::Down(const Status& why) {
  session_.reset();
  timer_.After(pause_, [this] { Attempt(); });
  pause_ = std::min(pause_ * 2, kLongestPause);
  handler_.down(why);
}

}  // namespace penstock::worker
