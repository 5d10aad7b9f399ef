#include "sim/dispatcher_node.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dispatcher/codec.h"

namespace penstock::sim {

using namespace dispatcher;

void DispatcherNode::Start() {
  term_ = Term{Raw(term_) + 1};
  CoreOptions options;
  options.cluster = "sim";
  options.term = term_;
  options.check_plan = [](std::string_view plan) -> Result<std::string> { return std::string(plan); };
  options.worker_deadline = std::chrono::seconds(60);
  core_ = std::make_unique<DispatcherCore>(std::move(options));
  if (Status status = core_->Restore(world_.now(), store_); !status.ok()) world_.Violated("restore: " + status.ToString());
  CompareWithStore();
  Rise();
  world_.Trace(*this, "starts, term " + std::to_string(Raw(term_)));
  Feed(TimerFired{});
}

void DispatcherNode::Crash() {
  if (!up()) return;
  world_.Trace(*this, "crashes");
  world_.Count("dispatcher crash");
  expired_ += core_->counts().expired;
  redelivered_ += core_->counts().redelivered;
  core_.reset();
  writes_.clear();
  sends_.clear();
  asks_.clear();
  asked_.clear();
  flush_set_ = crash_at_commit = false;
  Fall();
  world_.At(world_.now() + world_.random.Millis(50, 4000), [this] { Start(); });
}

void DispatcherNode::OnPacket(LinkId link, Packet packet) {
  auto* message = std::get_if<Message>(&packet.body);
  if (message == nullptr) return world_.Violated("a block was sent to the dispatcher");
  if (!packet.reply) return Feed(PeerMessage{SessionId{Raw(link)}, packet.request, std::move(*message)});
  const AskId ask{Raw(packet.request)};
  if (asked_.erase(ask) == 0) return;
  const auto* failed = std::get_if<msg::Failed>(message);
  Feed(Answered{ask, failed != nullptr ? Result<Message>(failed->error) : Result<Message>(std::move(*message))});
}

void DispatcherNode::OnLinkDown(LinkId link) {
  Feed(SessionClosed{SessionId{Raw(link)}});
  std::vector<AskId> lost;
  for (const auto& [ask, where] : asked_) {
    if (where == link) lost.push_back(ask);
  }
  for (AskId ask : lost) {
    asked_.erase(ask);
    Feed(Answered{ask, Status(Code::kUnavailable, "the session ended")});
  }
}

void DispatcherNode::Feed(const Event& event) {
  core_->On(world_.now(), event, actions_);
  for (LogLine& line : actions_.log) world_.Trace(*this, line.text);
  std::move(actions_.persist.begin(), actions_.persist.end(), std::back_inserter(writes_));
  std::move(actions_.sends.begin(), actions_.sends.end(), std::back_inserter(sends_));
  std::move(actions_.asks.begin(), actions_.asks.end(), std::back_inserter(asks_));
  if (actions_.timer.has_value()) {
    After(*actions_.timer - world_.now(), [this, timer = ++timer_] {
      if (timer == timer_) Feed(TimerFired{});
    });
  }
  if (flush_set_ || (writes_.empty() && sends_.empty() && asks_.empty())) return;
  flush_set_ = true;
  After(world_.random.Micros(0, 5000), [this] { Flush(); });
}

void DispatcherNode::Flush() {
  flush_set_ = false;
  const bool crash = crash_at_commit && !writes_.empty();
  const bool before = world_.random.Percent(50);
  if (crash && before) return Crash();
  Commit();
  if (crash) return Crash();
  SendAll();
}

void DispatcherNode::Commit() {
  for (Write& write : writes_) {
    if (write.value.has_value()) {
      store_[write.key] = std::move(*write.value);
    } else {
      store_.erase(write.key);
    }
  }
  const bool any = !writes_.empty();
  writes_.clear();
  if (!any || !world_.random.Percent(25)) return;
  CompareWithStore();
  CheckGrants();
}

// What a restarted core would know is what this one knows.
void DispatcherNode::CompareWithStore() {
  const Snapshot now = core_->TakeSnapshot();
  if (now == store_) return;
  for (const auto& [key, value] : now) {
    auto stored = store_.find(key);
    if (stored == store_.end() || stored->second != value) world_.Violated("the core knows " + key + " otherwise than the store");
  }
  for (const auto& [key, value] : store_) {
    if (!now.contains(key)) world_.Violated("the store keeps " + key + ", which the core has forgotten");
  }
}

void DispatcherNode::SendAll() {
  for (Send& send : std::exchange(sends_, {})) {
    world_.Send(LinkId{Raw(send.session)}, *this, {StreamId{}, send.request, send.request != RequestId{}, std::move(send.message)});
  }
  for (Ask& ask : std::exchange(asks_, {})) {
    asked_[ask.ask] = LinkId{Raw(ask.session)};
    world_.Send(LinkId{Raw(ask.session)}, *this, {StreamId{}, RequestId{Raw(ask.ask)}, false, std::move(ask.message)});
  }
}

// No two grants or pieces share a row, and a piece never comes back at a lower fence.
void DispatcherNode::CheckGrants() {
  struct Part {
    Cursor from;
    Seq to;
    Fence fence;
  };
  std::map<std::pair<uint64_t, LaneKey>, std::vector<Part>> parts;
  for (const auto& [key, value] : store_) {
    Result<ParsedKey> parsed = ParseKey(key);
    if (parsed->kind == "member") {
      Result<StoredMember> member = DecodeMember(value);
      for (const StoredGrant& grant : member->grants)
        parts[{parsed->first, grant.name.lane}].push_back({grant.held.from, grant.held.to, grant.name.fence});
    } else if (parsed->kind == "epoch") {
      const EpochShape any{kEndlessLanes, 0};
      Result<EpochState> state = DecodeEpoch(Epoch{static_cast<uint32_t>(parsed->second)}, any, value);
      if (!state.ok()) continue;  // ranged: its shape is the job's
      for (const auto& [place, piece] : state->pool()) parts[{parsed->first, piece.lane}].push_back({piece.from, piece.to, piece.fence});
    }
  }
  for (auto& [lane, list] : parts) {
    std::sort(list.begin(), list.end(), [](const Part& a, const Part& b) { return a.from < b.from; });
    for (size_t i = 0; i < list.size(); ++i) {
      if (i + 1 < list.size() && list[i].to > list[i + 1].from.seq) world_.Violated("two grants overlap in " + ToString(lane.second));
      Fence& highest = fences_[lane.second][list[i].from.seq];
      if (list[i].fence < highest) world_.Violated("a fence fell in " + ToString(lane.second));
      highest = list[i].fence;
    }
  }
}

}  // namespace penstock::sim
