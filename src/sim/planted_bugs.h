// The bugs that can be planted (base/planted.h), by name.
#pragma once

#include <string_view>
#include <vector>

#include "base/planted.h"

namespace penstock::sim {

struct PlantedBug {
  Bug bug;
  const char* name;
};
const std::vector<PlantedBug>& PlantedBugs();

// False where there is no such bug, or this build has no switch for it.
bool Plant(std::string_view name);

}  // namespace penstock::sim
