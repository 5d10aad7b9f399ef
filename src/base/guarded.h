// What promises cost beyond moving rows. bench/overhead.py measures a build without it (preset `unguarded`), which loses rows when something fails
// and is never shipped.
#pragma once

namespace penstock {

#ifdef PENSTOCK_UNGUARDED
inline constexpr bool kGuarded = false;
#else
inline constexpr bool kGuarded = true;
#endif

}  // namespace penstock
