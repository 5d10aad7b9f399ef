#include "cli/ask.h"

#include <future>
#include <memory>
#include <utility>

#include "wire/dispatcher_link.h"
#include "wire/io_thread.h"
#include "wire/net.h"

namespace penstock::cli {
namespace {

class Silent final : public ControlHandler {
 public:
  void OnMessage(Session& /*session*/, StreamId /*stream*/, RequestId /*request*/, Message /*message*/) override {}
  void OnClosed(Session& /*session*/, const Status& /*why*/) override {}
};

}  // namespace

Result<Message> AskDispatcher(const std::string& address, const Credentials& credentials, Message question) {
  Silent handler;
  IoThread io("penstock-cli");
  ConnectParams params{.token = credentials.token, .tls = credentials.tls, .role = "cli", .name = {}, .shared_memory = false, .pace = {}};
  auto connected = ConnectAndWait(io, address, std::move(params), handler);
  if (!connected.ok()) {
    const Status why = Unreachable(address, connected.status());
    return IsPermanent(why.code()) ? why : Status(why.code(), why.message() + " (--dispatcher or PENSTOCK_SERVICE names it)");
  }
  const std::shared_ptr<Session> session = *std::move(connected);
  ServiceIdentity anybody;
  PENSTOCK_TRY(anybody.Accept(session->hello_reply(), address));  // a worker is none to ask
  auto answer = std::make_shared<std::promise<Result<Message>>>();
  auto waiting = answer->get_future();
  io.Post([&session, &question, answer] {
    session->Request(std::move(question), kHelloWithin, [answer](Result<Message> got) { answer->set_value(std::move(got)); });
  });
  Result<Message> got = waiting.get();
  io.Stop();
  return got;
}

Result<msg::StatusReply> AskStatus(const std::string& address, const Credentials& credentials) {
  PENSTOCK_ASSIGN(Message answer, AskDispatcher(address, credentials, msg::StatusAsk{}));
  if (auto* status = std::get_if<msg::StatusReply>(&answer)) return std::move(*status);
  return Status(Code::kMismatch, "what answers at " + address + " is no dispatcher of this version");
}

}  // namespace penstock::cli
