#include "sim/dispatcher_node.h"

#include <algorithm>
#include <utility>

#include "dispatcher/codec.h"

namespace penstock::sim {

using namespace dispatcher;

void DispatcherNode::Start() {
  term_ = Term{Raw(term_) + 1};
  copies_.push_back({store_, term_});
  Begin();
}

void DispatcherNode::StartFrom(Copy copy) {
  store_ = std::move(copy.store);
  term_ = copy.term;
  Begin();
}

void DispatcherNode::Begin() {
  CoreOptions options;
  options.cluster = hello().cluster;
  options.term = term_;
  options.check_plan = [](std::string_view plan) -> Result<std::string> { return std::string(plan); };
  options.rows_of = [](std::string_view plan) -> Result<std::string> { return std::string(plan.substr(0, plan.find('.'))); };
  options.worker_deadline = std::chrono::seconds(60);
  core_ = std::make_unique<DispatcherCore>(std::move(options));
  if (Status status = core_->Restore(Now(), store_); !status.ok()) world_.Violated("restore: " + status.ToString());
  CompareWithStore();
  Rise();
  world_.Trace(*this, "starts, term " + std::to_string(Raw(term_)));
  Feed(TimerFired{});
}

msg::HelloReply DispatcherNode::hello() const {
  msg::HelloReply reply;
  reply.cluster = "sim";
  reply.term = term_;
  return reply;
}

void DispatcherNode::Stop() {
  if (!up()) return;
  expired_ += core_->counts().expired;
  redelivered_ += core_->counts().redelivered;
  if (book_ != nullptr) book_->Forget();
  core_.reset();
  tick_ = {};
  asked_.clear();
  speakers_.clear();
  flush_set_ = crash_at_commit = crash_now_ = false;
  Fall();
}

void DispatcherNode::Crash() {
  if (!up()) return;
  world_.Trace(*this, "crashes");
  Stop();
  world_.At(world_.now() + world_.random.Millis(50, 4000), [this] { Start(); });
}

void DispatcherNode::OnPacket(LinkId link, Packet packet) {
  auto* message = std::get_if<Message>(&packet.body);
  if (message == nullptr) return world_.Violated("a block was sent to the dispatcher");
  if (!packet.reply) {
    NoteWhoSpeaks(link, *message);
    return Feed(PeerMessage{SessionId{Raw(link)}, packet.request, std::move(*message)});
  }
  const AskId ask{Raw(packet.request)};
  if (asked_.erase(ask) == 0) return;
  const auto* failed = std::get_if<msg::Failed>(message);
  Feed(Answered{ask, failed != nullptr ? Result<Message>(failed->error) : Result<Message>(std::move(*message))});
}

void DispatcherNode::NoteWhoSpeaks(LinkId link, const Message& message) {
  const auto* beat = std::get_if<msg::Beat>(&message);
  if (beat == nullptr || book_ == nullptr) return;
  speakers_[link] = {beat->job, beat->consumer};
  book_->Heard(Now(), *beat);
}

void DispatcherNode::OnLinkDown(LinkId link) {
  speakers_.erase(link);
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
  core_->On(Now(), event, actions_);
  for (const LogEvent& line : actions_.log) world_.Trace(*this, FormatEvent(line.event, line.fields));
  if (actions_.timer.has_value()) {
    After(*actions_.timer - Now(), [this, timer = ++timer_] {
      if (timer == timer_) Feed(TimerFired{});
    });
  }
  tick_.Take(actions_);
  if (flush_set_ || tick_.empty()) return;
  flush_set_ = true;
  After(world_.random.Micros(0, 5000), [this] { Flush(); });
}

void DispatcherNode::Flush() {
  flush_set_ = false;
  const bool crash = crash_at_commit && tick_.has_writes();
  const bool before = world_.random.Percent(50);
  crash_now_ = crash && before;
  restored_ = false;
  Result<Tick::Words> words = tick_.Commit([this](const std::vector<Write>& writes) { return Store(writes); });
  const bool after = (crash && !before) || (restored_ && crash_after_restore && world_.random.Percent(50));
  if (words.ok() && !after) Say(*std::move(words));
  if (!crash && !after) return;
  world_.Count(after ? "crash after commit" : "crash before commit");
  Crash();
}

Status DispatcherNode::Store(const std::vector<Write>& writes) {
  if (crash_now_) return Status(Code::kUnavailable, "the process is gone");
  for (const Write& write : writes) {
    restored_ = restored_ || write.key.starts_with("base/");
    if (write.value.has_value()) {
      store_[write.key] = *write.value;
    } else {
      store_.erase(write.key);
    }
  }
  if (!world_.random.Percent(25)) return {};
  CompareWithStore();
  CheckGrants();
  return {};
}

// What a restarted core would know is what this one knows.
void DispatcherNode::CompareWithStore() {
  const Snapshot now = core_->TakeSnapshot();
  if (now == store_ || book_ == nullptr) return;
  for (const auto& [key, value] : now) {
    auto stored = store_.find(key);
    if (stored == store_.end() || stored->second != value) world_.Violated("the core knows " + key + " otherwise than the store");
  }
  for (const auto& [key, value] : store_) {
    if (!now.contains(key)) world_.Violated("the store keeps " + key + ", which the core has forgotten");
  }
}

void DispatcherNode::Say(Tick::Words words) {
  for (Send& send : words.sends) {
    const LinkId link{Raw(send.session)};
    CheckGiven(link, send.message);
    world_.Send(link, *this, {StreamId{}, send.request, send.request != RequestId{}, std::move(send.message)});
  }
  for (Ask& ask : words.asks) {
    asked_[ask.ask] = LinkId{Raw(ask.session)};
    world_.Send(LinkId{Raw(ask.session)}, *this, {StreamId{}, RequestId{Raw(ask.ask)}, false, std::move(ask.message)});
    After(ask.deadline, [this, id = ask.ask] {
      if (asked_.erase(id) > 0) Feed(Answered{id, Status(Code::kDeadline, "no answer came")});
    });
  }
}

void DispatcherNode::CheckGiven(LinkId link, const Message& message) {
  const auto* reply = std::get_if<msg::BeatReply>(&message);
  const auto speaker = speakers_.find(link);
  if (reply == nullptr || book_ == nullptr || speaker == speakers_.end()) return;
  const auto& [job, consumer] = speaker->second;
  if (const std::string wrong = book_->Given(job, reply->generation, consumer, reply->grants); !wrong.empty()) world_.Violated(wrong);
}

// No two grants or pieces share a row.
void DispatcherNode::CheckGrants() {
  struct Part {
    Cursor from;
    Cursor to;
  };
  std::map<std::pair<uint64_t, LaneKey>, std::vector<Part>> parts;
  for (const auto& [key, value] : store_) {
    Result<ParsedKey> parsed = ParseKey(key);
    if (parsed->kind == "member") {
      Result<StoredMember> member = DecodeMember(value);
      for (const StoredGrant& grant : member->grants) parts[{parsed->first, grant.name.lane}].push_back({grant.held.from, grant.held.end()});
    } else if (parsed->kind == "epoch") {
      const EpochShape any{kEndlessLanes, 0};
      Result<EpochState> state = DecodeEpoch(Epoch{static_cast<uint32_t>(parsed->second)}, any, value);
      if (!state.ok()) continue;  // ranged: its shape is the job's
      for (const auto& [place, piece] : state->pool())
        parts[{parsed->first, piece.lane}].push_back({piece.from, EndOf(piece.to, piece.last_children)});
    }
  }
  for (auto& [lane, list] : parts) {
    std::sort(list.begin(), list.end(), [](const Part& a, const Part& b) { return a.from < b.from; });
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      if (list[i].to > list[i + 1].from) world_.Violated("two grants overlap in " + ToString(lane.second));
    }
  }
}

}  // namespace penstock::sim
