#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>

namespace penstock {

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

}  // namespace penstock
