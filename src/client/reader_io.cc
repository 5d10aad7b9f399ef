#include "client/reader_io.h"

#include <chrono>
#include <utility>

namespace penstock {
namespace {

using std::chrono::seconds;

Duration DeadlineOf(const Message& message) {
  if (std::holds_alternative<msg::Join>(message)) return seconds(120);  // a job's inputs may be long to list
  if (std::holds_alternative<msg::Leave>(message)) return seconds(1);
  return seconds(5);
}

std::vector<Cursor> CursorsOf(const BlockView& view) {
  std::vector<Cursor> cursors;
  if ((view.header().flags & kHasCursors) == 0) return cursors;
  cursors.reserve(view.rows() + 1);
  for (uint64_t row = 0; row <= view.rows(); ++row) cursors.push_back(view.cursor(row));
  return cursors;
}

}  // namespace

void BlockTable::Put(Handle handle, BlockPtr block) {
  std::lock_guard lock(mutex_);
  blocks_[Raw(handle)] = std::move(block);
}

BlockPtr BlockTable::Get(Handle handle) const {
  std::lock_guard lock(mutex_);
  const auto at = blocks_.find(Raw(handle));
  return at == blocks_.end() ? nullptr : at->second;
}

BlockPtr BlockTable::Take(Handle handle) {
  std::lock_guard lock(mutex_);
  auto node = blocks_.extract(Raw(handle));
  return node.empty() ? nullptr : std::move(node.mapped());
}

void FreedBlocks::Add(Handle handle) {
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = handles_.empty();
    handles_.push_back(handle);
  }
  if (first) wake_();
}

std::vector<Handle> FreedBlocks::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(handles_, {});
}

ReaderIo::ReaderIo(Hub& hub, ReaderParams params)
    : hub_(hub),
      params_(std::move(params)),
      facts_{params_.join.dataset, params_.rows, params_.join.seed},
      shelf_(Clock::System(), [this] { Post(&ReaderIo::TakeProgress); }),
      lent_(std::make_shared<LentBlocks>(params_.read.memory)),
      core_({params_.join, params_.read.memory, hub.streams(), params_.plan, params_.read.compression}),
      join_promise_(std::in_place) {
  joined_ = join_promise_->get_future().share();
}

void ReaderIo::Post(void (ReaderIo::*method)()) {
  hub_.io().Post([weak = weak_from_this(), method] {
    if (const auto self = weak.lock()) ((*self).*method)();
  });
}

std::shared_ptr<ReaderIo> ReaderIo::Start(Hub& hub, ReaderParams params) {
  std::shared_ptr<ReaderIo> self(new ReaderIo(hub, std::move(params)), [](ReaderIo* io) {
    if (io->hub_.stamp() == CurrentStamp()) io->hub_.io().Post([io] { delete io; });
  });
  self->freed_ = std::make_shared<FreedBlocks>([weak = std::weak_ptr(self), &io = hub.io()] {
    io.Post([weak] {
      if (const auto alive = weak.lock()) alive->TakeFreed();
    });
  });
  self->Post(&ReaderIo::Connect);
  return self;
}

void ReaderIo::Connect() {
  const auto when_alive = [weak = weak_from_this()](auto action) {
    if (const auto alive = weak.lock()) action(*alive);
  };
  DispatcherLink::Handler handler;
  handler.up = [=] { when_alive([](ReaderIo& io) { io.On(event::DispatcherUp{}); }); };
  handler.down = [=](const Status& why) { when_alive([&](ReaderIo& io) { io.On(event::DispatcherDown{why}); }); };
  handler.refused = [=](const Status& why) { when_alive([&](ReaderIo& io) { io.On(msg::Failed{why}); }); };
  handler.said = [=](RequestId, Message message) { when_alive([&](ReaderIo& io) { io.OnDispatcher(std::move(message)); }); };
  ConnectParams connect;
  connect.token = params_.connect.token;
  connect.tls = params_.tls;
  connect.role = "consumer";
  connect.shared_memory = false;
  timer_ = std::make_unique<Timer>(hub_.io());
  dispatcher_ = DispatcherLink::Make(hub_.io(), params_.address, std::move(connect), params_.identity, std::move(handler));
  dispatcher_->Start();
}

// ---- events

void ReaderIo::On(const ClientEvent& event) {
  Tell(event);
  // Before any progress: the loop may have had its batch of a copy already, and a copy that the core does not know of is not let go of.
  while (!copied_.empty()) {
    for (const event::TailCopied& copied : std::exchange(copied_, {})) Tell(copied);
  }
  loop_gets_copies_.store(core_.LoopGetsCopies(), std::memory_order_relaxed);
  if (!core_.settles_later()) TakeProgress();
}

void ReaderIo::Tell(const ClientEvent& event) {
  ClientActions actions;
  core_.On(Clock::System().Now(), event, actions);
  for (ClientAction& action : actions.list) Perform(std::move(action));
}

void ReaderIo::TakeProgress() {
  const Progress progress = shelf_.TakeProgress();
  const bool waited_before = std::exchange(waiting_told_, progress.waiting);
  if (!progress.marks.empty() || !progress.passed.empty() || progress.ring || (progress.waiting && !waited_before)) On(progress);
  AnswerParts();
}

void ReaderIo::Settle() { On(event::Settle{}); }

void ReaderIo::TakeFreed() {
  for (const Handle handle : freed_->Take()) On(event::Freed{handle});
}

void ReaderIo::StartEpoch(Epoch epoch) {
  hub_.io().Post([self = shared_from_this(), epoch] {
    self->TakeProgress();
    self->On(event::StartEpoch{epoch});
  });
}

void ReaderIo::OnWorkerUp(WorkerId worker) { On(event::WorkerUp{worker}); }
void ReaderIo::OnWorkerDown(WorkerId worker, const Status& why) { On(event::WorkerDown{worker, why}); }
void ReaderIo::OnWorkerDraining(WorkerId worker) { On(event::WorkerDraining{worker}); }
bool ReaderIo::ExpectsBlock(StreamId stream, uint64_t bytes) const { return core_.Expects(stream, bytes); }

void ReaderIo::OnLaneMessage(WorkerId /*worker*/, StreamId stream, Message message) {
  if (auto* ended = std::get_if<msg::LaneEnded>(&message)) return On(event::LaneSays{stream, std::move(*ended)});
  if (auto* failed = std::get_if<msg::LaneFailed>(&message)) return On(event::LaneSays{stream, std::move(*failed)});
  if (auto* groups = std::get_if<msg::Groups>(&message)) return On(event::LaneSays{stream, std::move(*groups)});
  if (auto* refused = std::get_if<msg::Refused>(&message)) return On(event::LaneSays{stream, std::move(*refused)});
}

void ReaderIo::OnLaneBlock(WorkerId worker, StreamId stream, Extent extent, uint64_t on_wire) {
  Result<BlockView> view =
      row_spec_ == nullptr ? Status(Code::kInternal, "a block came before the job's spec") : CheckBlock(*row_spec_, extent.bytes());
  if (!view.ok()) {
    hub_.workers().Send(KeyOf(worker), stream, msg::CloseLane{}, *this);
    return On(event::LaneSays{stream, msg::LaneFailed{view.status()}});
  }
  const Handle handle{++last_handle_};
  bytes_ += extent.size();
  ShelfBlock block{handle, view->info(), CursorsOf(*view)};
  blocks_.Put(handle, Hold(handle, std::move(extent), *view));
  On(event::BlockArrived{stream, std::move(block), on_wire});
}

// In a forked child nothing goes home: the memory is the parent's.
BlockPtr ReaderIo::Hold(Handle handle, Extent extent, BlockView view) {
  auto* block = new HeldBlock{std::move(extent), view};
  return BlockPtr(block, [freed = freed_, lent = lent_, handle, stamp = hub_.stamp()](const HeldBlock* held) {
    if (stamp != CurrentStamp()) return;
    delete held;
    lent->Freed(handle);
    freed->Add(handle);
  });
}

void ReaderIo::OnDispatcher(Result<Message> message) {
  if (!message.ok()) return On(msg::Failed{message.status()});
  if (const auto* joined = std::get_if<msg::Joined>(&*message)) return On(*joined);
  if (const auto* reply = std::get_if<msg::BeatReply>(&*message)) return On(*reply);
  if (const auto* registered = std::get_if<msg::Registered>(&*message)) return On(*registered);
  if (const auto* ask = std::get_if<msg::PartAsk>(&*message)) {
    asks_.Add(*ask);
    AnswerParts();
  }
}

// ---- actions

void ReaderIo::Perform(ClientAction action) {
  if (const auto* joined = std::get_if<action::JoinedJob>(&action)) {
    row_spec_ = std::make_shared<const Spec>(joined->joined.layout.row_spec);
    SetCurrent(joined->joined);
    ApplyToShelf(action, shelf_);
    return FinishJoin(joined->joined);
  }
  if (const auto* restored = std::get_if<action::Restored>(&action)) {
    SetCurrent(restored->joined);
    ApplyToShelf(action, shelf_);
    return FinishRestore({});
  }
  if (const auto* failed = std::get_if<action::RestoreFailed>(&action)) return FinishRestore(failed->status);
  if (auto* send = std::get_if<action::SendRestore>(&action)) return SendRestore(std::move(send->restore));
  if (const auto* failed = std::get_if<action::Fail>(&action)) {
    FinishJoin(failed->status);
    FinishRestore(failed->status);
  }
  if (ApplyToShelf(action, shelf_)) return;
  if (auto* send = std::get_if<action::SendDispatcher>(&action)) return SendDispatcher(std::move(send->message));
  if (const auto* shrink = std::get_if<action::ShrinkTail>(&action)) return copied_.push_back(ShrinkTail(*shrink));
  if (auto* connect = std::get_if<action::ConnectWorker>(&action)) {
    return hub_.workers().Attach({connect->worker, {params_.connect.token, params_.tls}, params_.connect.shared_memory}, shared_from_this());
  }
  if (auto* close = std::get_if<action::CloseWorker>(&action)) return hub_.workers().Detach(KeyOf(close->worker), *this);
  if (auto* send = std::get_if<action::SendWorker>(&action)) {
    return hub_.workers().Send(KeyOf(send->worker), send->stream, std::move(send->message), *this);
  }
  if (auto* release = std::get_if<action::Release>(&action)) {
    blocks_.Take(release->handle);
    return;
  }
  if (std::holds_alternative<action::SettleSoon>(action)) return Post(&ReaderIo::Settle);
  const TimePoint at = std::get<action::SetTimer>(action).at;
  timer_->After(std::max(at - Clock::System().Now(), Duration{0}), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->On(event::Timer{});
  });
}

void ReaderIo::SendDispatcher(Message message) {
  const Duration deadline = DeadlineOf(message);
  if (std::holds_alternative<msg::Leave>(message)) {
    // Kept until it is answered, whoever has let go of it by then: nobody else would close the session.
    dispatcher_->Request(std::move(message), deadline, [self = shared_from_this()](const Result<Message>&) {
      self->dispatcher_->Stop();
      if (auto left = std::exchange(self->left_, std::nullopt)) left->set_value();
    });
    return;
  }
  const auto* beat = std::get_if<msg::Beat>(&message);
  const Generation generation = beat != nullptr ? beat->generation : core_.generation();
  dispatcher_->Request(std::move(message), deadline, [weak = weak_from_this(), generation](Result<Message> answer) {
    const auto self = weak.lock();
    if (self == nullptr || (!answer.ok() && generation != self->core_.generation())) return;
    self->OnDispatcher(std::move(answer));
  });
}

event::TailCopied ReaderIo::ShrinkTail(const action::ShrinkTail& shrink) {
  event::TailCopied copied{shrink.grant, std::nullopt, 0};
  const std::optional<Slice> tail = shelf_.ThinTail(shrink.grant);
  const BlockPtr block = tail ? blocks_.Get(tail->handle) : nullptr;
  if (block == nullptr) return copied;
  const uint64_t bytes = CopiedBytes(*row_spec_, *block, tail->row, tail->rows);
  if (bytes > shrink.room) {
    copied.bytes = bytes;
    return copied;
  }
  Result<HeldBlock> copy = CopyRows(*row_spec_, *block, tail->row, tail->rows);
  if (!copy.ok()) return copied;  // no memory for it: the block stays
  const Handle handle{++last_handle_};
  ShelfBlock shelved{handle, copy->view.info(), CursorsOf(copy->view)};
  blocks_.Put(handle, Hold(handle, std::move(copy->extent), copy->view));
  if (!shelf_.ReplaceTail(*tail, std::move(shelved))) {
    blocks_.Take(handle);
    return copied;
  }
  copied.copy = handle;
  copied.bytes = bytes;
  return copied;
}

void ReaderIo::FinishJoin(Result<msg::Joined> outcome) {
  if (auto promise = std::exchange(join_promise_, std::nullopt)) promise->set_value(std::move(outcome));
}

void ReaderIo::Leave(std::promise<void> left) {
  hub_.io().Post([self = shared_from_this(), promise = std::make_shared<std::promise<void>>(std::move(left))] {
    const bool was_joined = self->row_spec_ != nullptr;
    if (was_joined) self->left_ = std::move(*promise);
    self->shelf_.Close();
    self->TakeProgress();
    self->On(event::Close{});
    self->timer_->Cancel();
    if (was_joined) return;
    self->dispatcher_->Stop();
    promise->set_value();
  });
}

// What `ask` says on the I/O thread; a default answer where that has stopped.
template <class Ask>
auto ReaderIo::Asked(Ask ask) {
  using Answer = std::invoke_result_t<Ask>;
  auto promise = std::make_shared<std::promise<Answer>>();
  std::future<Answer> future = promise->get_future();
  hub_.io().Post([self = shared_from_this(), promise = std::move(promise), ask = std::move(ask)] { promise->set_value(ask()); });
  try {
    return future.get();
  } catch (const std::future_error&) {
    return Answer();
  }
}

std::string ReaderIo::WaitingFor() {
  return Asked([this] { return core_.WaitingFor(); });
}

ReaderStats ReaderIo::Stats() {
  return Asked([this] {
    const ShelfTotals totals = shelf_.totals();
    const ClientCounts& counts = core_.counts();
    ReaderStats stats;
    stats.rows = totals.rows;
    stats.batches = totals.batches;
    stats.dropped_rows = totals.dropped_rows;
    stats.repeated_batches = totals.repeated;
    stats.waited = totals.waited;
    stats.bytes = bytes_;
    stats.wire_bytes = counts.wire_bytes;
    stats.lanes_done = counts.lanes_done;
    stats.reopened = counts.reopened;
    stats.hedged = counts.hedged;
    stats.bytes_held = counts.held_bytes;
    if (waiting_told_ || row_spec_ == nullptr) stats.waiting_for = core_.WaitingFor();
    return stats;
  });
}

}  // namespace penstock
