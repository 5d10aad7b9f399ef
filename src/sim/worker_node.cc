#include "sim/worker_node.h"

#include <algorithm>
#include <utility>

namespace penstock::sim {

void WorkerNode::Start() {
  id_ = WorkerId{Hash(scenario_.seed, 1000 + number_, life())};
  worker::CoreOptions options;
  options.memory = scenario_.worker_memory;
  options.block_target = scenario_.row_bytes * std::max<uint64_t>(1, scenario_.layout.group_rows()) * 2;
  options.hello.incarnation = Raw(id_);
  options.hello.address = name();
  options.hello.name = name();
  options.drain_timeout = std::chrono::seconds(5);
  core_ = std::make_unique<worker::WorkerCore>(std::move(options));
  Rise();
  world_.Trace(*this, "starts");
  Connect();
}

void WorkerNode::Crash() {
  if (!up()) return;
  world_.Trace(*this, "goes down");
  ++lost_;
  core_.reset();
  link_.reset();
  sessions_.clear();
  tasks_.clear();
  blocks_.clear();
  fetching_.clear();
  Fall();
  world_.At(world_.now() + world_.random.Millis(50, 3000), [this] { Start(); });
}

void WorkerNode::Drain() {
  if (up()) Tell(worker::DrainAsked{});
}

void WorkerNode::Connect() {
  if (link_.has_value()) return;
  if (!dispatcher_.up()) return After(world_.random.Millis(20, 200), [this] { Connect(); });
  link_ = world_.Connect(*this, dispatcher_);
  Tell(worker::DispatcherUp{});
}

std::optional<LinkId> WorkerNode::Accept(Node& consumer, WorkerId wanted) {
  if (!up() || id_ != wanted) return std::nullopt;
  const LinkId link = world_.Connect(consumer, *this);
  sessions_.insert(link);
  Tell(worker::SessionOpened{SessionId{Raw(link)}, scenario_.shared_memory});
  return link;
}

void WorkerNode::OnPacket(LinkId link, Packet packet) {
  if (const auto* gone = std::get_if<BlockLetGo>(&packet.body)) return Freed(gone->handle);
  auto& message = std::get<Message>(packet.body);
  if (link != link_) {
    Tell(worker::ConsumerSaid{SessionId{Raw(link)}, packet.stream, std::move(message)});
    return;
  }
  if (auto fetch = fetching_.extract(packet.request); packet.reply && !fetch.empty()) {
    if (const auto* failed = std::get_if<msg::Failed>(&message)) return Tell(worker::JobFailed{fetch.mapped(), failed->error});
    const auto& job = std::get<msg::JobReply>(message);
    return Tell(worker::JobKnown{job.job, job.generation, scenario_.layout.group_rows(), 0});
  }
  Tell(worker::DispatcherSaid{packet.request, std::move(message)});
}

void WorkerNode::OnLinkDown(LinkId link) {
  if (link == link_) {
    link_.reset();
    Tell(worker::DispatcherDown{});
    for (const auto& [request, job] : std::exchange(fetching_, {}))
      Tell(worker::JobFailed{job, Status(Code::kUnavailable, "the dispatcher is away")});
    return After(world_.random.Millis(10, 200), [this] { Connect(); });
  }
  sessions_.erase(link);
  Tell(worker::SessionClosed{SessionId{Raw(link)}});
  std::vector<uint64_t> home;
  for (const auto& [handle, block] : blocks_) {
    if (block.out == link) home.push_back(handle);
  }
  for (uint64_t handle : home) Freed(handle);
}

void WorkerNode::Tell(const worker::Event& event) {
  if (!up()) return;
  worker::Actions actions;
  core_->On(world_.now(), event, actions);
  const worker::CoreStats stats = core_->stats();
  if (stats.committed > scenario_.worker_memory) world_.Violated(name() + " has committed more than its budget");
  const uint64_t life_before = life();
  for (const worker::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
    if (life() != life_before) return;  // it has exited
  }
}

void WorkerNode::Freed(uint64_t handle) {
  if (blocks_.erase(handle) > 0) Tell(worker::BlockFreed{worker::BlockHandle{handle}});
}

void WorkerNode::CheckAtRest() {
  if (up() && sessions_.empty() && core_->stats().blocks_out != 0) {
    world_.Violated(name() + " holds " + std::to_string(core_->stats().blocks_out) + " blocks and has no session");
  }
}

// ---- actions

void WorkerNode::Do(const worker::SendToConsumer& a) { world_.Send(LinkId{Raw(a.session)}, *this, {a.stream, {}, false, a.message}); }

void WorkerNode::Do(const worker::SendBlock& a) {
  const LinkId link{Raw(a.session)};
  Block& block = blocks_.at(Raw(a.handle));
  block.out = link;
  if (sessions_.contains(link)) world_.Send(link, *this, {a.stream, {}, false, BlockOnTheWay{Raw(a.handle), block.info}});
  if (scenario_.shared_memory && a.how == Handover::kLend && sessions_.contains(link)) return;
  After(world_.random.Micros(10, 2000), [this, handle = Raw(a.handle)] { Freed(handle); });
}

// A copy has no memory here: letting go of it is nobody's word.
void WorkerNode::Do(const worker::SendCopy& a) {
  const LinkId link{Raw(a.session)};
  const BlockOnTheWay copy{++handles_, blocks_.at(Raw(a.handle)).info};
  if (sessions_.contains(link)) world_.Send(link, *this, {a.stream, {}, false, copy});
}

void WorkerNode::Do(const worker::ReleaseBlock& a) {
  if (blocks_.erase(Raw(a.handle)) == 0) world_.Violated(name() + " released a block twice");
}

void WorkerNode::Do(const worker::FetchJob& a) {
  if (!link_.has_value()) {
    return After(world_.random.Micros(10, 1000), [this, job = a.job] {
      Tell(worker::JobFailed{job, Status(Code::kUnavailable, "the dispatcher is away")});
    });
  }
  const RequestId request{++requests_};
  fetching_[request] = a.job;
  world_.Send(*link_, *this, {{}, request, false, msg::GetJob{a.job}});
}

void WorkerNode::Do(const worker::StartLane& a) { tasks_[a.task] = {a.lane, a.from.seq, a.to, a.block_target}; }
void WorkerNode::Do(const worker::ExtendLane& a) { tasks_.at(a.task).to = a.to; }
void WorkerNode::Do(const worker::StopLane& a) { tasks_.erase(a.task); }

void WorkerNode::Do(const worker::StepLane& a) {
  After(world_.random.Micros(100, 20000), [this, step = a] {
    auto task = tasks_.find(step.task);
    if (task == tasks_.end()) return world_.Violated(name() + " stopped a lane that it had let step");
    Tell(worker::StepDone{step.task, Make(task->second, step.room), 0});
  });
}

worker::StepOutcome WorkerNode::Make(Task& task, uint64_t room) {
  const Seq end = scenario_.RowsOf(task.lane);
  // The lane's end, also where the range began past it.
  if (task.at >= end) return LaneOver{{std::max(task.at, end), 0}, true};
  if (task.at >= task.to) return LaneOver{{task.to, 0}, false};
  const uint64_t group = scenario_.layout.group_rows();
  const Seq stop = std::min(end, task.to);
  uint64_t rows = std::min<uint64_t>(stop - task.at, group * world_.random.Between(1, 2));
  if (rows * scenario_.row_bytes > room) rows = std::min<uint64_t>(stop - task.at, group);
  const uint64_t bytes = rows * scenario_.row_bytes;
  if (bytes > room) return Blocked{Waits::kBudget, bytes};
  const uint64_t handle = ++handles_;
  BlockInfo info{.rows = rows, .first = {task.at, 0}, .end = {task.at + rows, 0}, .bytes = bytes};
  task.at += rows;
  blocks_[handle] = {std::nullopt, info};
  return worker::BlockToken{info, worker::BlockHandle{handle}, bytes};
}

void WorkerNode::Do(const worker::SendToDispatcher& a) {
  if (link_.has_value()) world_.Send(*link_, *this, {{}, RequestId{++requests_}, false, a.message});
}

void WorkerNode::Do(const worker::ListJobInputs& a) {
  After(world_.random.Millis(1, 50), [this, link = link_, request = a.request, job = a.ask.job] {
    if (link.has_value()) world_.Send(*link, *this, {{}, request, true, msg::Inputs{job, "manifest", "hash", scenario_.layout}});
  });
}

void WorkerNode::Do(const worker::SetTimer& a) {
  if (a.at <= world_.now()) world_.Trace(*this, "wants a timer at once");
  After(std::max(a.at - world_.now(), Duration{0}), [this, timer = ++timer_] {
    if (timer == timer_) Tell(worker::TimerFired{});
  });
}

void WorkerNode::Do(const worker::ExitNow&) {
  world_.Trace(*this, "has drained");
  Crash();
}

}  // namespace penstock::sim
