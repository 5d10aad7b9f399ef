// How two plans differ, in words: why a job of the same name does not take a dataset.
#pragma once

#include <string>

#include "penstock/plan.h"

namespace penstock {

// The first operator, or attribute of one, that the two have not alike; "" where they are the same. `first` and `second` say whose each is:
// "operator 2 (batch) has n 16 in the job and 32 here".
std::string Difference(const Plan& a, const Plan& b, const std::string& first, const std::string& second);

}  // namespace penstock
