// The bugs that can be planted (base/planted.h), by name.
#pragma once

#include <vector>

#include "base/planted.h"

namespace penstock::sim {

struct PlantedBug {
  Bug bug;
  const char* name;
};
const std::vector<PlantedBug>& PlantedBugs();

// From now on, in all runs; while none is on its way. False where this build has no switch for it.
bool Plant(Bug bug);

}  // namespace penstock::sim
