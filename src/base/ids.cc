#include "penstock/ids.h"

namespace penstock {

std::string ToString(const LaneKey& key) {
  std::string text = "epoch " + std::to_string(Raw(key.epoch));
  if (key.replica != ReplicaId{0}) text += " replica " + std::to_string(Raw(key.replica));
  return text + " lane " + std::to_string(Raw(key.lane));
}

}  // namespace penstock
