// How many bytes a worker may still send for a lane (engine.md 3, 5).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/constants.h"

namespace penstock {

struct LaneCredit {
  uint64_t outstanding = 0;  // given to the open stream and not used
  uint64_t needs = 0;        // its worker has a block of so many bytes, and sends nothing before credit covers it; 0: none is known of
  uint64_t held = 0;         // of blocks that came and are not freed
  uint64_t unreturned = 0;   // freed, and no credit given for it yet

  bool covers(uint64_t bytes) const { return outstanding >= bytes; }
  // What may come: nothing of a lane whose worker waits for more.
  uint64_t promised() const { return needs > 0 ? 0 : outstanding; }
};

// The smaller of 8 MiB, 4 blocks and the lane's share of the budget, but at least one block.
inline uint64_t CreditWindow(uint64_t memory, uint32_t lanes, uint64_t largest_block) {
  const uint64_t block = std::max(largest_block, std::min(kBlockTarget, memory / std::max(lanes, 1u)));
  return std::max(block, std::min({kLaneCredit, kCreditBlocks * block, memory / std::max(lanes, 1u)}));
}

// What to give now: nothing until it is a quarter of the window, or the worker cannot send its next block.
inline uint64_t CreditDue(const LaneCredit& credit, uint64_t window, uint64_t next_block) {
  const uint64_t taken = credit.held + credit.outstanding;
  if (taken >= window) return 0;
  const uint64_t due = window - taken;
  return due >= window / 4 || !credit.covers(next_block) ? due : 0;
}

// As much of it as `left` bytes of the budget allow. Nothing where that would not let the next block come: it would be of use to nobody.
inline uint64_t CreditWithin(const LaneCredit& credit, uint64_t due, uint64_t left, uint64_t next_block) {
  const uint64_t counts_again = credit.outstanding - credit.promised();
  const uint64_t bytes = std::min(due, left - std::min(left, counts_again));
  return credit.covers(next_block - std::min(next_block, bytes)) ? bytes : 0;
}

}  // namespace penstock
