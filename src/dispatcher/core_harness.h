// For tests: a core with scripted peers, and a store that takes what it persists.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dispatcher/core.h"

namespace penstock::dispatcher {

class CoreHarness {
 public:
  explicit CoreHarness(Term term = Term{1}) { Start(term); }

  // A peer says something; what was answered to it.
  Message Say(SessionId session, Message message) {
    const RequestId request{++requests_};
    Feed(PeerMessage{session, request, std::move(message)});
    for (const Send& send : actions.sends) {
      if (send.request == request) return send.message;
    }
    return msg::Done{};
  }
  void Feed(const Event& event) {
    core->On(now, event, actions);
    for (const Write& write : actions.persist) {
      if (write.value.has_value()) {
        stored[write.key] = *write.value;
      } else {
        stored.erase(write.key);
      }
    }
    for (const Send& send : actions.sends) {
      if (send.request == RequestId{}) pushed.push_back(send);
    }
  }
  // Time passes, with the timer going off on the way.
  void Pass(Duration duration) {
    const TimePoint until = now + duration;
    while (now < until) {
      now = std::min(until, now + std::chrono::milliseconds(250));
      Feed(TimerFired{});
    }
  }
  void Restart() { Start(Term{Raw(term_) + 1}); }

  std::string Register(const std::string& plan = "plan") { return std::get<msg::Registered>(Say(SessionId{99}, msg::Register{plan})).dataset; }
  void AddWorker(uint64_t id) {
    msg::WorkerHello hello;
    hello.incarnation = id;
    hello.address = "worker-" + std::to_string(id);
    Say(SessionId{1000 + id}, hello);
  }
  // Answers the questions for inputs that the last event brought.
  void AnswerInputs(const Layout& layout) {
    for (const Ask& ask : std::vector<Ask>(actions.asks)) {
      Feed(Answered{ask.ask, Message(msg::Inputs{JobId{}, "manifest", "hash", layout})});
    }
  }
  msg::Join JoinOf(uint64_t consumer, const std::string& job = "train") {
    msg::Join join;
    join.dataset = Register();
    join.job_name = job;
    join.incarnation = consumer;
    join.name = "rank-" + std::to_string(consumer);
    return join;
  }
  // Joins and gets the answer, listing the inputs if this is the first.
  Message Join(const msg::Join& join, const Layout& layout) {
    const RequestId request{++requests_};
    Feed(PeerMessage{SessionId{join.incarnation}, request, join});
    if (!actions.asks.empty()) AnswerInputs(layout);
    for (const Send& send : actions.sends) {
      if (send.request == request) return send.message;
    }
    return msg::Done{};
  }
  msg::Joined JoinOk(const msg::Join& join, const Layout& layout) { return std::get<msg::Joined>(Join(join, layout)); }

  TimePoint now{std::chrono::seconds(100)};
  std::unique_ptr<DispatcherCore> core;
  Actions actions;  // of the last event
  Snapshot stored;
  std::vector<Send> pushed;  // what nobody asked for

 private:
  void Start(Term term) {
    term_ = term;
    CoreOptions options;
    options.cluster = "test";
    options.term = term;
    options.check_plan = [](std::string_view plan) -> Result<std::string> {
      if (plan == "bad") return Status(Code::kInvalid, "bad plan");
      return "id-of-" + std::string(plan);
    };
    options.difference = [](std::string_view job, std::string_view joining) {
      return std::string(job) + " in the job, " + std::string(joining) + " here";
    };
    core = std::make_unique<DispatcherCore>(std::move(options));
    if (Status status = core->Restore(now, stored); !status.ok()) DieOf(status);
  }

  Term term_{};
  uint64_t requests_ = 0;
};

// A consumer's side of a beat, kept by hand.
struct Scripted {
  msg::Beat beat;

  explicit Scripted(const msg::Joined& joined) {
    beat.job = joined.job;
    beat.consumer = joined.consumer;
    beat.epoch = joined.epoch;
    beat.workers_version = joined.workers_version;
  }
  msg::BeatReply Say(CoreHarness& harness) {
    ++beat.serial;
    reply = std::get<msg::BeatReply>(harness.Say(SessionId{Raw(beat.consumer)}, beat));
    if (!reply.workers.empty()) beat.workers_version = reply.workers_version;
    return reply;
  }
  // Beats, and is refused.
  Status Error(CoreHarness& harness) {
    ++beat.serial;
    return std::get<msg::Failed>(harness.Say(SessionId{Raw(beat.consumer)}, beat)).error;
  }
  // Holds what it was granted, and beats.
  msg::BeatReply Hold(CoreHarness& harness, uint32_t want, bool idle = false) {
    beat.holds.clear();
    for (const msg::Grant& grant : reply.grants) {
      beat.holds.push_back({grant.range.lane, grant.range.from, grant.fence, grant.range.from, true, 0});
    }
    beat.want = want;
    beat.idle = idle;
    return Say(harness);
  }
  // Finishes a grant at `upto` (the lane's end where `ended`) and beats.
  msg::BeatReply Finish(CoreHarness& harness, const msg::Grant& grant, Cursor upto, bool ended, uint32_t want, bool idle) {
    std::erase(reply.grants, grant);
    beat.finished = {{grant.range.lane, grant.range.from, grant.fence, upto, ended}};
    Hold(harness, want, idle);
    beat.finished.clear();
    return reply;
  }
  msg::BeatReply reply;
};

inline Layout LayoutOf(uint32_t lanes, uint64_t batch = 4) {
  Layout layout;
  layout.lanes = lanes;
  layout.batch = batch;
  layout.row_spec = LeafSpec(DType::kInt64, {});
  return layout;
}

}  // namespace penstock::dispatcher
