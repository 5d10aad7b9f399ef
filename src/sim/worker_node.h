// A worker in the simulator: its core over lanes that are nothing but row numbers. A restart is another worker.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "sim/home.h"
#include "sim/scenario.h"
#include "sim/world.h"
#include "worker/core.h"

namespace penstock::sim {

class WorkerNode final : public Node {
 public:
  WorkerNode(World& world, const Scenario& scenario, Home home, uint32_t number)
      : Node(world, "worker-" + std::to_string(number)), scenario_(scenario), home_(home), number_(number) {}

  void Start();
  void Crash();
  void Drain();
  void SlowDown(Duration time);
  // A consumer connects; nullopt where this is not the worker that it means.
  std::optional<LinkId> Accept(Node& consumer, WorkerId wanted, bool shared_memory);
  void CheckAtRest();  // no session is left: no block may be

  void OnPacket(LinkId link, Packet packet) override;
  void OnLinkDown(LinkId link) override;

 private:
  struct Task {
    const JobScenario* job = nullptr;
    LaneKey lane;
    Cursor from;  // that was asked for
    Cursor at;
    Seq to = kLaneEnd;
    bool by_group = false;
  };
  struct Block {
    std::optional<LinkId> out;
    bool lent = false;
    BlockOnTheWay words;
  };
  struct Session {
    bool shares_memory = false;
  };

  void Tell(const worker::Event& event);
  void Connect();
  void Freed(uint64_t handle);
  void FetchTimedOut(RequestId request);
  worker::StepDone Make(const worker::StepLane& step, Task& task);
  worker::StepOutcome MakeBlock(Task& task, uint64_t room);

  void Do(const worker::SendToConsumer& a);
  void Do(const worker::SendBlock& a);
  void Do(const worker::SendCopy& a);
  void Do(const worker::ReleaseBlock& a);
  void Do(const worker::FetchJob& a);
  void Do(const worker::ForgetJob&) {}
  void Do(const worker::StartLane& a);
  void Do(const worker::StepLane& a);
  void Do(const worker::ExtendLane& a);
  void Do(const worker::StopLane& a);
  void Do(const worker::SendToDispatcher& a);
  void Do(const worker::ListJobInputs& a);
  void Do(const worker::SetTimer& a);
  void Do(const worker::ExitNow&);

  const Scenario& scenario_;
  const Home home_;
  const uint32_t number_;
  std::unique_ptr<worker::WorkerCore> core_;
  WorkerId id_{};
  ServiceIdentity identity_;
  std::optional<LinkId> link_;
  std::map<LinkId, Session> sessions_;
  std::map<JobId, const JobScenario*> jobs_;
  std::map<worker::TaskId, Task> tasks_;
  std::map<uint64_t, Block> blocks_;
  std::map<RequestId, JobId> fetching_;
  TimePoint slow_until_{};
  uint64_t handles_ = 0;
  uint64_t requests_ = 0;
  uint64_t timer_ = 0;
};

}  // namespace penstock::sim
