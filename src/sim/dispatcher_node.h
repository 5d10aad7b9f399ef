// The dispatcher in the simulator: its core over a store that survives crashes, with crashes before and after the commit.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dispatcher/core.h"
#include "dispatcher/tick.h"
#include "sim/grant_book.h"
#include "sim/world.h"

namespace penstock::sim {

class DispatcherNode final : public Node {
 public:
  // The store as it was when a term began: what a forgotten copy of the state directory holds.
  struct Copy {
    dispatcher::Snapshot store;
    Term term{};
  };

  // Without a book nobody checks it: it is the one that should not be there.
  DispatcherNode(World& world, GrantBook* book, std::string name) : Node(world, std::move(name)), book_(book) {}

  void Start();
  void StartFrom(Copy copy);
  void Crash();  // and starts again
  void Stop();
  bool crash_at_commit = false;      // the next commit is a crash: before it or after, by chance
  bool crash_after_restore = false;  // restores are few: where commits crash, many of theirs do, so that all ranks say theirs again

  uint64_t expired() const { return expired_ + (core_ ? core_->counts().expired : 0); }
  uint64_t redelivered() const { return redelivered_ + (core_ ? core_->counts().redelivered : 0); }
  msg::HelloReply hello() const;
  const std::vector<Copy>& copies() const { return copies_; }

  void OnPacket(LinkId link, Packet packet) override;
  void OnLinkDown(LinkId link) override;

 private:
  void Begin();
  void Feed(const dispatcher::Event& event);
  void Flush();
  Status Store(const std::vector<dispatcher::Write>& writes);
  void Say(dispatcher::Tick::Words words);
  void NoteWhoSpeaks(LinkId link, const Message& message);
  void CheckGiven(LinkId link, const Message& message);
  void CompareWithStore();
  void CheckGrants();

  GrantBook* const book_;
  std::unique_ptr<dispatcher::DispatcherCore> core_;
  dispatcher::Snapshot store_;
  Term term_{};
  bool restored_ = false;  // by the last commit
  std::vector<Copy> copies_;
  uint64_t expired_ = 0;
  uint64_t redelivered_ = 0;

  dispatcher::Actions actions_;
  dispatcher::Tick tick_;
  bool flush_set_ = false;
  bool crash_now_ = false;
  std::map<dispatcher::AskId, LinkId> asked_;
  std::map<LinkId, std::pair<JobId, ConsumerId>> speakers_;
  uint64_t timer_ = 0;
};

}  // namespace penstock::sim
