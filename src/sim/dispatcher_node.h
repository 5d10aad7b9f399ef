// The dispatcher in the simulator: its core over a store that survives crashes, with crashes before and after the commit.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dispatcher/core.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace penstock::sim {

class DispatcherNode final : public Node {
 public:
  DispatcherNode(World& world, const Scenario& scenario) : Node(world, "dispatcher"), scenario_(scenario) {}

  void Start();
  void Crash();
  bool crash_at_commit = false;  // the next commit is a crash: before it or after, by chance

  uint64_t expired() const { return expired_ + (core_ ? core_->counts().expired : 0); }
  uint64_t redelivered() const { return redelivered_ + (core_ ? core_->counts().redelivered : 0); }
  Term term() const { return term_; }

  void OnPacket(LinkId link, Packet packet) override;
  void OnLinkDown(LinkId link) override;

 private:
  void Feed(const dispatcher::Event& event);
  void Flush();
  void Commit();
  void SendAll();
  void CompareWithStore();
  void CheckGrants();

  const Scenario& scenario_;
  std::unique_ptr<dispatcher::DispatcherCore> core_;
  dispatcher::Snapshot store_;
  Term term_{};
  uint64_t expired_ = 0;
  uint64_t redelivered_ = 0;

  dispatcher::Actions actions_;
  std::vector<dispatcher::Write> writes_;
  std::vector<dispatcher::Send> sends_;
  std::vector<dispatcher::Ask> asks_;
  std::map<dispatcher::AskId, LinkId> asked_;
  bool flush_set_ = false;
  uint64_t timer_ = 0;
  std::map<LaneKey, std::map<Seq, Fence>> fences_;  // the highest seen for a row, by where its piece begins
};

}  // namespace penstock::sim
