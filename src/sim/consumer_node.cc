#include "sim/consumer_node.h"

#include <algorithm>
#include <utility>

namespace penstock::sim {

void ConsumerNode::Start() {
  msg::Join join;
  join.dataset = "plan";
  join.job_name = "train";
  join.mode = scenario_.mode;
  join.epochs = scenario_.epochs;
  join.consumers = scenario_.declared ? scenario_.consumers : 0;
  join.index = scenario_.declared ? number_ : 0;
  join.incarnation = Hash(scenario_.seed, 2000 + number_, life());
  join.name = name();
  join.even = Even::kUneven;
  join.on_death = OnDeath::kRedeliver;
  join.on_restart = OnRestart::kContinue;
  ClientCoreOptions options;
  options.join = join;
  options.memory = scenario_.reader_memory;
  core_ = std::make_unique<ClientCore>(std::move(options));
  shelf_ = std::make_unique<Shelf>(world_.clock(), [this] { After(world_.random.Micros(0, 3000), [this] { TakeProgress(); }); });
  joined_ = begun_ = left_ = waiting_told_ = done_ = false;
  Rise();
  world_.Trace(*this, "starts");
  Connect();
  Turn();
}

void ConsumerNode::Crash() {
  if (!up() || done_) return;
  world_.Trace(*this, "dies");
  world_.Count("consumer crash");
  Finish();
  done_ = false;
  world_.At(world_.now() + world_.random.Millis(50, 5000), [this] { Start(); });
}

// The process ends: all it held goes.
void ConsumerNode::Finish() {
  core_.reset();
  shelf_.reset();
  link_.reset();
  workers_.clear();
  blocks_.clear();
  done_ = true;
  Fall();
}

void ConsumerNode::CutOff(Duration time) {
  if (!up() || done_) return;
  world_.Count("consumer cut off");
  world_.Trace(*this, "is cut off from the dispatcher");
  cut_until_ = world_.now() + time;
  if (link_.has_value()) world_.Break(*link_);
}

void ConsumerNode::Connect() {
  if (link_.has_value()) return;
  if (!cluster_.dispatcher.up() || world_.now() < cut_until_) return After(world_.random.Millis(20, 200), [this] { Connect(); });
  link_ = world_.Connect(*this, cluster_.dispatcher);
  // Datasets are registered by whoever reads them: a repeated one is the same.
  world_.Send(*link_, *this, {{}, RequestId{++requests_}, false, msg::Register{"plan"}});
  Tell(event::DispatcherUp{});
}

void ConsumerNode::OnPacket(LinkId link, Packet packet) {
  if (const auto* block = std::get_if<BlockOnTheWay>(&packet.body)) {
    const Handle handle{++handles_};
    blocks_[handle] = {link, block->handle, block->info.bytes};
    return Tell(event::BlockArrived{packet.stream, {handle, block->info, {}}});
  }
  auto& message = std::get<Message>(packet.body);
  if (link == link_) {
    if (std::holds_alternative<msg::Done>(message) && left_) return Finish();
    if (const auto* joined = std::get_if<msg::Joined>(&message)) Tell(*joined);
    if (const auto* reply = std::get_if<msg::BeatReply>(&message)) Tell(*reply);
    if (const auto* failed = std::get_if<msg::Failed>(&message)) Tell(*failed);
    return;
  }
  for (const auto& [worker, where] : workers_) {
    if (where != link) continue;
    if (std::holds_alternative<msg::Draining>(message)) return Tell(event::WorkerDraining{worker});
    if (auto* ended = std::get_if<msg::LaneEnded>(&message)) return Tell(event::LaneSays{packet.stream, *ended});
    if (auto* failed = std::get_if<msg::LaneFailed>(&message)) return Tell(event::LaneSays{packet.stream, *failed});
    if (auto* refused = std::get_if<msg::Refused>(&message)) return Tell(event::LaneSays{packet.stream, *refused});
    if (auto* groups = std::get_if<msg::Groups>(&message)) return Tell(event::LaneSays{packet.stream, *groups});
    return;
  }
}

void ConsumerNode::OnLinkDown(LinkId link) {
  if (link == link_) {
    link_.reset();
    if (left_) return;
    Tell(event::DispatcherDown{Status(Code::kUnavailable, "the connection broke")});
    return After(world_.random.Millis(10, 300), [this] { Connect(); });
  }
  for (const auto& [worker, where] : workers_) {
    if (where != link) continue;
    const WorkerId lost = worker;
    workers_.erase(lost);
    return Tell(event::WorkerDown{lost, Status(Code::kUnavailable, "the connection broke")});
  }
}

void ConsumerNode::Tell(const ClientEvent& event) {
  if (core_ == nullptr) return;
  TellCore(event);
  while (!copied_.empty()) {
    for (const event::TailCopied& copied : std::exchange(copied_, {})) TellCore(copied);
  }
  TakeProgress();
}

void ConsumerNode::TellCore(const ClientEvent& event) {
  ClientActions actions;
  core_->On(world_.now(), event, actions);
  for (const ClientAction& action : actions.list) Perform(action);
  CheckBudget();
}

// All that lies in its memory, whoever holds it; a block larger than the budget may be there alone.
void ConsumerNode::CheckBudget() {
  uint64_t held = 0;
  for (const auto& [handle, block] : blocks_) held += block.bytes;
  if (held <= scenario_.reader_memory || blocks_.size() == 1) return;
  world_.Violated(name() + " holds " + std::to_string(held) + " bytes of blocks, and has a budget of " + std::to_string(scenario_.reader_memory));
}

void ConsumerNode::TakeProgress() {
  if (shelf_ == nullptr) return;
  const Progress progress = shelf_->TakeProgress();
  const bool before = std::exchange(waiting_told_, progress.waiting);
  if (!progress.marks.empty() || !progress.passed.empty() || (progress.waiting && !before)) Tell(progress);
}

// ---- the loop

void ConsumerNode::Turn() {
  if (left_) return;
  if (joined_ && !std::exchange(begun_, true)) Tell(event::Begin{});
  Shelf::Taken taken = shelf_->Next();
  if (auto* batch = std::get_if<std::vector<Slice>>(&taken)) {
    Receive(*batch);
  } else if (std::holds_alternative<Shelf::EpochEnd>(taken)) {
    return NextEpoch();
  } else if (const auto* status = std::get_if<Status>(&taken)) {
    world_.Trace(*this, "is told " + status->ToString());
    // A finished job is how a consumer that came back learns that others did the rest.
    if (status->code() == Code::kFinished) return Finish();
    // One that came back before the dispatcher saw it die is refused its index: it tries again.
    const bool expected = status->code() == Code::kStale || (status->code() == Code::kExists && scenario_.declared && life() > 0);
    if (!expected) world_.Violated(name() + " failed: " + status->ToString());
    return Crash();
  }
  if (joined_ && scenario_.breaks && world_.random.Percent(1) && world_.random.Percent(30) && Raw(epoch_) + 1 < scenario_.epochs) {
    world_.Trace(*this, "breaks off");
    world_.Count("loop break");
    broke_off_ = true;
    return NextEpoch();
  }
  After(world_.random.Percent(5) ? world_.random.Millis(20, 200) : world_.random.Micros(100, 10000), [this] { Turn(); });
}

void ConsumerNode::Receive(const std::vector<Slice>& batch) {
  if (const std::string wrong = cluster_.ledger.Deliver(epoch_, batch); !wrong.empty()) world_.Violated(name() + ": " + wrong);
  if (world_.trace) {
    std::string text = "receives";
    for (const Slice& slice : batch) {
      text += " " + penstock::ToString(slice.grant.lane) + " [" + std::to_string(slice.first.seq) + "," + std::to_string(slice.end.seq) + ") fence " +
              std::to_string(Raw(slice.grant.fence)) + ";";
    }
    world_.Trace(*this, text);
  }
  std::vector<Handle> handles;
  for (const Slice& slice : batch) {
    if (!blocks_.contains(slice.handle)) return world_.Violated(name() + " was handed rows of a block that was let go");
    ++blocks_[slice.handle].in_loop;
    handles.push_back(slice.handle);
  }
  shelf_->Claimed();
  After(world_.random.Micros(100, 50000), [this, handles] { LetGo(handles); });
}

void ConsumerNode::LetGo(const std::vector<Handle>& handles) {
  for (Handle handle : handles) {
    auto block = blocks_.find(handle);
    if (block == blocks_.end()) continue;
    --block->second.in_loop;
    FreeIfUnused(handle);
  }
}

void ConsumerNode::FreeIfUnused(Handle handle) {
  const Block block = blocks_.at(handle);
  if (!block.released || block.in_loop > 0) return;
  blocks_.erase(handle);
  if (scenario_.shared_memory && block.from != LinkId{}) world_.Send(block.from, *this, {{}, {}, false, BlockLetGo{block.handle}});
  After(Duration{0}, [this, handle] { Tell(event::Freed{handle}); });
}

void ConsumerNode::NextEpoch() {
  const Epoch next{Raw(epoch_) + 1};
  if (Raw(next) >= scenario_.epochs) return Leave();
  world_.Trace(*this, "goes on to epoch " + std::to_string(Raw(next)));
  epoch_ = next;
  shelf_->BeginEpoch(next);
  TakeProgress();
  Tell(event::StartEpoch{next});
  After(world_.random.Micros(100, 10000), [this] { Turn(); });
}

void ConsumerNode::Leave() {
  world_.Trace(*this, "leaves");
  shelf_->Close();
  TakeProgress();
  Tell(event::Close{});
  left_ = true;
  for (const auto& [handle, block] : blocks_) {
    if (!block.released && block.in_loop == 0) return world_.Violated(name() + " has closed and kept a block");
  }
  After(std::chrono::milliseconds(1500), [this] { Finish(); });
}

// ---- actions

void ConsumerNode::Perform(const ClientAction& action) {
  if (const auto* joined = std::get_if<action::JoinedJob>(&action)) {
    joined_ = true;
    epoch_ = joined->joined.epoch;
  }
  if (ApplyToShelf(action, *shelf_)) return;
  if (const auto* shrink = std::get_if<action::ShrinkTail>(&action)) {
    copied_.push_back(ShrinkTail(*shrink));
  } else if (const auto* send = std::get_if<action::SendDispatcher>(&action)) {
    if (!link_.has_value()) return;
    const RequestId request{++requests_};
    world_.Send(*link_, *this, {{}, request, false, send->message});
    if (world_.random.Percent(2)) world_.Send(*link_, *this, {{}, request, false, send->message});  // a repeated one is harmless
  } else if (const auto* connect = std::get_if<action::ConnectWorker>(&action)) {
    ConnectWorker(connect->worker);
  } else if (const auto* close = std::get_if<action::CloseWorker>(&action)) {
    if (auto it = workers_.find(close->worker); it != workers_.end()) world_.Break(std::exchange(it->second, {}));
    workers_.erase(close->worker);
  } else if (const auto* to = std::get_if<action::SendWorker>(&action)) {
    if (auto it = workers_.find(to->worker); it != workers_.end()) world_.Send(it->second, *this, {to->stream, {}, false, to->message});
  } else if (const auto* release = std::get_if<action::Release>(&action)) {
    auto block = blocks_.find(release->handle);
    if (block == blocks_.end() || std::exchange(block->second.released, true)) return world_.Violated(name() + " released a block twice");
    FreeIfUnused(release->handle);
  } else if (const auto* timer = std::get_if<action::SetTimer>(&action)) {
    if (timer->at <= world_.now()) world_.Trace(*this, "wants a timer at once");
    After(std::max(timer->at - world_.now(), Duration{0}), [this, number = ++timer_] {
      if (number == timer_) Tell(event::Timer{});
    });
  }
}

// A copy is memory of the reader's own: letting go of it is nobody else's business.
event::TailCopied ConsumerNode::ShrinkTail(const action::ShrinkTail& shrink) {
  const std::optional<Slice> tail = shelf_->ThinTail(shrink.grant);
  const uint64_t bytes = tail.has_value() ? tail->rows * scenario_.row_bytes : 0;
  if (!tail.has_value() || bytes > shrink.room) return {shrink.grant, std::nullopt, bytes};
  const Handle copy{++handles_};
  const BlockInfo info{.rows = tail->rows, .first = tail->first, .end = tail->end, .bytes = bytes};
  if (!shelf_->ReplaceTail(*tail, {copy, info, {}})) return {shrink.grant, std::nullopt, 0};
  blocks_[copy] = {LinkId{}, 0, bytes};
  return {shrink.grant, copy, bytes};
}

void ConsumerNode::ConnectWorker(const msg::WorkerInfo& info) {
  After(world_.random.Micros(200, 5000), [this, wanted = info.worker] {
    if (left_) return;
    for (const auto& worker : cluster_.workers) {
      if (const auto link = worker->Accept(*this, wanted)) {
        workers_[wanted] = *link;
        return Tell(event::WorkerUp{wanted});
      }
    }
    Tell(event::WorkerDown{wanted, Status(Code::kUnavailable, "nobody is there")});
  });
}

}  // namespace penstock::sim
