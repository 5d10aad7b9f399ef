// One consumer's part in a strict epoch: walks the ring, and says which lanes to have open, which groups to ask for and in which order, and
// which batches are whole (docs/design/strict.md). Pure: ClientCore opens, asks and delivers what this says.
//
// A batch goes out when all of its groups are here and the ring was walked to the end of its step: only then is it known that every consumer
// has a batch in it, and where the job stands after it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/ring.h"
#include "client/shelf.h"
#include "penstock/layout.h"

namespace penstock {

struct RingPart {  // whose
  uint32_t index = 0;
  uint32_t consumers = 1;
  Even even = Even::kUneven;
  bool drop_remainder = false;
};

class RingReader {
 public:
  // `first_batch`: of step 0, where this generation (or epoch) began. `start` is at the beginning of one of its steps.
  RingReader(const RingShape& shape, const RingPart& part, uint64_t first_batch, const RingPosition& start);

  // ---- what comes in
  Status Tell(LaneId lane, const msg::Group& group);
  Status TellEnd(LaneId lane, Cursor end) { return ring_.TellEnd(lane, end); }
  // A group that was asked for. False: it was not, or it is here already; the block is not kept. Internal: it has fewer
  // rows than were told of.
  Result<bool> Arrived(LaneId lane, const ShelfBlock& block);
  // As far as words go, and 64 batches of its own ahead of the loop.
  void Walk();
  // Marks as wanted what has room: batches in order, while all that is wanted and held fits `memory`, and no group is wanted before its size was
  // told. `alone`: the loop has all that was popped and let go of it, so the first is wanted though it may be larger.
  void Want(uint64_t held, uint64_t memory, bool alone);
  // The first batch and its size are known, and it is not wanted.
  bool LacksRoom() const;

  // ---- what to do
  struct Need {
    LaneId lane{};
    Cursor from;          // where to open it, if it is not
    bool waited = false;  // nothing can be delivered before it says more
  };
  // Lanes to have open, the most needed first.
  std::vector<Need> Needs() const;
  // What a stream of the lane is to be told: all groups to send, and what will never be wanted.
  msg::Take TakeOf(LaneId lane) const;
  // The next whole batch.
  std::optional<ShelfBatch> Pop();
  uint64_t popped() const { return popped_; }
  // All batches were popped, and there will be no more.
  bool at_end() const { return settled_ && own_.empty(); }
  // Rows dropped by rule at the epoch's end that were this consumer's to count.
  uint64_t dropped_rows() const { return dropped_rows_; }
  // Blocks of a batch that the epoch's end dropped. Batches that were popped may lie in them, too.
  std::vector<Handle> TakeDiscarded() { return std::exchange(discarded_, {}); }
  // Leaves the epoch: all blocks that were kept and not popped.
  std::vector<Handle> LetGo();
  // The lane whose word or group is waited for.
  std::optional<LaneId> WaitsFor() const;

 private:
  using GroupKey = std::pair<LaneId, Cursor>;
  struct OwnGroup {
    uint64_t bytes = 0;  // 0: not known
    uint64_t rows = 0;   // at least
    uint32_t uses = 0;   // pieces of batches not popped
    bool wanted = false;
    std::optional<ShelfBlock> block;
  };
  struct OwnBatch {
    uint64_t step = 0;
    std::vector<RingPiece> pieces;
    std::shared_ptr<const RingPosition> after;  // null: the step's end is not known
  };

  void Take(RingBatch batch);
  void EndStep(RingPosition after);
  void Settle();
  void Add(const std::vector<RingPiece>& pieces);
  bool Told(const OwnBatch& batch) const;
  bool Whole(const OwnBatch& batch) const;
  Cursor Passed(LaneId lane) const;
  std::optional<ShelfBlock> Use(const RingPiece& piece);

  const RingPart part_;
  const Epoch epoch_;
  const uint64_t first_batch_;
  Ring ring_;
  RingPosition walked_;  // where the ring stands: what is before is passed
  std::deque<OwnBatch> own_;
  std::map<GroupKey, OwnGroup> groups_;
  std::vector<RingPiece> last_;  // the epoch's last batch so far: what pads
  uint64_t step_;                // that is being walked…
  uint32_t in_step_ = 0;         // …and so many batches of it were
  bool settled_ = false;
  std::vector<Handle> discarded_;
  uint64_t outstanding_ = 0;  // bytes that were asked for and have not come
  uint64_t popped_ = 0;
  uint64_t dropped_rows_ = 0;
};

}  // namespace penstock
