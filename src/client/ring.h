// The order of `strict` as a machine: what workers say of lanes goes in, the job's batches come out, one after another (docs/design/strict.md).
//
// Every consumer of a job runs the same ring over the same words, so all see the same batches and the same positions, however early or late
// and from whomever each word came. Nothing is decided before it is known: while a word is missing the ring stands, unchanged.
// tests/model/strict_order.py is the definition that this is compared with.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "penstock/ids.h"
#include "penstock/status.h"
#include "plan/ring_position.h"
#include "wire/messages.h"

namespace penstock {

// Rows of a batch: part of a group, and all of it but where a tail was cut between two batches.
struct RingPiece {
  LaneId lane{};
  Cursor group;        // where the group begins
  uint64_t skip = 0;   // rows of the group that come before
  uint64_t rows = 0;   // of the batch
  uint64_t bytes = 0;  // of the whole group; 0: not known
  bool tail = false;   // of the group that its lane ended with: others may have rows of it, too
  friend bool operator==(const RingPiece&, const RingPiece&) = default;
};

struct RingBatch {
  uint64_t g = 0;
  std::vector<RingPiece> pieces;
  bool is_short = false;  // the epoch's last, and not whole
};

class Ring {
 public:
  // A position of another shape is a caller's error; one that was checked (plan/position.h) is not.
  Ring(const RingShape& shape, RingPosition start);

  // A worker's word on a lane: this group comes next. One that was told before changes nothing. Internal where it does not fit what is known:
  // it leaves a gap, begins inside of a group, or follows a group that was not full.
  Status Tell(LaneId lane, const msg::Group& group);
  // The lane has no row at or after `end`.
  Status TellEnd(LaneId lane, Cursor end);
  // How far the lane was told of: what is asked for next.
  Cursor Told(LaneId lane) const;

  // The next batch, as far as it is known. The last one may be short.
  std::optional<RingBatch> Next();
  // All batches were given.
  bool over() const { return over_; }
  // Right after Next() gave a batch (or said nothing, at first): where the ring stands.
  RingPosition position() const;
  // Taken for the next batch, which is not whole yet.
  const std::vector<RingPiece>& pending() const { return pieces_; }
  uint64_t next_batch() const { return turn_ / shape_.mix; }

  // Lanes whose words or groups are due, in the order of need: those with a place; `ahead` in line of which it is not known that they are too short
  // to have a group, and shorter ones before them, until these have a group together.
  std::vector<LaneId> Needs(uint32_t ahead) const;
  // What keeps it from going on.
  std::optional<LaneId> waits_for() const { return waits_for_; }

 private:
  struct Words {
    std::deque<msg::Group> groups;  // not taken yet
    Cursor told;
    bool ended = false;
  };
  struct Tail {
    RingPosition::Tail at;
    uint64_t bytes = 0;
  };
  enum class Can : uint8_t { kGive, kNot, kUnknown };  // a full group

  bool Turn();
  void TellTail(LaneId lane, const msg::Group& group);
  bool TakeTails(uint64_t rows);
  bool TakeGroup();
  void RetirePassedOver();
  void Retire(LaneId lane);
  uint64_t TailRows(LaneId lane) const;
  LaneId Candidate() const;
  Can State(LaneId lane) const;
  Words& Of(LaneId lane);

  const RingShape shape_;
  const Epoch epoch_;
  uint64_t turn_;
  uint32_t place_;
  uint32_t next_lane_;
  std::vector<RingPosition::Place> ring_;
  std::deque<Tail> tails_;
  uint64_t tail_rows_ = 0;
  // Lanes in a row, from the one whose turn it is, that are known to have no full group, and the rows they end with. They leave together when one is
  // found that has, or their tails are one: what is known earlier must not change what a position says.
  uint32_t passed_over_ = 0;
  uint64_t passed_rows_ = 0;
  std::map<LaneId, Words> words_;
  std::vector<RingPiece> pieces_;  // of the batch that is being put together
  uint32_t turns_in_batch_ = 0;
  std::optional<LaneId> waits_for_;
  bool over_ = false;
};

}  // namespace penstock
