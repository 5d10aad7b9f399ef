#include "load/peers.h"

namespace penstock::load {
namespace {

constexpr uint64_t kMemory = 4ULL << 30;

}  // namespace

WorkerPeer::WorkerPeer(IoThread& io, uint64_t number, uint32_t lanes, Gauges& gauges)
    : io_(io), number_(number), lanes_(lanes), gauges_(gauges), timer_(io) {}

void WorkerPeer::Start(const std::string& dispatcher, Ready ready) {
  ConnectParams params{.role = "worker", .name = "load-worker-" + std::to_string(number_), .timeout = kAnswerWithin};
  penstock::Connect(io_, dispatcher, std::move(params), *this, [this, ready = std::move(ready)](Result<std::shared_ptr<Session>> session) {
    if (!session.ok()) {
      gauges_.Fail(session.status());
      return ready();
    }
    session_ = *session;
    SayHello(ready);
  });
}

void WorkerPeer::SayHello(Ready ready) {
  msg::WorkerHello hello;
  hello.address = "10.0." + std::to_string(number_ / 250) + "." + std::to_string(1 + number_ % 250) + ":5051";
  hello.incarnation = number_ + 1;
  hello.memory = kMemory;
  hello.cpus = 8;
  hello.name = "load-worker-" + std::to_string(number_);
  session_->Request(hello, kAnswerWithin, [this, ready = std::move(ready)](Result<Message> answer) {
    const auto* welcome = answer.ok() ? std::get_if<msg::WorkerWelcome>(&*answer) : nullptr;
    if (welcome == nullptr) {
      gauges_.Fail(answer.status());
    } else {
      id_ = welcome->worker;
      Beat();
    }
    ready();
  });
}

void WorkerPeer::Beat() {
  if (session_ == nullptr) return;
  msg::WorkerBeat beat;
  beat.worker = id_;
  beat.budget = kMemory;
  const TimePoint sent = Clock::System().Now();
  session_->Request(beat, kAnswerWithin, [this, sent](Result<Message> answer) {
    if (!answer.ok()) return gauges_.Fail(answer.status());
    gauges_.heartbeats.Add(Clock::System().Now() - sent);
    timer_.After(kHeartbeatEvery, [this] { Beat(); });
  });
}

void WorkerPeer::OnMessage(Session& session, StreamId, RequestId request, Message message) {
  const auto* ask = std::get_if<msg::ListInputs>(&message);
  if (ask == nullptr || request == RequestId{}) return;
  msg::Inputs inputs{.job = ask->job, .manifest = "[]", .manifest_hash = "none", .layout = {}};
  inputs.layout.lanes = lanes_;
  inputs.layout.batch = 1;
  inputs.layout.row_spec = LeafSpec(DType::kInt64, {});
  session.Reply(request, std::move(inputs));
}

void WorkerPeer::OnClosed(Session&, const Status& why) {
  gauges_.Fail(why);
  session_ = nullptr;
}

}  // namespace penstock::load
