#include "base/copy.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstdint>
#include <cstring>

namespace penstock {

void CopyPastCache(std::span<const std::byte> from, std::byte* to) {
#ifdef __SSE2__
  const size_t whole = reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0 ? from.size() / sizeof(__m128i) * sizeof(__m128i) : 0;
  for (size_t at = 0; at < whole; at += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + at)));
  }
  _mm_sfence();
  from = from.subspan(whole);
  to += whole;
#endif
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

void CopyBytes(std::span<const std::byte> from, std::byte* to) {
  if (from.size() >= kFitsInCache) return CopyPastCache(from, to);
  if (!from.empty()) std::memcpy(to, from.data(), from.size());  // no bytes may have no address
}

}  // namespace penstock
