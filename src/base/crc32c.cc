#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/copy.h"

namespace penstock {
namespace {

constexpr size_t kInCache = size_t{32} << 10;  // a piece that is still in the first cache when it is looked at again

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

uint32_t CopyWithCrc32c(std::span<const std::byte> from, std::byte* to, uint32_t before, uint64_t whole) {
  uint32_t crc = before;
  const bool past_cache = std::max<uint64_t>(from.size(), whole) >= kFitsInCache;
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
  return crc;
}

}  // namespace penstock
