// CRC-32C (Castagnoli), by ISA-L: what frames and TFRecords carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

// Of `bytes` after what `before` is the CRC of; 0 for the start.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// Copies `from` to `to`, and is its CRC as above: each byte is fetched from memory once for both. `whole`: bytes of all that it is copied along
// with, where it is more: what is large goes past the caches.
uint32_t CopyWithCrc32c(std::span<const std::byte> from, std::byte* to, uint32_t before = 0, uint64_t whole = 0);

// TFRecord stores CRCs turned and shifted, so that a CRC over data that holds CRCs stays a good one.
constexpr uint32_t MaskedCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

}  // namespace penstock
