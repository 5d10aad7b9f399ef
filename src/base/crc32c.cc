#include "base/crc32c.h"

#include <isa-l/crc.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <limits>

namespace penstock {
namespace {

constexpr size_t kInCache = size_t{32} << 10;   // a piece that is still in the first cache when it is looked at again
constexpr size_t kPastCache = size_t{4} << 20;  // what is larger would drive out all else from the last cache, and be gone itself before it is read

// Writes past the caches, whose lines would first be fetched, only to be overwritten.
void CopyPastCache(std::span<const std::byte> from, std::byte* to) {
#ifdef __SSE2__
  const size_t whole = reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0 ? from.size() / sizeof(__m128i) * sizeof(__m128i) : 0;
  for (size_t at = 0; at < whole; at += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + at)));
  }
  from = from.subspan(whole);
  to += whole;
#endif
  std::memcpy(to, from.data(), from.size());
}

}  // namespace

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t state = ~before;  // ISA-L neither inverts before nor after
  while (!bytes.empty()) {
    const size_t piece = std::min<size_t>(bytes.size(), std::numeric_limits<int>::max() & ~63);
    // The declaration lacks a const; the function only reads.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(piece), state);
    bytes = bytes.subspan(piece);
  }
  return ~state;
}

uint32_t CopyWithCrc32c(std::span<const std::byte> from, std::byte* to, uint32_t before) {
  uint32_t crc = before;
  const bool past_cache = from.size() >= kPastCache;
  while (!from.empty()) {
    const auto piece = from.first(std::min(from.size(), kInCache));
    crc = Crc32c(piece, crc);
    if (past_cache) {
      CopyPastCache(piece, to);
    } else {
      std::memcpy(to, piece.data(), piece.size());
    }
    to += piece.size();
    from = from.subspan(piece.size());
  }
#ifdef __SSE2__
  if (past_cache) _mm_sfence();  // before anybody is told
#endif
  return crc;
}

}  // namespace penstock
