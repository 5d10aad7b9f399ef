#include "sim/planted_bugs.h"

namespace penstock::sim {

const std::vector<PlantedBug>& PlantedBugs() {
  static const std::vector<PlantedBug> bugs{
      {Bug::kNoDedup, "no dedup"},
      {Bug::kFenceUnchecked, "fence unchecked"},
      {Bug::kLeaseUnchecked, "lease unchecked"},
      {Bug::kSeqOnOutput, "seq counted on output"},
      {Bug::kTailForgotten, "tail forgotten"},
      {Bug::kFinishSaidOnce, "finish said once"},
      {Bug::kLateReplyBelieved, "late reply believed"},
      {Bug::kStaleTerm, "stale term accepted"},
      {Bug::kCursorNotIntervals, "cursor instead of intervals"},
      {Bug::kReplyBeforeCommit, "reply before commit"},
      {Bug::kLeaseNeverExpires, "lease never expires"},
      {Bug::kMarkLowered, "heartbeat lowers a mark"},
      {Bug::kRevokeUnanswered, "revoke not waited for"},
      {Bug::kGrantNotStored, "grant not stored"},
      {Bug::kOldGenerationServed, "old generation served"},
      {Bug::kRestoreTwice, "restore committed twice"},
      {Bug::kNoReserve, "budget without reserve"},
      {Bug::kBlockLeaked, "block leaked"},
      {Bug::kPositionAhead, "position a step ahead"},
      {Bug::kRingPlaceReused, "ring place reused early"},
  };
  return bugs;
}

bool Plant([[maybe_unused]] Bug bug) {
#ifdef PENSTOCK_PLANTED
  planted_bug = bug;
  return true;
#else
  return false;
#endif
}

}  // namespace penstock::sim
