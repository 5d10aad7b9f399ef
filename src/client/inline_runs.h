// Shared without a service: one consumer's lanes of an epoch, a few at a time, in the order of lanes. Ranks divide the lanes among themselves. What
// a restored position has is left out.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/inline_ring.h"
#include "client/shelf.h"
#include "penstock/ids.h"
#include "penstock/layout.h"
#include "penstock/status.h"
#include "plan/position.h"

namespace penstock {

// Thread-compatible. `layout`, `lanes` and `shelf` outlive it.
class InlineRuns {
 public:
  // Lanes index, index + consumers, …
  InlineRuns(const Layout& layout, uint32_t index, uint32_t consumers, InlineLanes& lanes, Shelf& shelf);

  // What was delivered before, from the next Begin on.
  void SetDone(History done) { done_ = std::move(done); }
  const History& done() const { return done_; }
  void Begin(Epoch epoch);
  void Close() { runs_.clear(); }

  // One step of the lane that has given least; at the end of all lanes, END.
  Status Work();
  uint64_t lanes_done() const { return lanes_done_; }
  std::string where() const;

 private:
  struct Run {
    GrantName name;
    Cursor to;
    std::unique_ptr<LaneRun> run;
    uint64_t rows = 0;
  };
  using Runs = std::vector<Run>;

  bool NextLane();
  Status OpenPiece();
  void Over(Runs::iterator run, const LaneOver& over);
  Runs::iterator Least();
  size_t OpenTarget() const;

  const Layout& layout_;
  const uint32_t index_;
  const uint32_t step_;
  InlineLanes& lanes_;
  Shelf& shelf_;
  History done_;
  Epoch epoch_{};
  uint64_t next_lane_ = 0;
  std::deque<Delivered::Piece> pieces_;
  Runs runs_;
  std::atomic<uint64_t> lanes_done_{0};
};

}  // namespace penstock
