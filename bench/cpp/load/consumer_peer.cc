#include <unistd.h>

#include <algorithm>

#include "load/peers.h"
#include "penstock/plan.h"

namespace penstock::load {
namespace {

constexpr uint32_t kLanesHeld = 6;  // open ones and spare grants
constexpr Seq kRowsOfALane = 1000;

}  // namespace

ConsumerPeer::ConsumerPeer(IoThread& io, uint64_t number, Gauges& gauges) : io_(io), number_(number), gauges_(gauges), timer_(io) {}

void ConsumerPeer::Connect(const std::string& dispatcher, Ready ready) {
  ConnectParams params{.role = "consumer", .name = "load-consumer-" + std::to_string(number_), .timeout = kAnswerWithin};
  penstock::Connect(io_, dispatcher, std::move(params), *this, [this, ready = std::move(ready)](Result<std::shared_ptr<Session>> session) {
    if (!session.ok()) gauges_.Fail(session.status());
    if (session.ok()) session_ = *session;
    ready();
  });
}

void ConsumerPeer::Register(uint64_t number, std::function<void(std::string)> registered) {
  if (session_ == nullptr) return;
  AttrMap attrs;
  attrs.Set("stop", static_cast<int64_t>(number + 1));
  session_->Request(msg::Register{SerializePlan(Plan::Over({}, "range", attrs))}, kAnswerWithin,
                    [this, registered = std::move(registered)](Result<Message> answer) {
                      const auto* said = answer.ok() ? std::get_if<msg::Registered>(&*answer) : nullptr;
                      if (said == nullptr) return gauges_.Fail(answer.status());
                      registered(said->dataset);
                    });
}

void ConsumerPeer::Join(std::string dataset, std::string job, Ready ready) {
  if (session_ == nullptr) return ready();
  msg::Join join;
  join.dataset = std::move(dataset);
  join.job_name = std::move(job);
  join.even = Even::kUneven;
  join.incarnation = (static_cast<uint64_t>(getpid()) << 42) + (number_ << 22) + ++incarnations_;
  join.name = "load-consumer-" + std::to_string(number_);
  const TimePoint sent = Clock::System().Now();
  session_->Request(join, kAnswerWithin, [this, sent, ready = std::move(ready)](Result<Message> answer) {
    const auto* joined = answer.ok() ? std::get_if<msg::Joined>(&*answer) : nullptr;
    if (joined == nullptr) {
      gauges_.Fail(answer.status());
    } else {
      gauges_.joins.Add(Clock::System().Now() - sent);
      beat_ = {};
      beat_.job = joined->job;
      beat_.consumer = joined->consumer;
      beat_.generation = joined->generation;
      beat_.epoch = joined->epoch;
      beat_.workers_version = joined->workers_version;
      grants_.clear();
      ended_ = false;
    }
    ready();
  });
}

void ConsumerPeer::Beat(Finishes finishes, Ready done) {
  if (session_ == nullptr) return;
  const size_t finished = std::min<size_t>(grants_.size(), finishes == Finishes::kAll ? grants_.size() : 1);
  beat_.finished.clear();
  beat_.holds.clear();
  for (size_t i = 0; i < grants_.size(); ++i) {
    const msg::Grant& grant = grants_[i];
    if (i < finished) {
      beat_.finished.push_back({grant.range.lane, grant.range.from, grant.fence, Cursor{kRowsOfALane, 0}, true});
    } else {
      beat_.holds.push_back({grant.range.lane, grant.range.from, grant.fence, grant.range.from, true, 0});
    }
  }
  gauges_.lanes_done += finished;
  beat_.want = kLanesHeld - static_cast<uint32_t>(beat_.holds.size());
  beat_.idle = beat_.holds.empty();
  ++beat_.serial;
  const TimePoint sent = Clock::System().Now();
  session_->Request(beat_, kAnswerWithin, [this, sent, done = std::move(done)](Result<Message> answer) {
    const auto* reply = answer.ok() ? std::get_if<msg::BeatReply>(&*answer) : nullptr;
    if (reply == nullptr) return gauges_.Fail(answer.status());
    gauges_.heartbeats.Add(Clock::System().Now() - sent);
    grants_ = reply->grants;
    if (!reply->workers.empty()) beat_.workers_version = reply->workers_version;
    ended_ = reply->end;
    done();
  });
}

void ConsumerPeer::BeatEachSecond() {
  Beat(Finishes::kOne, [this] { timer_.After(kHeartbeatEvery, [this] { BeatEachSecond(); }); });
}

void ConsumerPeer::ReadToTheEnd(Ready done) {
  Beat(Finishes::kAll, [this, done = std::move(done)] {
    if (ended_) return Leave(done);
    ReadToTheEnd(done);
  });
}

void ConsumerPeer::Leave(Ready done) {
  session_->Request(msg::Leave{beat_.job, beat_.consumer, {}, {}}, kAnswerWithin, [this, done = std::move(done)](Result<Message> answer) {
    if (!answer.ok()) gauges_.Fail(answer.status());
    done();
  });
}

// News between beats: taken with the next one.
void ConsumerPeer::OnMessage(Session&, StreamId, RequestId, Message) {}

void ConsumerPeer::OnClosed(Session&, const Status& why) {
  gauges_.Fail(why);
  session_ = nullptr;
}

}  // namespace penstock::load
