// Which lanes are granted in parts.
#pragma once

#include <cstdint>

#include "penstock/layout.h"

namespace penstock {

// A lane that several consumers are to share, since it is the only one or there are too few, is granted in ranges of rows.
inline bool GrantedInRanges(const Layout& layout, uint32_t consumers) { return layout.serial || layout.lanes < consumers; }

}  // namespace penstock
