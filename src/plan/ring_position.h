// Where the ring of a strict job stands between two batches (docs/design/strict.md): the same on every consumer, so one consumer's is the job's.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/ids.h"

namespace penstock {

struct RingPosition {
  struct Place {
    LaneId lane{};
    Cursor cursor;  // of the lane's next group
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Tail {
    LaneId lane{};
    Cursor first;          // of the group that the lane ended with…
    uint64_t skipped = 0;  // …so many rows of it were taken…
    uint64_t rows = 0;     // …and so many were not
    friend bool operator==(const Tail&, const Tail&) = default;
  };

  Epoch epoch{};
  uint64_t turn = 0;          // groups taken in this epoch: batch g begins at turn g * mix
  uint32_t place = 0;         // whose turn it is
  uint32_t next_lane = 0;     // lanes from here on have not had a place yet
  std::vector<Place> ring{};  // empty at turn 0 and next lane 0: the epoch has not begun
  std::vector<Tail> tails{};  // first come first

  bool begun() const { return turn > 0 || next_lane > 0 || !ring.empty(); }
  friend bool operator==(const RingPosition&, const RingPosition&) = default;
};

}  // namespace penstock
