// Bounds of what a plan or a job may ask for, so that nobody's tables grow by a number that somebody made up.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr uint32_t kMostConsumers = 1 << 20;  // declared, of a job

}  // namespace penstock
