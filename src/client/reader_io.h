// The half of a reader that lives on the I/O thread: it runs the core on real sessions.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/batcher.h"
#include "client/core.h"
#include "client/hub.h"
#include "client/lent_blocks.h"
#include "client/parts.h"
#include "client/reader.h"
#include "client/shelf.h"
#include "client/worker_links.h"

namespace penstock {

// Handles -> bytes. Any thread.
class BlockTable {
 public:
  void Put(Handle handle, BlockPtr block);
  BlockPtr Get(Handle handle) const;
  BlockPtr Take(Handle handle);  // forgets it; dropped by the caller, outside the lock

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, BlockPtr> blocks_;
};

// Handles whose memory is gone, on their way to the core. Blocks may die on any thread, also when the reader is gone.
class FreedBlocks {
 public:
  explicit FreedBlocks(std::function<void()> wake) : wake_(std::move(wake)) {}
  void Add(Handle handle);
  std::vector<Handle> Take();

 private:
  const std::function<void()> wake_;  // when there are some after none
  std::mutex mutex_;
  std::vector<Handle> handles_;
};

class ReaderIo final : public LinkUser, public std::enable_shared_from_this<ReaderIo> {
 public:
  // Any thread. Destroyed on the I/O thread, or never (in a forked child: it is the parent's).
  static std::shared_ptr<ReaderIo> Start(Hub& hub, ReaderParams params);
  void Leave(std::promise<void> left);  // any thread; `left` when the dispatcher knows, or a second has passed

  Hub& hub() { return hub_; }
  Shelf& shelf() { return shelf_; }
  const BlockTable& blocks() const { return blocks_; }
  const ReaderParams& params() const { return params_; }
  // As the core says (ClientCore::LoopGetsCopies), which hears of what the loop took a moment later; `lent` knows at once.
  bool loop_gets_copies() const { return loop_gets_copies_.load(std::memory_order_relaxed); }
  LentBlocks& lent() { return *lent_; }
  std::shared_future<Result<msg::Joined>> joined() const { return joined_; }
  void StartEpoch(Epoch epoch);  // any thread, after Shelf::BeginEpoch
  void Begin();                  // any thread: the loop asks for the first time
  void HandedOutRow();           // any thread: Reader's
  // The job as it was last joined or restored. Any thread.
  msg::Joined Current() const;
  // Any thread. The parts are the loop's, so that they are of one moment.
  std::future<Result<std::string>> Save(const DeliveryLog::Point& current, const DeliveryLog::Point& at_tag, std::chrono::milliseconds timeout);
  std::future<Status> Restore(std::string state);
  void GiveUpRestore(Status why);  // Restore's future has its outcome then: `why`, or what came before it
  // In strict one consumer's ring is the whole job's.
  std::string StrictJson(const DeliveryLog::Point& point) const;
  std::string PartJson(const DeliveryLog::Point& point) const { return ToJson(MakePart(facts_, Current(), point)); }
  // From the I/O thread's side; waits for it. Not on the I/O thread.
  ReaderStats Stats();
  std::string WaitingFor();  // in words, whether or not a loop waits

  // I/O thread
  void OnWorkerUp(WorkerId worker) override;
  void OnWorkerDown(WorkerId worker, const Status& why) override;
  void OnWorkerDraining(WorkerId worker) override;
  void OnLaneMessage(WorkerId worker, StreamId stream, Message message) override;
  void OnLaneBlock(WorkerId worker, StreamId stream, Extent block, uint64_t on_wire) override;
  bool ExpectsBlock(StreamId stream, uint64_t bytes) const override;

 private:
  ReaderIo(Hub& hub, ReaderParams params);
  void Connect();
  void On(const ClientEvent& event);
  void Tell(const ClientEvent& event);
  void TakeProgress();
  void TakeFreed();
  void Settle();
  void Perform(ClientAction action);
  void OnDispatcher(Result<Message> message);
  void SendDispatcher(Message message);
  void SendRestore(msg::Restore restore);
  void AnswerParts();
  void SetCurrent(const msg::Joined& joined);
  void FinishRestore(Status outcome);
  event::TailCopied ShrinkTail(const action::ShrinkTail& shrink);
  void Post(void (ReaderIo::*method)());
  BlockPtr Hold(Handle handle, Extent extent, BlockView view);
  void FinishJoin(Result<msg::Joined> outcome);
  template <class Ask>
  auto Asked(Ask ask);
  LinkKey KeyOf(WorkerId worker) const { return {worker, params_.connect.shared_memory, params_.connect.token, params_.tls}; }

  Hub& hub_;
  const ReaderParams params_;
  const PartFacts facts_;
  Shelf shelf_;
  BlockTable blocks_;
  std::shared_ptr<FreedBlocks> freed_;
  const std::shared_ptr<LentBlocks> lent_;
  std::atomic<bool> loop_gets_copies_{false};
  std::atomic<bool> parts_asked_{false};  // for a step that the loop has not come to
  std::shared_future<Result<msg::Joined>> joined_;
  mutable std::mutex current_mutex_;
  msg::Joined current_;

  // I/O thread only
  ClientCore core_;
  std::shared_ptr<DispatcherLink> dispatcher_;
  std::unique_ptr<Timer> timer_;
  std::optional<std::promise<Result<msg::Joined>>> join_promise_;
  std::optional<std::promise<void>> left_;
  std::optional<std::promise<Status>> restore_promise_;
  PartAsks asks_;
  std::vector<event::TailCopied> copied_;  // told after the actions that asked for it
  std::shared_ptr<const Spec> row_spec_;
  uint64_t last_handle_ = 0;
  uint64_t bytes_ = 0;
  bool waiting_told_ = false;
};

}  // namespace penstock
