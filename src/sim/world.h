// Virtual time and a network in one thread: what happens next is what is due next. Nodes live on it, each with a clock of its own; a link
// between two of them delivers in order, after a delay, until it breaks; then what was on its way is lost, and both ends hear of it at moments
// of their own. Words with the dispatcher may also be lost, repeated or late (NetworkFaults): the protocol says that this is harmless.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "client/shelf.h"
#include "sim/random.h"
#include "sim/trace.h"
#include "wire/block.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock::sim {

enum class LinkId : uint64_t {};

// A block as it travels: its worker's handle and what the cores know of it.
struct BlockOnTheWay {
  uint64_t handle = 0;
  BlockInfo info;
  std::vector<Cursor> cursors;  // as ShelfBlock's
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

// A process. Crash ends a life: nothing that was scheduled in it happens any more. Paused, everything of it waits.
class Node : private Clock {
 public:
  Node(World& world, std::string name) : world_(world), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  bool up() const { return up_; }
  uint64_t life() const { return life_; }

  virtual void OnPacket(LinkId link, Packet packet) = 0;
  virtual void OnLinkDown(LinkId link) = 0;

  // Its clock shows another time, and runs faster or slower by millionths.
  void SkewClock(Duration ahead, int64_t millionths);
  // SIGSTOP, and SIGCONT after a while. Peers take a long one for dead.
  void Pause(Duration time);
  // Runs `fn` now, or when the pause is over; never in another life than `life`.
  void WhenAwake(uint64_t life, std::function<void()> fn);

  uint32_t side = 0;  // of a partition: nodes of different sides do not reach each other

 protected:
  void Rise() { up_ = true; }
  void Fall();
  void After(Duration delay, std::function<void()> fn);  // in this life, by this node's clock
  TimePoint Now() const override;                        // by this node's clock
  const Clock& clock() const { return *this; }

  World& world_;

 private:
  void Wake();

  const std::string name_;
  bool up_ = false;
  uint64_t life_ = 0;
  Duration ahead_{0};
  int64_t rate_ = 1'000'000;  // of this clock, in millionths
  TimePoint paused_until_{};
  std::deque<std::function<void()>> asleep_;  // what waits for the pause to end, in order
};

// What may happen to words with the dispatcher, in percent.
struct NetworkFaults {
  uint64_t lose = 0;
  uint64_t repeat = 0;
  uint64_t delay = 0;  // they come late, after others
};

class World {
 public:
  World(uint64_t seed, TraceLog& trace) : random(seed), trace_(trace) {}

  Random random;
  NetworkFaults faults;

  TimePoint now() const { return clock_.Now(); }
  void At(TimePoint when, std::function<void()> fn);
  // Runs until nothing is due before `limit`, or `done` says so. Returns whether it did.
  bool Run(TimePoint limit, const std::function<bool()>& done);

  enum class Kind : uint8_t { kData, kControl };
  // nullopt where `b` is down or out of reach.
  std::optional<LinkId> Connect(Node& a, Node& b, Kind kind);
  void Send(LinkId link, const Node& from, Packet packet);
  enum class How : uint8_t { kAny, kSilent };
  void Break(LinkId link, How how = How::kAny);
  void BreakAll(const Node& node, How how = How::kAny);
  void BreakAcross();                   // links between nodes of different sides
  void BreakControl(uint64_t percent);  // of the links with the dispatcher
  // A link at random; nullopt where there is none.
  std::optional<LinkId> AnyLink();

  bool tracing() const { return trace_.on(); }
  void Trace(const Node& node, const std::string& text);
  void Violated(const std::string& text);
  const std::vector<std::string>& violations() const { return violations_; }
  void Count(const char* fault) { ++counted_[fault]; }
  const std::map<std::string, uint64_t>& counted() const { return counted_; }
  uint64_t events() const { return events_; }

 private:
  struct Link {
    Node* ends[2];
    uint64_t lives[2];
    TimePoint last[2];  // when the latest packet to each end arrives: order is kept
    Kind kind;
  };
  void SendWord(LinkId id, Link& link, int to, Packet packet);
  void SendInOrder(LinkId id, Link& link, int to, Packet packet);
  void SendLate(LinkId id, const Link& link, int to, Packet packet);
  void Deliver(LinkId link, int to, Packet packet);
  void TracePacket(const Node& node, const Node& from, const Packet& packet);
  void TellDown(const Link& link, LinkId id, int end, How how);

  TraceLog& trace_;
  ManualClock clock_;
  std::multimap<TimePoint, std::function<void()>> due_;
  std::map<LinkId, Link> links_;
  uint64_t last_link_ = 0;
  uint64_t events_ = 0;
  uint64_t at_once_ = 0;  // events in a row without time passing
  std::vector<std::string> violations_;
  std::map<std::string, uint64_t> counted_;
};

}  // namespace penstock::sim
