// DEFLATE's prefix codes (RFC 1951, 3.2.2) as tables that are looked up by the next bits of the stream.
//
// An entry says all that a decoder wants to know, so that one load gives what to output and how many bits to pass over:
//
//   literal      31: 1 | 23-16: the byte            |              7-0: bits of the code
//   length       31: 0 | 24-16: least length        | 11-8: code | 7-0: bits of code and extra bits
//   distance     31: 0 | 30-16: least distance      | 11-8: code | 7-0: bits of code and extra bits
//   exceptional  31: 0 | 30-16: of a pointer, where its table begins; 11-8: that table's bits | 15: 1, and 14: a pointer, 13: the block's end, or
//                        neither, where no code is | 7-0: bits of the code
//
// Codes that are longer than the table's bits have a table of their own behind it, for the bits that are left.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

inline constexpr uint32_t kLiteralEntry = 1U << 31;
inline constexpr uint32_t kExceptional = 1U << 15;
inline constexpr uint32_t kPointer = 1U << 14;
inline constexpr uint32_t kEndOfBlock = 1U << 13;

inline constexpr size_t kLiteralBits = 10;
inline constexpr size_t kDistanceBits = 9;
inline constexpr size_t kLengthCodeBits = 7;  // the code in which a block tells the lengths of the others
inline constexpr size_t kMaxLiterals = 288;
inline constexpr size_t kMaxDistances = 32;
inline constexpr size_t kLengthCodes = 19;

// Room for the longest codes that are not refused: 1334 and 594 entries.
struct BlockTables {
  alignas(64) std::array<uint32_t, 1408> literals;
  alignas(64) std::array<uint32_t, 640> distances;
};

// What entries say of a symbol, but its bits.
extern const std::array<uint32_t, kMaxLiterals> kLiteralSymbols;
extern const std::array<uint32_t, kMaxDistances> kDistanceSymbols;
extern const std::array<uint32_t, kLengthCodes> kLengthCodeSymbols;  // 20-16: the symbol

// Makes the table of the code that has these lengths (0: the symbol does not occur; up to 15). False where they are no code: too many for their
// lengths or too few, but for none at all and for a single one of length 1.
[[nodiscard]] bool BuildTable(std::span<const uint8_t> lengths, std::span<const uint32_t> symbols, size_t bits, std::span<uint32_t> table);

}  // namespace penstock
