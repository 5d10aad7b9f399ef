// What one consumer has delivered in this generation, and where each of its last 64 batches left it: what a part is made of
// (docs/design/positions.md).
//
// Delivery is counted in elements: batches, or rows where the loop gets rows one by one. The tag of a batch is the count up to and with it.
// Thread-compatible: the shelf keeps it under its mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "penstock/ids.h"
#include "penstock/status.h"
#include "plan/position.h"

namespace penstock {

class DeliveryLog {
 public:
  static constexpr size_t kKeptBatches = 64;
  static constexpr uint32_t kKeptEpochs = 4;  // before the one of the oldest batch that is kept

  struct Point {
    Generation generation{};
    uint64_t tag = 0;
    Epoch epoch{};                               // that was being read…
    bool ended = false;                          // …and the loop was told its END
    uint64_t seated_at = 0;                      // Position's
    History rows{};                              // delivered in this generation
    std::shared_ptr<const RingPosition> ring{};  // strict: after the batch; null: where the generation began
  };

  // A new generation: nothing was delivered in it. Counting begins at `tag`.
  void Restart(Generation generation, Epoch epoch, uint64_t tag = 0);
  // Nothing was delivered yet: another had this seat until this step.
  void TakeSeat(uint64_t tag);
  void BeginEpoch(Epoch epoch);
  // The loop was told END.
  void EndEpoch() { ended_ = true; }

  // Rows of the batch that is being made: [from, to) of the lane, from where it stood before, so that filtered rows count too.
  void Add(const LaneKey& lane, Cursor from, Cursor to) { open_.push_back({lane, {from, to}}); }
  // That batch is whole. `cut`: of a run of `elements` rows, the cursor at which row i begins; none for a batch, which is one element.
  using Cut = std::function<Cursor(uint64_t row)>;
  void Close(uint64_t elements = 1, Cut cut = nullptr);
  // Strict: the batch with its position, which is all that is kept of it.
  void Close(std::shared_ptr<const RingPosition> after);
  // There are no rows in [from, to): true of every point.
  void AddEmpty(const LaneKey& lane, Cursor from, Cursor to) { settled_.Add(lane, from, to); }
  // Dropped by rule after the last batch, and delivered with it as far as positions go.
  void AddDropped(const LaneKey& lane, Cursor from, Cursor to);
  // The last `elements` of the last run were not handed out; 1 for a batch.
  void TakeBack(uint64_t elements);

  uint64_t tag() const { return tag_; }
  Generation generation() const { return generation_; }
  // NotFound where it is not kept any more, or not there yet.
  Result<Point> At(uint64_t tag) const;

 private:
  struct Rows {
    LaneKey lane;
    Interval rows;
  };
  struct Batch {
    uint64_t end = 0;  // the tag
    uint64_t elements = 1;
    Epoch epoch{};
    std::vector<Rows> rows;
    Cut cut;
    std::shared_ptr<const RingPosition> ring{};
  };
  static void AddUpTo(const Batch& batch, uint64_t tag, History& rows);
  void Settle();

  Generation generation_{};
  Epoch epoch_{};
  bool ended_ = false;
  uint64_t tag_ = 0;
  uint64_t seated_at_ = 0;
  Epoch settled_epoch_{};  // of the newest batch in `settled_`
  uint64_t settled_tag_ = 0;
  History settled_;  // what came before `kept_`
  std::shared_ptr<const RingPosition> settled_ring_;
  std::deque<Batch> kept_;
  std::vector<Rows> open_;
};

}  // namespace penstock
