// A consumer in the simulator: core, shelf and a loop that reads, lingers, saves, breaks off and dies. consumer_node.cc is what reader_io.cc is
// in a real process, consumer_loop.cc what the loop does, consumer_positions.cc its checkpoints.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/core.h"
#include "client/parts.h"
#include "client/shelf.h"
#include "sim/home.h"
#include "sim/ledger.h"
#include "sim/scenario.h"
#include "sim/worker_node.h"
#include "sim/world.h"

namespace penstock::sim {

class Trainer;

class ConsumerNode final : public Node {
 public:
  struct Cluster {
    const Home& home;
    std::vector<std::unique_ptr<WorkerNode>>& workers;
    GrantBook& book;
  };
  // How a rank is started.
  struct Launch {
    uint32_t index = 0;
    uint32_t consumers = 0;  // declared; 0: not declared
    uint64_t attempt = 0;
    std::optional<std::string> restore{};  // the state to go on from
  };
  ConsumerNode(World& world, const JobScenario& job, Cluster cluster, Trainer& trainer, uint32_t number);

  void Start(Launch launch);
  void Crash();                      // what becomes of the job is its trainer's to say
  void Kill();                       // without a word to the trainer
  void CutOff(Duration time);        // from the dispatcher
  void RollBack(std::string state);  // where it is reading
  // Asks for the job's position some steps ago. The trainer hears of it.
  void Save(uint64_t behind);
  // Its own part at a step; nullopt where it is not kept.
  std::optional<std::string> PartAt(uint64_t tag) const;

  bool done() const { return done_; }
  bool restoring() const { return restoring_ || (launch_.restore && !restored_); }
  bool reading() const { return joined_ && !restoring_ && !done_ && up(); }
  uint64_t steps() const { return steps_; }       // of this generation, those of earlier starts included
  bool ended() const { return ended_ || done_; }  // has left: nobody waits for it
  Epoch epoch() const { return epoch_; }
  HistoryId history() const { return {joined_job_.job, core_ ? core_->generation() : Generation{}}; }
  ConsumerId id() const { return reader_.consumer; }
  std::string WaitingFor() const { return core_ ? core_->WaitingFor() : "nothing"; }

  void OnPacket(LinkId link, Packet packet) override;
  void OnLinkDown(LinkId link) override;

 private:
  struct Block {
    LinkId from{};        // none: a copy made here
    uint64_t handle = 0;  // the worker's
    uint64_t bytes = 0;
    bool released = false;
    uint32_t in_loop = 0;  // batches in the loop's hands that lie in it
  };
  struct Asked {  // of the dispatcher, not answered yet
    enum class What : uint8_t { kWord, kRestore, kSave, kLeave } what = What::kWord;
    Generation generation{};
    std::optional<Ledger::Cut> at_end{};  // kSave
  };

  // consumer_node.cc
  void Tell(const ClientEvent& event);
  void TellCore(const ClientEvent& event);
  void CheckBudget();
  void TakeProgress();
  void Connect();
  void OnDispatcher(RequestId request, bool reply, Message message);
  void OnWorker(WorkerId worker, StreamId stream, const Message& message);
  void Ask(Message message, Asked asked, Duration deadline);
  void Unanswered(RequestId request, const Status& why);
  void Perform(const ClientAction& action);
  void SendDispatcher(const Message& message);
  event::TailCopied ShrinkTail(const action::ShrinkTail& shrink);
  void ConnectWorker(const msg::WorkerInfo& worker);
  void Release(Handle handle);
  void LetGo(const std::vector<Handle>& handles);
  void FreeIfUnused(Handle handle);
  void Finish();

  // consumer_loop.cc
  void Turn();
  bool Take();
  void Receive(const std::vector<Slice>& batch);
  void Told(const Status& status);
  void Linger();
  void Rest();
  void NextEpoch();
  void Leave();

  // consumer_positions.cc
  void SendRestore(msg::Restore restore);
  void Restored(const msg::Joined& joined);
  void SetJob(const msg::Joined& joined);
  void AnswerParts();
  void OnSaved(const Asked& asked, const std::string& state);
  std::string PartJson(const DeliveryLog::Point& point) const;

  const JobScenario& job_;
  const Cluster cluster_;
  Trainer& trainer_;
  const uint32_t number_;
  Launch launch_;
  Reader reader_;
  msg::Joined joined_job_;
  std::unique_ptr<ClientCore> core_;
  std::unique_ptr<Shelf> shelf_;
  PartAsks asks_;
  ServiceIdentity identity_;
  std::optional<LinkId> link_;
  TimePoint cut_until_{};
  std::map<WorkerId, LinkId> workers_;
  std::map<Handle, Block> blocks_;
  std::vector<event::TailCopied> copied_;
  std::map<RequestId, Asked> asked_;
  uint64_t handles_ = 0;
  uint64_t requests_ = 0;
  uint64_t timer_ = 0;
  bool joined_ = false;
  bool restoring_ = false;  // it has said so
  bool restored_ = false;
  bool begun_ = false;  // the loop has asked for a batch
  Epoch epoch_{};
  uint64_t steps_ = 0;
  bool ended_ = false;
  bool waiting_told_ = false;
  bool left_ = false;
  bool done_ = false;
};

}  // namespace penstock::sim
