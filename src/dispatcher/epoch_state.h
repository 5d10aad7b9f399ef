// What of one epoch of a job was granted to whom, what came back, and what was never granted: see docs/design/shared.md.
//
// Pure and small: it knows lanes, pieces, fences and holders, but neither time nor who deserves what. Each row of the epoch is in exactly one
// of four places: never granted, in the pool, in one consumer's grant, or done.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "penstock/ids.h"
#include "wire/messages.h"

namespace penstock::dispatcher {

// Why rows came back: what a loop left by `break` is dropped when nobody else reads the epoch; what was lost with a consumer never is.
enum class Origin : uint8_t { kKept = 0, kBroken = 1 };

// Rows that wait for a consumer.
struct Piece {
  LaneKey lane{};
  Cursor from{};
  Seq to = kLaneEnd;
  Fence fence{};  // of the grant to come
  Origin origin = Origin::kKept;
  uint8_t doubts = 0;          // consumers that were lost and may each have delivered some of it (255: or more)
  uint32_t last_children = 0;  // as msg::Range's
  friend bool operator==(const Piece&, const Piece&) = default;
};

// How much of a piece goes to one consumer: the whole of it, so many source rows, or so many of the rows that its first source row became.
struct Share {
  uint64_t seqs = 0;
  uint32_t children = 0;
};

// A grant that is out.
struct Held {
  Cursor from{};
  Seq to = kLaneEnd;
  WorkerId worker{};
  uint8_t doubts = 0;
  uint32_t last_children = 0;  // as msg::Range's
  Cursor stored{};             // `asked`, when its holder was stored last: as old as the steps that are stored of it

  // As the holder's last beat said; not stored.
  Cursor asked{};
  bool known = false;  // the holder lists it
  bool open = false;
  uint64_t ready_rows = 0;
  bool ended = false;
  // What the dispatcher wants; not stored.
  bool revoked = false;
  bool broken = false;  // the holder has gone on to a later epoch

  Cursor end() const { return EndOf(to, last_children); }
  // It goes on: worth handing over, unlike a tail or a lane whose last rows the loop has.
  bool live() const { return !revoked && !ended; }
};

struct RangedLane {
  Seq next = 0;  // rows before were granted
  bool ended = false;
  friend bool operator==(const RangedLane&, const RangedLane&) = default;
};

// One pass over the dataset; `replicated` has one a worker.
struct ReplicaState {
  ReplicaId replica{};
  WorkerId worker{};  // set where the replica is bound to one
  bool dropped = false;
  uint32_t watermark = 0;            // lanes at or above it were never granted; not used where lanes are ranged
  std::vector<RangedLane> ranged{};  // one a lane, where lanes are granted in ranges
  friend bool operator==(const ReplicaState&, const ReplicaState&) = default;
};

struct EpochShape {
  uint32_t lanes = 0;
  uint64_t range_rows = 0;  // 0: lanes are granted whole
  uint64_t group_rows = 1;  // ranges are whole groups, so that only the lane's end leaves a tail
};

class EpochState {
 public:
  using Holder = std::map<GrantName, Held>;

  EpochState(Epoch epoch, EpochShape shape) : epoch_(epoch), shape_(shape) {}

  Epoch epoch() const { return epoch_; }
  const std::vector<ReplicaState>& replicas() const { return replicas_; }
  const std::map<std::pair<LaneKey, Cursor>, Piece>& pool() const { return pool_; }
  const std::map<ConsumerId, Holder>& holders() const { return holders_; }

  void AddReplica(ReplicaId replica, WorkerId worker);
  // Its rows will not be delivered any more. Returns who held some. What may have been delivered twice is called back: only its holder knows how
  // much of it was.
  std::set<ConsumerId> DropReplica(ReplicaId replica);

  // Every lane was granted at least once, to its end.
  bool AllGranted() const;
  // Everything was delivered, or dropped by rule.
  bool Done() const;
  // Nobody was ever given a row: all that was granted is back, or at its start.
  bool Untouched() const;
  // Grants that could be given now; ranges count as one a lane that has not ended.
  uint64_t Available() const;
  uint64_t LanesDone() const;

  // No more than the share of a piece: the rest stays.
  std::optional<msg::Grant> TakeFromPool(ConsumerId consumer, Share share = {});
  // Likewise, of what came back of a grant; nullopt where nothing did.
  std::optional<msg::Grant> TakeBack(ConsumerId consumer, const GrantName& grant, Share share = {});
  // Where lanes are granted in ranges: so many ranges' rows in one.
  std::optional<msg::Grant> TakeLane(ConsumerId consumer, uint32_t ranges = 1);

  // The grants of one consumer; nullptr where it has none.
  Holder* Find(ConsumerId consumer);
  const Holder* Find(ConsumerId consumer) const;

  // Grants of a consumer that are worth handing over.
  size_t LiveHeld(ConsumerId consumer) const;
  // The consumer's last beat listed all of its grants.
  bool AllKnown(ConsumerId consumer) const;

  // A holder is done with a grant. Returns how many deliveries of its rows may have come before, one for each doubt; nullopt where it does not hold
  // such a grant.
  std::optional<uint64_t> Finish(ConsumerId consumer, const msg::Finish& finish);
  // Its grants are stored now, with their asked marks.
  void NoteStored(ConsumerId consumer);
  // All of a consumer's grants come back, from its asked marks. Returns how many rows may have been delivered twice; nullopt where it has none.
  std::optional<uint64_t> GiveBackAll(ConsumerId consumer, bool doubtful);

  // They go to the consumer that takes over its seat, from the asked marks, at the next fence. Returns as GiveBackAll.
  std::optional<uint64_t> MoveAll(ConsumerId from, ConsumerId to);

  // Nobody reads this epoch any more: pieces left by `break` and lanes never granted are dropped. Returns how many.
  uint64_t DropUnwanted();

  // Nobody may deliver more of this epoch: what waits in the pool is dropped. Returns how many pieces.
  uint64_t DropPool();

  // For the store.
  void RestoreReplica(ReplicaState replica) { replicas_.push_back(std::move(replica)); }
  void RestorePiece(const Piece& piece) { pool_[{piece.lane, piece.from}] = piece; }
  void RestoreGrant(ConsumerId consumer, const GrantName& name, Held held);  // after its replica

 private:
  ReplicaState* FindReplica(ReplicaId replica);
  bool Dropped(ReplicaId replica) const;
  bool Unread(const ReplicaState& state, const std::map<LaneKey, Cursor>& reach) const;
  void EndLane(LaneKey lane, Seq end);
  using Pool = std::map<std::pair<LaneKey, Cursor>, Piece>;
  msg::Grant TakePiece(ConsumerId consumer, Pool::iterator at, Share share);
  msg::Grant Hand(ConsumerId consumer, const Piece& piece);
  uint64_t LongestRangeAt(Seq next) const;
  bool Ranged() const { return shape_.range_rows > 0; }

  Epoch epoch_;
  EpochShape shape_;
  std::vector<ReplicaState> replicas_;
  Pool pool_;
  std::map<ConsumerId, Holder> holders_;
};

msg::Grant ToGrant(const GrantName& name, const Held& held);

}  // namespace penstock::dispatcher
