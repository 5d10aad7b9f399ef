#include "plan/ring_position.h"

#include <set>
#include <string>

namespace penstock {
namespace {

Status WrongRing(const char* field, const std::string& what) {
  return Status(Code::kInvalid, "this state cannot be gone on from: 'ring." + std::string(field) + "' " + what + "; pass what state_dict() gave");
}

}  // namespace

Status CheckRing(const RingPosition& position, const RingShape& shape) {
  if (position.turn % shape.mix != 0) return WrongRing("turn", "is in the middle of a batch");
  if (position.next_lane > shape.lanes) return WrongRing("next_lane", "is over the " + std::to_string(shape.lanes) + " lanes of an epoch");
  if (position.ring.size() > shape.places) return WrongRing("places", "are more than the " + std::to_string(shape.places) + " of the ring");
  std::set<LaneId> lanes;
  const auto known = [&](LaneId lane) { return Raw(lane) < position.next_lane && lanes.insert(lane).second; };
  for (const RingPosition::Place& place : position.ring) {
    if (!known(place.lane)) return WrongRing("places", "name lane " + std::to_string(Raw(place.lane)) + " twice, or before its turn");
  }
  for (const RingPosition::Tail& tail : position.tails) {
    if (!known(tail.lane)) return WrongRing("tails", "name lane " + std::to_string(Raw(tail.lane)) + " twice, or before its turn");
    if (tail.rows == 0 || tail.rows >= shape.group_rows || tail.skipped >= shape.group_rows) {
      return WrongRing("tails",
                       "of lane " + std::to_string(Raw(tail.lane)) + " are no tail of a group of " + std::to_string(shape.group_rows) + " rows");
    }
  }
  return {};
}

}  // namespace penstock
