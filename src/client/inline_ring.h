// Strict without a service: one consumer's part of the ring (ring_reader.h), over lanes that run in this process. Only the lane that is waited
// for makes a step, so that no more than a group a lane is held beyond the batch that is being put together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/ring_reader.h"
#include "client/shelf.h"
#include "engine/pipeline.h"
#include "penstock/ids.h"
#include "penstock/status.h"

namespace penstock {

// Who opens lanes and holds the bytes.
class InlineLanes {
 public:
  virtual Result<std::unique_ptr<LaneRun>> OpenGroups(LaneId lane, Cursor from) = 0;
  virtual Result<std::unique_ptr<LaneRun>> OpenRows(LaneId lane, Cursor from, Seq to) = 0;
  virtual Result<ShelfBlock> Keep(Produced produced) = 0;  // until the shelf has passed it, or…
  virtual void Drop(Handle handle) = 0;                    // …nobody will ever want it

 protected:
  ~InlineLanes() = default;
};

// Thread-compatible. `lanes` and `shelf` outlive it.
class InlineRing {
 public:
  InlineRing(const RingShape& shape, const RingPart& part, const RingPosition& start, InlineLanes& lanes, Shelf& shelf);
  InlineRing(InlineRing&&) = delete;
  ~InlineRing();

  // Puts whole batches on the shelf, or makes one group of what is waited for; END after the last.
  Status Work();
  uint64_t lanes_done() const { return lanes_done_; }
  std::string where() const;

 private:
  using Key = std::pair<LaneId, Cursor>;
  struct Run {
    std::unique_ptr<LaneRun> run;
    Cursor at;  // where its next group begins
  };

  void HandOver();
  void DropPassed();
  Status Step(const RingReader::Need& need);
  Status Take(LaneId lane, Run& run, Produced produced);

  RingReader reader_;
  const Epoch epoch_;
  InlineLanes& lanes_;
  Shelf& shelf_;
  std::map<LaneId, Run> runs_;
  std::map<Key, ShelfBlock> kept_;  // made, and not wanted yet
  uint64_t lanes_done_ = 0;
};

}  // namespace penstock
