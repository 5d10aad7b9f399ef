// How many bytes a worker may still send for a lane (engine.md 3, 5).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/constants.h"

namespace penstock {

struct LaneCredit {
  int64_t outstanding = 0;  // given to the open stream and not used; below 0 the last block was larger
  uint64_t held = 0;        // of blocks that came and are not freed
  uint64_t unreturned = 0;  // freed, and no credit given for it yet
  uint64_t extra = 0;       // beyond the window: a batch needed more than it to become whole

  bool covers(uint64_t bytes) const { return outstanding >= static_cast<int64_t>(bytes); }
  uint64_t promised() const { return outstanding > 0 ? static_cast<uint64_t>(outstanding) : 0; }
};

// The smaller of 8 MiB, 4 blocks and the lane's share of the budget, but at least one block.
inline uint64_t CreditWindow(uint64_t memory, uint32_t lanes, uint64_t largest_block) {
  const uint64_t block = std::max(largest_block, std::min(kBlockTarget, memory / std::max(lanes, 1u)));
  return std::max(block, std::min({kLaneCredit, kCreditBlocks * block, memory / std::max(lanes, 1u)}));
}

// What to give now: nothing until it is a quarter of the window, or the worker cannot send its next block.
inline uint64_t CreditDue(const LaneCredit& credit, uint64_t window, uint64_t largest_block) {
  const auto full = static_cast<int64_t>(window + credit.extra);
  const int64_t due = full - static_cast<int64_t>(credit.held) - credit.outstanding;
  if (due <= 0) return 0;
  return due >= full / 4 || !credit.covers(largest_block) ? static_cast<uint64_t>(due) : 0;
}

}  // namespace penstock
