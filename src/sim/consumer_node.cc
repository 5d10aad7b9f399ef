#include "sim/consumer_node.h"

#include <algorithm>
#include <utility>

#include "base/constants.h"
#include "sim/trainer.h"

namespace penstock::sim {
namespace {
constexpr auto kJoinWithin = std::chrono::seconds(120);  // as reader_io.cc
constexpr auto kBeatWithin = std::chrono::seconds(5);
}  // namespace

ConsumerNode::ConsumerNode(World& world, const JobScenario& job, Cluster cluster, Trainer& trainer, uint32_t number)
    : Node(world, job.name + "-" + std::to_string(number)), job_(job), cluster_(cluster), trainer_(trainer), number_(number) {}

void ConsumerNode::Start(Launch launch) {
  if (up()) return;
  launch_ = std::move(launch);
  msg::Join join;
  join.dataset = job_.name;
  join.job_name = job_.name;
  join.mode = job_.mode;
  join.epochs = job_.epochs;
  join.consumers = launch_.consumers;
  join.index = launch_.index;
  join.attempt = launch_.attempt;
  join.incarnation = Hash(job_.seed, 2000 + number_, life());
  join.name = name();
  join.even = job_.even;
  join.on_death = job_.on_death;
  join.on_restart = OnRestart::kContinue;
  reader_ = {ConsumerId{join.incarnation}, launch_.index, launch_.consumers};
  ClientCoreOptions options;
  options.join = join;
  options.memory = job_.reader_memory;
  options.plan = job_.name;
  core_ = std::make_unique<ClientCore>(std::move(options));
  shelf_ = std::make_unique<Shelf>(clock(), [this] { After(world_.random.Micros(0, 3000), [this] { TakeProgress(); }); });
  asks_ = {};
  identity_ = {};
  joined_ = restoring_ = restored_ = begun_ = left_ = ended_ = waiting_told_ = done_ = false;
  steps_ = 0;
  Rise();
  world_.Trace(*this, "starts" + std::string(launch_.restore ? ", to restore" : ""));
  Connect();
  Turn();
}

void ConsumerNode::Crash() {
  if (!up() || done_) return;
  Kill();
  trainer_.RankDied(*this);
}

void ConsumerNode::Kill() {
  if (!up()) return;
  world_.Trace(*this, "dies");
  if (joined_) trainer_.ledger().Died(history(), reader_.consumer);
  Finish();
  done_ = false;
}

// The process ends: all it held goes.
void ConsumerNode::Finish() {
  core_.reset();
  shelf_.reset();
  link_.reset();
  workers_.clear();
  blocks_.clear();
  copied_.clear();
  asked_.clear();
  done_ = true;
  Fall();
}

void ConsumerNode::CutOff(Duration time) {
  if (!up() || done_) return;
  world_.Trace(*this, "is cut off from the dispatcher");
  cut_until_ = world_.now() + time;
  if (link_.has_value()) world_.Break(*link_);
}

void ConsumerNode::Connect() {
  if (link_.has_value()) return;
  if (world_.now() >= cut_until_) link_ = cluster_.home.Connect(world_, *this, identity_);
  if (!link_) return After(world_.random.Millis(20, 200), [this] { Connect(); });
  // Datasets are registered by whoever reads them: a repeated one is the same.
  world_.Send(*link_, *this, {{}, RequestId{++requests_}, false, msg::Register{job_.name}});
  Tell(event::DispatcherUp{});
}

void ConsumerNode::OnPacket(LinkId link, Packet packet) {
  if (auto* block = std::get_if<BlockOnTheWay>(&packet.body)) {
    const Handle handle{++handles_};
    blocks_[handle] = {link, block->handle, block->info.bytes};
    return Tell(event::BlockArrived{packet.stream, {handle, block->info, std::move(block->cursors)}});
  }
  auto& message = std::get<Message>(packet.body);
  if (link == link_) return OnDispatcher(packet.request, packet.reply, std::move(message));
  for (const auto& [worker, where] : workers_) {
    if (where == link) return OnWorker(worker, packet.stream, message);
  }
}

void ConsumerNode::OnWorker(WorkerId worker, StreamId stream, const Message& message) {
  if (std::holds_alternative<msg::Draining>(message)) return Tell(event::WorkerDraining{worker});
  if (const auto* ended = std::get_if<msg::LaneEnded>(&message)) return Tell(event::LaneSays{stream, *ended});
  if (const auto* failed = std::get_if<msg::LaneFailed>(&message)) return Tell(event::LaneSays{stream, *failed});
  if (const auto* refused = std::get_if<msg::Refused>(&message)) return Tell(event::LaneSays{stream, *refused});
  if (const auto* groups = std::get_if<msg::Groups>(&message)) return Tell(event::LaneSays{stream, *groups});
}

void ConsumerNode::OnDispatcher(RequestId request, bool reply, Message message) {
  auto asked = reply ? asked_.extract(request) : decltype(asked_)::node_type();
  const Asked word = asked.empty() ? Asked{} : asked.mapped();
  if (word.what == Asked::What::kLeave) return Finish();
  if (const auto* failed = std::get_if<msg::Failed>(&message)) {
    if (asked.empty()) return;
    asked_.insert(std::move(asked));
    return Unanswered(request, failed->error);
  }
  if (const auto* registered = std::get_if<msg::Registered>(&message)) Tell(*registered);
  if (const auto* joined = std::get_if<msg::Joined>(&message)) Tell(*joined);
  if (const auto* beat = std::get_if<msg::BeatReply>(&message)) Tell(*beat);
  if (const auto* saved = std::get_if<msg::SavedPosition>(&message); saved != nullptr && word.what == Asked::What::kSave)
    OnSaved(word, saved->position);
  if (const auto* ask = std::get_if<msg::PartAsk>(&message)) {
    asks_.Add(*ask);
    AnswerParts();
  }
}

void ConsumerNode::OnLinkDown(LinkId link) {
  if (link == link_) {
    link_.reset();
    if (left_) return;
    Tell(event::DispatcherDown{Status(Code::kUnavailable, "the connection broke")});
    std::vector<RequestId> lost;
    for (const auto& [request, asked] : asked_) lost.push_back(request);
    for (RequestId request : lost) Unanswered(request, Status(Code::kUnavailable, "the connection broke"));
    return After(world_.random.Millis(10, 300), [this] { Connect(); });
  }
  for (const auto& [worker, where] : workers_) {
    if (where != link) continue;
    const WorkerId lost = worker;
    workers_.erase(lost);
    return Tell(event::WorkerDown{lost, Status(Code::kUnavailable, "the connection broke")});
  }
}

// ---- requests

void ConsumerNode::Ask(Message message, Asked asked, Duration deadline) {
  if (!link_.has_value()) return;
  const RequestId request{++requests_};
  asked.generation = core_->generation();
  asked_[request] = std::move(asked);
  world_.Send(*link_, *this, {{}, request, false, std::move(message)});
  After(deadline, [this, request] { Unanswered(request, Status(Code::kDeadline, "no answer came")); });
}

// It failed, or no answer came. What was said of an earlier generation is not for the core.
void ConsumerNode::Unanswered(RequestId request, const Status& why) {
  const auto asked = asked_.extract(request);
  if (asked.empty() || core_ == nullptr) return;
  const Asked word = asked.mapped();
  if (word.what == Asked::What::kRestore) return Tell(event::RestoreRefused{why});
  if (word.what == Asked::What::kWord && word.generation == core_->generation()) Tell(msg::Failed{why});
}

void ConsumerNode::Tell(const ClientEvent& event) {
  if (core_ == nullptr) return;
  TellCore(event);
  while (!copied_.empty()) {
    for (const event::TailCopied& copied : std::exchange(copied_, {})) TellCore(copied);
  }
  if (core_ != nullptr && !core_->settles_later()) TakeProgress();
}

void ConsumerNode::TellCore(const ClientEvent& event) {
  ClientActions actions;
  core_->On(Now(), event, actions);
  const uint64_t before = life();
  for (const ClientAction& action : actions.list) {
    Perform(action);
    if (life() != before) return;
  }
  CheckBudget();
}

// All that lies in its memory, whoever holds it; a block larger than the budget may be there alone.
void ConsumerNode::CheckBudget() {
  uint64_t held = 0;
  for (const auto& [handle, block] : blocks_) held += block.bytes;
  if (held <= job_.reader_memory || blocks_.size() == 1) return;
  world_.Violated(name() + " holds " + std::to_string(held) + " bytes of blocks, and has a budget of " + std::to_string(job_.reader_memory));
}

void ConsumerNode::TakeProgress() {
  if (shelf_ == nullptr) return;
  const Progress progress = shelf_->TakeProgress();
  const bool before = std::exchange(waiting_told_, progress.waiting);
  if (!progress.marks.empty() || !progress.passed.empty() || progress.ring || (progress.waiting && !before)) Tell(progress);
  AnswerParts();
}

// ---- actions

void ConsumerNode::Perform(const ClientAction& action) {
  if (const auto* joined = std::get_if<action::JoinedJob>(&action)) {
    joined_ = true;
    SetJob(joined->joined);
  }
  if (const auto* restored = std::get_if<action::Restored>(&action)) Restored(restored->joined);
  if (const auto* failed = std::get_if<action::RestoreFailed>(&action)) return Told(failed->status);
  if (const auto* failed = std::get_if<action::Fail>(&action); failed != nullptr && restoring_) return Told(failed->status);
  if (ApplyToShelf(action, *shelf_)) {
    // Others in lockstep wait for its seat's step, which it has before it has a batch: it may have come to an epoch that waits for them.
    if (std::holds_alternative<action::ShelfCount>(action)) steps_ = shelf_->tag().step;
    return;
  }
  if (const auto* shrink = std::get_if<action::ShrinkTail>(&action)) return copied_.push_back(ShrinkTail(*shrink));
  if (const auto* send = std::get_if<action::SendDispatcher>(&action)) return SendDispatcher(send->message);
  if (const auto* send = std::get_if<action::SendRestore>(&action)) return SendRestore(send->restore);
  if (const auto* connect = std::get_if<action::ConnectWorker>(&action)) return ConnectWorker(connect->worker);
  if (const auto* release = std::get_if<action::Release>(&action)) return Release(release->handle);
  if (const auto* close = std::get_if<action::CloseWorker>(&action)) {
    if (auto it = workers_.find(close->worker); it != workers_.end()) world_.Break(std::exchange(it->second, {}));
    workers_.erase(close->worker);
  } else if (const auto* to = std::get_if<action::SendWorker>(&action)) {
    if (auto it = workers_.find(to->worker); it != workers_.end()) world_.Send(it->second, *this, {to->stream, {}, false, to->message});
  } else if (std::holds_alternative<action::SettleSoon>(action)) {
    After(world_.random.Micros(0, 500), [this] { Tell(event::Settle{}); });
  } else if (const auto* timer = std::get_if<action::SetTimer>(&action)) {
    After(std::max(timer->at - Now(), Duration{0}), [this, number = ++timer_] {
      if (number == timer_) Tell(event::Timer{});
    });
  }
}

void ConsumerNode::SendDispatcher(const Message& message) {
  if (std::holds_alternative<msg::Leave>(message)) return Ask(message, {Asked::What::kLeave}, kBeatWithin);
  Ask(message, {}, std::holds_alternative<msg::Join>(message) ? Duration(kJoinWithin) : Duration(kBeatWithin));
}

void ConsumerNode::Release(Handle handle) {
  auto block = blocks_.find(handle);
  if (block == blocks_.end() || std::exchange(block->second.released, true)) return world_.Violated(name() + " released a block twice");
  FreeIfUnused(handle);
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
  if (job_.shared_memory && block.from != LinkId{}) world_.Send(block.from, *this, {{}, {}, false, BlockLetGo{block.handle}});
  After(Duration{0}, [this, handle] { Tell(event::Freed{handle}); });
}

// A copy is memory of the reader's own: letting go of it is nobody else's business.
event::TailCopied ConsumerNode::ShrinkTail(const action::ShrinkTail& shrink) {
  const std::optional<Slice> tail = shelf_->ThinTail(shrink.grant);
  const uint64_t bytes = tail.has_value() ? tail->rows * job_.row_bytes : 0;
  if (!tail.has_value() || bytes > shrink.room) return {shrink.grant, std::nullopt, bytes};
  const Handle copy{++handles_};
  ShelfBlock block{copy, {.rows = tail->rows, .first = tail->first, .end = tail->end, .bytes = bytes}, {}};
  const auto rows = RowsOfSlice(job_, *tail);
  if (!rows) return {shrink.grant, std::nullopt, 0};
  if (!job_.plain()) {
    for (const Row& row : *rows) block.cursors.push_back(row.at);
    block.cursors.push_back(tail->end);
  }
  if (!shelf_->ReplaceTail(*tail, std::move(block))) return {shrink.grant, std::nullopt, 0};
  blocks_[copy] = {LinkId{}, 0, bytes};
  return {shrink.grant, copy, bytes};
}

void ConsumerNode::ConnectWorker(const msg::WorkerInfo& info) {
  After(world_.random.Micros(200, 5000), [this, wanted = info.worker] {
    if (left_) return;
    for (const auto& worker : cluster_.workers) {
      if (const auto link = worker->Accept(*this, wanted, job_.shared_memory)) {
        workers_[wanted] = *link;
        return Tell(event::WorkerUp{wanted});
      }
    }
    Tell(event::WorkerDown{wanted, Status(Code::kUnavailable, "nobody is there")});
  });
}

}  // namespace penstock::sim
