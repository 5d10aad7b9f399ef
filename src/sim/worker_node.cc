#include "sim/worker_node.h"

#include <algorithm>
#include <utility>

#include "sim/rows.h"

namespace penstock::sim {
namespace {
constexpr auto kFetchWithin = std::chrono::seconds(10);
}  // namespace

void WorkerNode::Start() {
  id_ = WorkerId{Hash(scenario_.seed, 1000 + number_, life())};
  uint64_t target = 0;
  for (const auto* jobs : {&scenario_.jobs, &scenario_.others}) {
    for (const JobScenario& job : *jobs) target = std::max(target, job.row_bytes * std::max<uint64_t>(1, job.layout.group_rows()) * 2);
  }
  worker::CoreOptions options;
  options.memory = scenario_.worker_memory;
  options.block_target = target;
  options.hello.incarnation = Raw(id_);
  options.hello.address = name();
  options.hello.name = name();
  options.drain_timeout = std::chrono::seconds(5);
  core_ = std::make_unique<worker::WorkerCore>(std::move(options));
  identity_ = {};
  Rise();
  world_.Trace(*this, "starts");
  Connect();
}

void WorkerNode::Crash() {
  if (!up()) return;
  world_.Trace(*this, "goes down");
  core_.reset();
  link_.reset();
  sessions_.clear();
  jobs_.clear();
  tasks_.clear();
  blocks_.clear();
  fetching_.clear();
  Fall();
  world_.At(world_.now() + world_.random.Millis(50, 3000), [this] { Start(); });
}

void WorkerNode::Drain() {
  if (up()) WhenAwake(life(), [this] { Tell(worker::DrainAsked{}); });
}

void WorkerNode::SlowDown(Duration time) {
  world_.Trace(*this, "is slow for a while");
  slow_until_ = world_.now() + time;
}

void WorkerNode::Connect() {
  if (link_.has_value()) return;
  link_ = home_.Connect(world_, *this, identity_);
  if (!link_) return After(world_.random.Millis(20, 200), [this] { Connect(); });
  Tell(worker::DispatcherUp{});
}

std::optional<LinkId> WorkerNode::Accept(Node& consumer, WorkerId wanted, bool shared_memory) {
  if (id_ != wanted) return std::nullopt;
  const std::optional<LinkId> link = world_.Connect(consumer, *this, World::Kind::kData);
  if (!link) return std::nullopt;
  sessions_[*link] = {shared_memory};
  WhenAwake(life(), [this, link, shared_memory] { Tell(worker::SessionOpened{SessionId{Raw(*link)}, shared_memory}); });
  return link;
}

void WorkerNode::OnPacket(LinkId link, Packet packet) {
  if (const auto* gone = std::get_if<BlockLetGo>(&packet.body)) return Freed(gone->handle);
  auto& message = std::get<Message>(packet.body);
  if (link != link_) return Tell(worker::ConsumerSaid{SessionId{Raw(link)}, packet.stream, std::move(message)});
  auto fetch = packet.reply ? fetching_.extract(packet.request) : decltype(fetching_)::node_type();
  if (!fetch.empty()) {
    if (const auto* failed = std::get_if<msg::Failed>(&message)) return Tell(worker::JobFailed{fetch.mapped(), failed->error});
    const auto& job = std::get<msg::JobReply>(message);
    jobs_[job.job] = &scenario_.JobOf(job.plan);
    return Tell(worker::JobKnown{job.job, job.generation, jobs_[job.job]->layout.group_rows(), 0, 0});
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
  core_->On(Now(), event, actions);
  const worker::CoreStats stats = core_->stats();
  if (stats.committed > scenario_.worker_memory) world_.Violated(name() + " has committed more than its budget");
  const uint64_t life_before = life();
  for (const worker::Action& action : actions) {
    std::visit([this](const auto& a) { Do(a); }, action);
    if (life() != life_before) return;  // it has exited
  }
  uint64_t held = 0;
  for (const auto& [handle, block] : blocks_) held += block.words.info.bytes;
  if (held > scenario_.worker_memory) world_.Violated(name() + " holds " + std::to_string(held) + " bytes of blocks, more than its budget");
}

void WorkerNode::Freed(uint64_t handle) {
  if (blocks_.erase(handle) > 0) Tell(worker::BlockFreed{worker::BlockHandle{handle}});
}

void WorkerNode::CheckAtRest() {
  if (up() && sessions_.empty() && core_->stats().blocks_out != 0) {
    world_.Violated(name() + " holds " + std::to_string(core_->stats().blocks_out) + " blocks and has no session");
  }
}

// ---- rows

// By group up to four blocks, where the room allows.
worker::StepDone WorkerNode::Make(const worker::StepLane& step, Task& task) {
  uint64_t room = step.room;
  worker::StepDone done{step.task, MakeBlock(task, room), 0, {}};
  for (uint64_t more = task.by_group ? world_.random.Below(4) : 0; more > 0 && done.block() != nullptr; --more) {
    room -= done.block()->charge;
    if (room < done.block()->charge) break;
    done.before.push_back(*done.block());
    done.outcome = MakeBlock(task, room);
  }
  if (std::holds_alternative<Blocked>(done.outcome) && !done.before.empty()) {
    done.outcome = done.before.back();
    done.before.pop_back();
  }
  return done;
}

// Up to two groups, or one, as the room allows; one that is cut at the range's end, or the lane's.
worker::StepOutcome WorkerNode::MakeBlock(Task& task, uint64_t room) {
  const JobScenario& job = *task.job;
  const uint64_t group = job.layout.group_rows();
  uint64_t most = group * (task.by_group ? 1 : world_.random.Between(1, 2));
  if (most * job.row_bytes > room) most = group;
  BlockOnTheWay block;
  block.info.first = task.at;
  std::optional<Cursor> at = RowAt(job, task.lane, task.at);
  for (; at && at->seq < task.to && block.info.rows < most; at = RowAt(job, task.lane, {at->seq, at->child + 1})) {
    ++block.info.rows;
    block.cursors.push_back(*at);
    block.info.end = {at->seq, at->child + 1};
    if (block.info.end.child >= job.RowsOf(task.lane, at->seq)) block.info.end = {at->seq + 1, 0};
  }
  if (block.info.rows == 0) {
    // The lane's end, also where the range began past it.
    const Seq end = job.SourceRows(task.lane);
    if (!at) return LaneOver{std::max(task.from, Cursor{end, 0}), true};
    return LaneOver{{task.to, 0}, false};
  }
  block.info.bytes = block.info.rows * job.row_bytes;
  block.info.digest = Hash(Raw(task.lane.lane), block.info.first.seq, block.info.first.child) ^ Hash(block.info.rows, block.info.end.seq, 1);
  if (block.info.bytes > room) return Blocked{Waits::kBudget, block.info.bytes};
  block.cursors.push_back(block.info.end);
  if (job.plain()) block.cursors.clear();
  block.handle = ++handles_;
  task.at = block.info.end;
  const worker::BlockToken token{block.info, worker::BlockHandle{block.handle}, block.info.bytes};
  blocks_[block.handle] = {std::nullopt, false, std::move(block)};
  return token;
}

// ---- actions

void WorkerNode::Do(const worker::SendToConsumer& a) { world_.Send(LinkId{Raw(a.session)}, *this, {a.stream, {}, false, a.message}); }

void WorkerNode::Do(const worker::SendBlock& a) {
  const LinkId link{Raw(a.session)};
  Block& block = blocks_.at(Raw(a.handle));
  block.out = link;
  const auto session = sessions_.find(link);
  if (session != sessions_.end()) world_.Send(link, *this, {a.stream, {}, false, block.words});
  if (session != sessions_.end() && session->second.shares_memory && a.how == Handover::kLend) return;
  After(world_.random.Micros(10, 2000), [this, handle = Raw(a.handle)] { Freed(handle); });
}

// A copy has no memory here: letting go of it is nobody's word.
void WorkerNode::Do(const worker::SendCopy& a) {
  const LinkId link{Raw(a.session)};
  BlockOnTheWay copy = blocks_.at(Raw(a.handle)).words;
  copy.handle = ++handles_;
  if (sessions_.contains(link)) world_.Send(link, *this, {a.stream, {}, false, std::move(copy)});
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
  After(kFetchWithin, [this, request] { FetchTimedOut(request); });
}

void WorkerNode::FetchTimedOut(RequestId request) {
  if (const auto fetch = fetching_.extract(request); !fetch.empty())
    Tell(worker::JobFailed{fetch.mapped(), Status(Code::kDeadline, "no answer came")});
}

void WorkerNode::Do(const worker::StartLane& a) {
  Task task{jobs_.at(a.job), a.lane, a.from, a.from, a.to, a.by_group};
  // What a consumer has already may come again: whoever makes a lane anew may begin before the cursor.
  const Seq back = task.job->resent && !a.by_group ? std::min<Seq>(world_.random.Below(4), a.from.seq) : 0;
  if (back > 0) task.at = {a.from.seq - back, 0};
  if (back > 0) world_.Count("rows sent again");
  tasks_[a.task] = task;
}

void WorkerNode::Do(const worker::ExtendLane& a) { tasks_.at(a.task).to = a.to; }
void WorkerNode::Do(const worker::StopLane& a) { tasks_.erase(a.task); }

void WorkerNode::Do(const worker::StepLane& a) {
  const Duration takes = world_.now() < slow_until_ ? world_.random.Millis(100, 1500) : world_.random.Micros(100, 20000);
  After(takes, [this, step = a] {
    auto task = tasks_.find(step.task);
    if (task == tasks_.end()) return world_.Violated(name() + " stopped a lane that it had let step");
    Tell(Make(step, task->second));
  });
}

void WorkerNode::Do(const worker::SendToDispatcher& a) {
  if (link_.has_value()) world_.Send(*link_, *this, {{}, RequestId{++requests_}, false, a.message});
}

void WorkerNode::Do(const worker::ListJobInputs& a) {
  const JobScenario& job = scenario_.JobOf(a.ask.plan);
  After(world_.random.Millis(1, 50), [this, link = link_, request = a.request, id = a.ask.job, layout = job.layout] {
    if (link.has_value()) world_.Send(*link, *this, {{}, request, true, msg::Inputs{id, "manifest", "hash", layout}});
  });
}

void WorkerNode::Do(const worker::SetTimer& a) {
  After(std::max(a.at - Now(), Duration{0}), [this, timer = ++timer_] {
    if (timer == timer_) Tell(worker::TimerFired{});
  });
}

void WorkerNode::Do(const worker::ExitNow&) {
  world_.Trace(*this, "has drained");
  Crash();
}

}  // namespace penstock::sim
