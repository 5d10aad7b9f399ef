// Every variable that penstock reads, in one table; docs/reference/environment.md repeats it and a test compares them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/identity.h"

namespace penstock::cluster {

struct Variable {
  std::string_view name;
  std::string_view meaning;
};
std::span<const Variable> PenstockVariables();  // our own, PENSTOCK_*
std::span<const Variable> PlatformVariables();  // those of platforms

// The known PENSTOCK_* name nearest to `name`; "" where none is near.
std::string_view NearestVariable(std::string_view name);

// A sentence for each PENSTOCK_* variable that penstock does not know or that is empty. Kubernetes' own, from services that are named penstock…, are
// left out.
std::vector<std::string> WarnOfVariables(const Environment& environment);

}  // namespace penstock::cluster
