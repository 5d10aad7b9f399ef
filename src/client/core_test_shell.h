// A ClientCore with its shelf, run by hand: events in, what it does remembered. For scripted tests.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "client/core.h"

namespace penstock {

inline msg::WorkerInfo WorkerAt(uint64_t id, bool draining = false) {
  msg::WorkerInfo info;
  info.worker = WorkerId{id};
  info.address = "10.0.0." + std::to_string(id) + ":5051";
  info.draining = draining;
  return info;
}

inline msg::Grant GrantOf(uint32_t lane, Seq from = 0, uint64_t fence = 1, Seq to = kLaneEnd) {
  return {{{Epoch{0}, ReplicaId{}, LaneId{lane}}, {from, 0}, to}, Fence{fence}, WorkerId{}};
}

inline Layout BatchOf(uint64_t n, bool drop = false) {
  Layout layout;
  layout.lanes = 100;
  layout.batch = n;
  layout.drop_remainder = drop;
  return layout;
}

class CoreShell {
 public:
  struct Opened {
    WorkerId worker{};
    LaneStream stream{};
    msg::Open open;
  };

  explicit CoreShell(Layout layout, uint64_t memory = 64 << 20) : CoreShell(std::move(layout), ClientCoreOptions{msg::Join{}, memory}) {}
  CoreShell(Layout layout, ClientCoreOptions options) : core_(std::move(options)), shelf_(clock_), layout_(std::move(layout)) {}

  void Do(const ClientEvent& event) {
    Tell(event);
    while (!shrinks_.empty()) {
      for (const action::ShrinkTail& shrink : std::exchange(shrinks_, {})) Tell(Shrink(shrink));
    }
    const Progress progress = shelf_.TakeProgress();
    const bool waited = std::exchange(waiting_, progress.waiting);
    if (!progress.marks.empty() || !progress.passed.empty() || progress.ring || (progress.waiting && !waited)) Do(progress);
    while (!freed_.empty()) {
      const Handle handle = freed_.front();
      freed_.pop_front();
      Do(event::Freed{handle});
    }
  }

  // Joins a job with these workers; they connect at once unless told otherwise.
  void Join(std::vector<msg::WorkerInfo> workers) {
    workers_ = std::move(workers);
    Do(event::DispatcherUp{});
    Do(Welcome());
  }

  // What the dispatcher says of the job.
  msg::Joined Welcome(uint32_t generation = 0) const {
    msg::Joined joined;
    joined.generation = Generation{generation};
    joined.job = JobId{7};
    joined.consumer = ConsumerId{9};
    joined.epochs = 2;
    joined.lease_ms = 12'000;
    joined.layout = layout_;
    joined.workers = workers_;
    joined.job_name = "train";
    if (adjust_join) adjust_join(joined);
    return joined;
  }

  // The dispatcher's answer to the newest beat.
  msg::BeatReply Reply(std::vector<msg::Grant> grants) const {
    msg::BeatReply reply;
    reply.serial = beats.back().serial;
    reply.lease_ms = 12'000;
    reply.grants = std::move(grants);
    reply.workers = workers_;
    return reply;
  }
  // Answers beats alike until there is no more to say.
  void Answer(msg::BeatReply reply) {
    for (size_t before = 0; before != beats.size();) {
      before = beats.size();
      reply.serial = beats.back().serial;
      Do(reply);
    }
  }
  void Grant(std::vector<msg::Grant> grants) { Answer(Reply(std::move(grants))); }

  Handle Block(LaneStream stream, Seq from, Seq to, uint64_t bytes = 1000) {
    const Handle handle{++handles_};
    Do(event::BlockArrived{stream, {handle, {to - from, {from, 0}, {to, 0}, bytes, 0}, {}}});
    return handle;
  }
  // The worker has a block that its credit does not cover.
  void BlockWaits(LaneStream stream, Seq from, Seq to, uint64_t bytes = 1000) {
    Do(event::LaneSays{stream, msg::Groups{.groups = {{{from, 0}, {to, 0}, to - from, bytes}}}});
  }
  void End(LaneStream stream, Seq end, bool lane_ended = true) { Do(event::LaneSays{stream, msg::LaneEnded{{end, 0}, lane_ended}}); }
  void Fail(LaneStream stream, Code code) { Do(event::LaneSays{stream, msg::LaneFailed{Status(code, "trouble")}}); }
  void Refuse(LaneStream stream, Code code) { Do(event::LaneSays{stream, msg::Refused{Status(code, "no room")}}); }
  void Pass(Duration by) {
    clock_.Advance(by);
    Do(event::Timer{});
  }

  // The loop: takes what is ready, and the core hears of it.
  Shelf::Taken Next() {
    Shelf::Taken taken = shelf_.Next();
    shelf_.Claimed();
    const Progress progress = shelf_.TakeProgress();
    waiting_ = progress.waiting;
    Do(progress);
    return taken;
  }
  uint64_t NextRows() {
    const Shelf::Taken taken = Next();
    uint64_t rows = 0;
    if (const auto* slices = std::get_if<std::vector<Slice>>(&taken)) {
      for (const Slice& slice : *slices) rows += slice.rows;
    }
    return rows;
  }

  // The newest opening of a lane.
  const Opened& OpenOf(uint32_t lane) const {
    for (auto open = opens.rbegin(); open != opens.rend(); ++open) {
      if (open->open.range.lane.lane == LaneId{lane}) return *open;
    }
    DieOf(Status(Code::kInternal, "lane " + std::to_string(lane) + " was never opened"));
  }
  bool Closed(LaneStream stream) const { return closed.contains(stream); }

  ManualClock& clock() { return clock_; }
  Shelf& shelf() { return shelf_; }
  ClientCore& core() { return core_; }
  void KeepMemory() { frees_ = false; }  // the loop holds its batches
  void ConnectByHand() { connects_ = false; }
  void SettleByHand() { settles_ = false; }

  std::vector<msg::Beat> beats;
  std::vector<msg::Leave> leaves;
  std::vector<Opened> opens;
  std::set<LaneStream> closed;
  std::map<LaneStream, uint64_t> credit;  // given after the open
  int settles = 0;                        // how often it asked for that
  int waits = 0;                          // how often a worker was told that the loop does
  std::map<LaneStream, msg::Take> takes;  // all that was wanted, and the newest mark
  std::vector<WorkerId> connects;
  std::vector<Status> failures;
  std::set<Handle> released;
  std::vector<GrantName> shrunk;
  uint64_t tail_bytes = 1;
  TimePoint timer{};
  std::vector<msg::Restore> restores;
  std::vector<Status> restore_failures;
  int joins = 0;
  int registers = 0;
  std::function<void(msg::Joined&)> adjust_join;

 private:
  void Tell(const ClientEvent& event) {
    ClientActions actions;
    core_.On(clock_.Now(), event, actions);
    for (ClientAction& action : actions.list) Perform(action);
  }

  void Perform(ClientAction& action) {
    if (const auto* fail = std::get_if<action::Fail>(&action)) failures.push_back(fail->status);
    if (ApplyToShelf(action, shelf_)) return;
    if (const auto* shrink = std::get_if<action::ShrinkTail>(&action)) return shrinks_.push_back(*shrink);
    if (auto* send = std::get_if<action::SendDispatcher>(&action)) return ToDispatcher(send->message);
    if (auto* send = std::get_if<action::SendRestore>(&action)) {
      restores.push_back(send->restore);
      return;
    }
    if (auto* failed = std::get_if<action::RestoreFailed>(&action)) {
      restore_failures.push_back(failed->status);
      return;
    }
    if (auto* connect = std::get_if<action::ConnectWorker>(&action)) {
      connects.push_back(connect->worker.worker);
      if (connects_) Do(event::WorkerUp{connect->worker.worker});
    } else if (auto* send = std::get_if<action::SendWorker>(&action)) {
      ToWorker(*send);
    } else if (auto* release = std::get_if<action::Release>(&action)) {
      released.insert(release->handle);
      if (frees_) freed_.push_back(release->handle);
    } else if (auto* set = std::get_if<action::SetTimer>(&action)) {
      timer = set->at;
    } else if (std::holds_alternative<action::SettleSoon>(action)) {
      ++settles;
      if (settles_) Tell(event::Settle{});
    }
  }

  // A copy takes `tail_bytes` a row.
  event::TailCopied Shrink(const action::ShrinkTail& shrink) {
    const std::optional<Slice> tail = shelf_.ThinTail(shrink.grant);
    const uint64_t bytes = tail ? tail->rows * tail_bytes : 0;
    if (!tail || bytes > shrink.room) return {shrink.grant, std::nullopt, bytes};
    const Handle copy{++handles_};
    shrunk.push_back(shrink.grant);
    if (!shelf_.ReplaceTail(*tail, {copy, {tail->rows, tail->first, tail->end, bytes, 0}, {}})) return {shrink.grant, std::nullopt, 0};
    return {shrink.grant, copy, bytes};
  }

  void ToDispatcher(const Message& message) {
    if (std::holds_alternative<msg::Join>(message)) ++joins;
    if (std::holds_alternative<msg::Register>(message)) ++registers;
    if (const auto* beat = std::get_if<msg::Beat>(&message)) beats.push_back(*beat);
    if (const auto* leave = std::get_if<msg::Leave>(&message)) leaves.push_back(*leave);
  }

  void ToWorker(const action::SendWorker& send) {
    if (const auto* open = std::get_if<msg::Open>(&send.message)) opens.push_back({send.worker, send.stream, *open});
    if (const auto* more = std::get_if<msg::Credit>(&send.message)) {
      credit[send.stream] += more->bytes;
      waits += more->waits ? 1 : 0;
    }
    if (const auto* take = std::get_if<msg::Take>(&send.message)) {
      takes[send.stream].want.insert(takes[send.stream].want.end(), take->want.begin(), take->want.end());
      takes[send.stream].passed = take->passed;
    }
    if (std::holds_alternative<msg::CloseLane>(send.message)) closed.insert(send.stream);
  }

  ManualClock clock_;
  ClientCore core_;
  Shelf shelf_;
  Layout layout_;
  std::vector<msg::WorkerInfo> workers_;
  std::deque<Handle> freed_;
  std::vector<action::ShrinkTail> shrinks_;
  bool frees_ = true;
  bool connects_ = true;
  bool settles_ = true;
  bool waiting_ = false;
  uint64_t handles_ = 0;
};

}  // namespace penstock
