// Where the ring of a strict job stands between two batches (docs/design/strict.md): the same on every consumer, so one consumer's is the job's.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/ids.h"
#include "penstock/status.h"

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

struct RingShape {
  uint32_t lanes = 0;       // of an epoch; kEndlessLanes: no end
  uint64_t group_rows = 1;  // a turn takes so many
  uint32_t mix = 1;         // turns a batch
  uint32_t places = 1;      // W
};

// A position that came from outside: whether a ring of this shape can stand there. Invalid, naming the field of the state that is wrong.
Status CheckRing(const RingPosition& position, const RingShape& shape);

}  // namespace penstock
