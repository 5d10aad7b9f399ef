// A consumer in the simulator: core, shelf and a loop that reads, lingers, breaks off and dies.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "client/core.h"
#include "client/shelf.h"
#include "sim/dispatcher_node.h"
#include "sim/ledger.h"
#include "sim/scenario.h"
#include "sim/worker_node.h"
#include "sim/world.h"

namespace penstock::sim {

class ConsumerNode final : public Node {
 public:
  struct Cluster {
    DispatcherNode& dispatcher;
    std::vector<std::unique_ptr<WorkerNode>>& workers;
    Ledger& ledger;
  };
  ConsumerNode(World& world, const Scenario& scenario, Cluster cluster, uint32_t number)
      : Node(world, "consumer-" + std::to_string(number)), scenario_(scenario), cluster_(cluster), number_(number) {}

  void Start();
  void Crash();
  void CutOff(Duration time);  // from the dispatcher
  bool done() const { return done_; }
  bool broke_off() const { return broke_off_; }
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

  void Tell(const ClientEvent& event);
  void TellCore(const ClientEvent& event);
  void CheckBudget();
  void TakeProgress();
  void Connect();
  void Turn();
  void Receive(const std::vector<Slice>& batch);
  void LetGo(const std::vector<Handle>& handles);
  void FreeIfUnused(Handle handle);
  void NextEpoch();
  void Leave();
  void Finish();

  void Perform(const ClientAction& action);
  event::TailCopied ShrinkTail(const action::ShrinkTail& shrink);
  void ConnectWorker(const msg::WorkerInfo& worker);

  const Scenario& scenario_;
  const Cluster cluster_;
  const uint32_t number_;
  std::unique_ptr<ClientCore> core_;
  std::unique_ptr<Shelf> shelf_;
  std::optional<LinkId> link_;
  TimePoint cut_until_{};
  std::map<WorkerId, LinkId> workers_;
  std::map<Handle, Block> blocks_;
  std::vector<event::TailCopied> copied_;
  uint64_t handles_ = 0;
  uint64_t requests_ = 0;
  uint64_t timer_ = 0;
  bool joined_ = false;
  bool begun_ = false;  // the loop has asked for a batch
  Epoch epoch_{};
  bool waiting_told_ = false;
  bool left_ = false;
  bool done_ = false;
  bool broke_off_ = false;
};

}  // namespace penstock::sim
