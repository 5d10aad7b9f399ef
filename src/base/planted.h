// Bugs that can be planted, to prove that the simulator finds them (docs/design/simulator.md).
//
// Only the cores that the simulator compiles for itself have the switch (src/sim/CMakeLists.txt). In what is shipped Planted() is constexpr
// false, and the compiler drops what stands behind it. So only what is compiled for the simulator may ask: cores, not base or wire.
#pragma once

#include <cstdint>

namespace penstock {

enum class Bug : uint8_t {
  kNone,
  kNoDedup,              // rows that came before are delivered again
  kFenceUnchecked,       // a consumer goes on with a lane that is not its own any more
  kLeaseUnchecked,       // it delivers though its lease has ended
  kSeqOnOutput,          // filtered rows shift the seqs of those after them
  kTailForgotten,        // the rows of a lane that fill no group are not joined
  kFinishSaidOnce,       // that a lane is done is not repeated until it was heard
  kLateReplyBelieved,    // an answer to an earlier beat is taken for the newest
  kStaleTerm,            // a dispatcher of an older term is believed
  kCursorNotIntervals,   // a part says how far each lane was read, not which rows of it
  kReplyBeforeCommit,    // what was answered may not be stored
  kLeaseNeverExpires,    // the lanes of a dead consumer wait for ever
  kMarkLowered,          // a late beat takes an asked mark back
  kRevokeUnanswered,     // a lane moves before its holder has stopped
  kGrantNotStored,       // who holds what is not written down
  kOldGenerationServed,  // who was shut out by a restore is answered as before
  kRestoreTwice,         // a repeated restore is another one
  kNoReserve,            // of a worker's memory, lanes that are waited for have none of their own
  kBlockLeaked,          // memory lent to a session that broke does not come home
  kPositionAhead,        // strict: a state is of the step after the one that was asked for
  kRingPlaceReused,      // strict: a lane takes a place before the one there was read to its end
};

#ifdef PENSTOCK_PLANTED
inline Bug planted_bug = Bug::kNone;  // set while no other thread runs
inline bool Planted(Bug bug) { return planted_bug == bug; }
#else
constexpr bool Planted(Bug) { return false; }
#endif

}  // namespace penstock
