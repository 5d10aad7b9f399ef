// Whether a state can be gone on from: one rule for a job of a service and for a reader without one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/layout.h"
#include "penstock/status.h"
#include "plan/position.h"

namespace penstock {

// What reads on from a state.
struct StateTerms {
  // A number of ring places that somebody asked for; 0: whatever the state has.
  struct Places {
    uint32_t places = 0;
    std::string by;  // "" or " (as rank-3 asks)"
  };

  std::string name;      // "job 'train'"
  std::string rows;      // RowsFingerprint
  std::string manifest;  // its hash
  Mode mode = Mode::kShared;
  uint64_t seed = 0;
  Layout layout;
  uint32_t places = 0;        // strict: of the ring, where the state does not say
  std::vector<Places> asked;  // strict
};

RingShape RingShapeOf(const Layout& layout, uint32_t places);

// An error names what differs. A ring is checked against its shape.
Status CheckState(const StateTerms& terms, const Position& state);

}  // namespace penstock
