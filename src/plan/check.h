// What must hold for any plan before anything looks at its operators.
#pragma once

#include <cstddef>

#include "penstock/plan.h"
#include "penstock/status.h"

namespace penstock {

inline constexpr size_t kMaxNodes = 4096;
inline constexpr size_t kMaxAttrDepth = 8;  // maps within maps
inline constexpr size_t kMaxNameBytes = 4096;

// Nodes there, inputs before users, every node used but the root, attributes sorted and unique, caps kept.
Status CheckGraph(const Plan& plan);

}  // namespace penstock
