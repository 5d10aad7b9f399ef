#include "client/dispatcher_link.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace penstock {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(1);

bool Permanent(Code code) { return code == Code::kPermission || code == Code::kMismatch || code == Code::kInvalid; }

}  // namespace

Status ServiceIdentity::Accept(const msg::HelloReply& reply, const std::string& address) {
  if (!cluster.empty() && reply.cluster != cluster) {
    return Status(Code::kMismatch, "the dispatcher at " + address + " is of another cluster (" + reply.cluster + ") than this client joined (" +
                                       cluster + "); if its state was lost on purpose, start the readers anew");
  }
  if (reply.term < term) {
    return Status(Code::kStale, "the dispatcher at " + address + " is of an older term (" + std::to_string(Raw(reply.term)) +
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

void DispatcherLink::Start() { Attempt(); }

void DispatcherLink::Attempt() {
  self_ = shared_from_this();
  Connect(io_, address_, params_, *this, [self = self_](Result<std::shared_ptr<Session>> outcome) { self->OnConnected(std::move(outcome)); });
}

void DispatcherLink::OnConnected(Result<std::shared_ptr<Session>> outcome) {
  if (!outcome.ok()) {
    const auto self = std::move(self_);
    return Down(Unreachable(address_, outcome.status()));
  }
  session_ = std::move(outcome).value();
  if (stopped_) return session_->Close(Status(Code::kCancelled, "the client has closed"));
  if (Status refused = identity_->Accept(session_->hello_reply(), address_); !refused.ok()) return session_->Close(std::move(refused));
  failures_ = 0;
  handler_.up();
}

void DispatcherLink::OnMessage(Session& /*session*/, StreamId /*stream*/, RequestId /*request*/, Message message) {
  if (!stopped_) handler_.said(std::move(message));
}

void DispatcherLink::OnClosed(Session& /*session*/, const Status& why) {
  const auto self = std::move(self_);
  session_.reset();
  Down(Status(why).Prefixed("the connection to the dispatcher at " + address_ + " ended"));
}

void DispatcherLink::Down(const Status& why) {
  if (stopped_) return;
  if (Permanent(why.code())) return handler_.refused(why);
  const Duration pause = std::min(kLongestPause, kFirstPause * (1 << std::min(failures_++, 6u)));
  timer_.After(pause, [self = shared_from_this()] {
    if (!self->stopped_) self->Attempt();
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

void DispatcherLink::Stop() {
  stopped_ = true;
  timer_.Cancel();
  if (session_ != nullptr) session_->Close(Status(Code::kCancelled, "the client has closed"));
}

Status Unreachable(const std::string& address, const Status& why) {
  const char* advice = Permanent(why.code()) ? "" : "; is `penstock dispatcher` running there, and is the address right?";
  Status said(why.code(), "cannot reach the dispatcher at " + address + ": " + why.message() + advice);
  return std::move(said).With("address", address);
}

Result<std::string> ServiceAddress(const std::string& service) {
  std::string_view rest = service;
  for (const std::string_view scheme : {"penstock://", "grpc://"}) {
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  }
  if (rest.starts_with("unix:") || rest.starts_with("@")) return std::string(rest);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty() || rest.find('/') != std::string_view::npos) {
    return Status(Code::kInvalid, "'" + service + "' is not a service; write penstock://host:port, host:port or unix:/path");
  }
  const size_t colon = rest.rfind(':');
  const size_t bracket = rest.rfind(']');  // of an IPv6 address
  const bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  return has_port ? std::string(rest) : std::string(rest) + ":" + std::to_string(kDefaultPort);
}

}  // namespace penstock
