#include "wire/dispatcher_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock {
namespace {

// A dispatcher that is just starting, or starts again, is found within milliseconds; one that is away is not hammered.
constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr Term kFirstTerm{1};

}  // namespace

bool IsPermanent(Code code) { return code == Code::kPermission || code == Code::kMismatch || code == Code::kInvalid; }

Status ServiceIdentity::Accept(const msg::HelloReply& reply, const std::string& address) {
  if (reply.cluster.empty()) {
    return Status(Code::kInvalid, "the process at " + address + " is a worker; give the address that `penstock dispatcher` prints");
  }
  // One that has just begun has lost its state: readers rebuild their jobs there. Any other is somebody else's.
  const bool emptied = reply.cluster != cluster && reply.term == kFirstTerm;
  if (!cluster.empty() && reply.cluster != cluster && !emptied) {
    return Status(Code::kMismatch, "the dispatcher at " + address + " is of another cluster (" + reply.cluster + ") than before (" + cluster +
                                       "); give the address of that one, or start what spoke to it anew");
  }
  if (!emptied && reply.term < term) {
    return Status(Code::kUnavailable, "the dispatcher at " + address + " is of an older term (" + std::to_string(Raw(reply.term)) +
                                          ") than was seen before (" + std::to_string(Raw(term)) + "); stop it, a newer one has taken over");
  }
  cluster = reply.cluster;
  term = reply.term;
  return {};
}

std::shared_ptr<DispatcherLink> DispatcherLink::Make(IoThread& io, std::string address, ConnectParams params,
                                                     std::shared_ptr<ServiceIdentity> identity, Handler handler) {
  return std::shared_ptr<DispatcherLink>(new DispatcherLink(io, std::move(address), std::move(params), std::move(identity), std::move(handler)));
}

DispatcherLink::DispatcherLink(IoThread& io, std::string address, ConnectParams params, std::shared_ptr<ServiceIdentity> identity, Handler handler)
    : io_(io), address_(std::move(address)), params_(std::move(params)), identity_(std::move(identity)), handler_(std::move(handler)), timer_(io) {}

DispatcherLink::~DispatcherLink() {
  if (resident_) io_.Remove(*this);
}

// Sessions go without a word then: nobody else would let go of the link.
void DispatcherLink::OnIoStop() {
  resident_ = false;
  stopped_ = true;
  session_.reset();
  const auto self = std::move(self_);
}

void DispatcherLink::Start() {
  if (stopped_) return;
  if (!std::exchange(resident_, true)) io_.Add(*this);
  self_ = shared_from_this();
  Connect(io_, address_, params_, *this, [self = self_](Result<std::shared_ptr<Session>> outcome) { self->OnConnected(std::move(outcome)); });
}

void DispatcherLink::OnConnected(Result<std::shared_ptr<Session>> outcome) {
  if (!outcome.ok()) {
    const auto self = std::move(self_);
    return Down(Unreachable(address_, outcome.status()));
  }
  session_ = std::move(outcome).value();
  if (stopped_) return session_->Close(Status(Code::kCancelled, "this side has closed"));
  if (Status refused = identity_->Accept(session_->hello_reply(), address_); !refused.ok()) return session_->Close(std::move(refused));
  failures_ = 0;
  handler_.up();
}

void DispatcherLink::OnMessage(Session& /*session*/, StreamId /*stream*/, RequestId request, Message message) {
  if (!stopped_) handler_.said(request, std::move(message));
}

void DispatcherLink::OnClosed(Session& /*session*/, const Status& why) {
  const auto self = std::move(self_);
  session_.reset();
  Down(Status(why).Prefixed("the connection to the dispatcher at " + address_ + " ended"));
}

void DispatcherLink::Down(const Status& why) {
  if (stopped_) return;
  if (IsPermanent(why.code())) return handler_.refused(why);
  const Duration pause = std::min(kLongestPause, kFirstPause * (1 << std::min(failures_++, 8u)));
  timer_.After(pause, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Start();
  });
  handler_.down(why);
}

void DispatcherLink::Request(Message message, Duration deadline, Session::Answer answer) {
  if (session_ != nullptr) {
    // Why a session ended is not the dispatcher's word on what was asked: whoever asked may ask again.
    return session_->Request(std::move(message), deadline,
                             [self = shared_from_this(), id = session_->id(), answer = std::move(answer)](Result<Message> reply) {
                               if (reply.ok()) return answer(std::move(reply));
                               self->io_.Post([self, id, answer, status = reply.status()] {
                                 const bool lasts = self->session_ != nullptr && self->session_->id() == id;
                                 answer(lasts ? status : Status(Code::kUnavailable, status.message()));
                               });
                             });
  }
  io_.Post([answer = std::move(answer), address = address_] { answer(Status(Code::kUnavailable, "no connection to the dispatcher at " + address)); });
}

void DispatcherLink::Tell(Message message) {
  if (session_ != nullptr) session_->Send(StreamId{}, std::move(message));
}

void DispatcherLink::Reply(SessionId asked_on, RequestId request, Message message) {
  if (session_ != nullptr && session_->id() == asked_on) session_->Reply(request, std::move(message));
}

void DispatcherLink::Stop() {
  stopped_ = true;
  timer_.Cancel();
  if (session_ != nullptr) session_->Close(Status(Code::kCancelled, "this side has closed"));
}

Status Unreachable(const std::string& address, const Status& why) {
  const std::string at = "the dispatcher at " + address + ": ";
  std::string reason = why.message();
  if (reason.starts_with(at)) return why;                                              // said before
  if (reason.starts_with(address + ": ")) reason = reason.substr(address.size() + 2);  // a connection names its peer, too
  // One that answers is reached: who is not let in is to look at its token or certificate, not at the network.
  const std::string text =
      IsPermanent(why.code()) ? at + reason : "cannot reach " + at + reason + "; is `penstock dispatcher` running there, and is the address right?";
  return Status(why.code(), text).With("address", address);
}

}  // namespace penstock
