// Copying of what may be large.
#pragma once

#include <cstddef>
#include <span>

namespace penstock {

// What is larger would drive out all else from the last cache, and be gone itself before it is read.
inline constexpr size_t kFitsInCache = size_t{4} << 20;

// Writes past the caches, whose lines would first be fetched, only to be overwritten. Others see it when it returns.
void CopyPastCache(std::span<const std::byte> from, std::byte* to);

// Past the caches where it is large.
void CopyBytes(std::span<const std::byte> from, std::byte* to);

}  // namespace penstock
