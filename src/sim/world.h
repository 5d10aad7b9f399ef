// Virtual time and a network in one thread: what happens next is what is due next. Nodes live on it; a link between two of them delivers in
// order, after a delay, until it breaks; then what was on its way is lost, and both ends hear of it at moments of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "sim/random.h"
#include "wire/block.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock::sim {

enum class LinkId : uint64_t {};

// A block as it travels: its worker's handle and what the cores know of it.
struct BlockOnTheWay {
  uint64_t handle = 0;
  BlockInfo info;
};
// The consumer let go of a block that lies in shared memory.
struct BlockLetGo {
  uint64_t handle = 0;
};
struct Packet {
  StreamId stream{};
  RequestId request{};
  bool reply = false;
  std::variant<Message, BlockOnTheWay, BlockLetGo> body;
};

class World;

// A process. Crash ends a life: nothing that was scheduled in it happens any more.
class Node {
 public:
  Node(World& world, std::string name) : world_(world), name_(std::move(name)) {}
  virtual ~Node() = default;

  const std::string& name() const { return name_; }
  bool up() const { return up_; }
  uint64_t life() const { return life_; }

  virtual void OnPacket(LinkId link, Packet packet) = 0;
  virtual void OnLinkDown(LinkId link) = 0;

 protected:
  void Rise() { up_ = true; }
  void Fall();
  void After(Duration delay, std::function<void()> fn);  // in this life

  World& world_;

 private:
  const std::string name_;
  bool up_ = false;
  uint64_t life_ = 0;
};

class World {
 public:
  explicit World(uint64_t seed) : random(seed) {}

  Random random;
  bool trace = false;

  TimePoint now() const { return clock_.Now(); }
  const Clock& clock() const { return clock_; }
  void At(TimePoint when, std::function<void()> fn);
  // Runs until nothing is due before `limit`, or `done` says so. Returns whether it did.
  bool Run(TimePoint limit, const std::function<bool()>& done);

  LinkId Connect(Node& a, Node& b);
  void Send(LinkId link, const Node& from, Packet packet);
  void Break(LinkId link);
  void BreakAll(const Node& node);
  // A link at random; nullopt where there is none.
  std::optional<LinkId> AnyLink();

  void Trace(const Node& node, const std::string& text);
  void Violated(const std::string& text);
  const std::vector<std::string>& violations() const { return violations_; }
  void Count(const std::string& fault) { ++faults_[fault]; }
  const std::map<std::string, uint64_t>& faults() const { return faults_; }
  uint64_t events() const { return events_; }

 private:
  struct Link {
    Node* ends[2];
    uint64_t lives[2];
    TimePoint last[2];  // when the latest packet to each end arrives: order is kept
  };
  void Deliver(LinkId link, int to, Packet packet);
  void TellDown(const Link& link, LinkId id, int end);

  ManualClock clock_;
  std::multimap<TimePoint, std::function<void()>> due_;
  std::map<LinkId, Link> links_;
  uint64_t last_link_ = 0;
  uint64_t events_ = 0;
  uint64_t at_once_ = 0;  // events in a row without time passing
  std::vector<std::string> violations_;
  std::map<std::string, uint64_t> faults_;
};

}  // namespace penstock::sim
