#include "formats/huffman_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock {
namespace {

constexpr size_t kLongestCode = 15;

constexpr uint32_t Ranged(uint32_t least, uint32_t extra_bits) { return least << 16 | extra_bits; }

constexpr std::array<uint32_t, kMaxLiterals> LiteralSymbols() {
  std::array<uint32_t, kMaxLiterals> symbols{};
  for (uint32_t i = 0; i < 256; ++i) symbols[i] = kLiteralEntry | i << 16;
  symbols[256] = kExceptional | kEndOfBlock;
  uint32_t least = 3;
  for (uint32_t i = 257; i < 285; ++i) {
    const uint32_t extra = i < 265 ? 0 : (i - 261) / 4;
    symbols[i] = Ranged(least, extra);
    least += 1U << extra;
  }
  symbols[285] = Ranged(258, 0);
  symbols[286] = symbols[287] = kExceptional;
  return symbols;
}

constexpr std::array<uint32_t, kMaxDistances> DistanceSymbols() {
  std::array<uint32_t, kMaxDistances> symbols{};
  uint32_t least = 1;
  for (uint32_t i = 0; i < 30; ++i) {
    const uint32_t extra = i < 4 ? 0 : i / 2 - 1;
    symbols[i] = Ranged(least, extra);
    least += 1U << extra;
  }
  symbols[30] = symbols[31] = kExceptional;
  return symbols;
}

constexpr std::array<uint32_t, kLengthCodes> LengthCodeSymbols() {
  std::array<uint32_t, kLengthCodes> symbols{};
  for (uint32_t i = 0; i < kLengthCodes; ++i) symbols[i] = i << 16;
  return symbols;
}

constexpr uint32_t WithBits(uint32_t symbol, size_t bits) { return symbol + static_cast<uint32_t>(bits << 8 | bits); }

// Codes are packed from their first bit on, so a table is looked up by reversed ones. The code after `code`, reversed, of so many bits, which is not
// the last: the highest 0 becomes a 1, and what is above it 0. One bit longer it is the same number, for the 0 behind it is then above it.
uint32_t Following(uint32_t code, size_t bits) {
  const uint32_t highest = std::bit_floor(code ^ ((1U << bits) - 1));
  return (code & (highest - 1)) | highest;
}

// Symbols in the order of their codes, and how many codes there are of each length.
struct SortedCode {
  std::array<uint16_t, kLongestCode + 1> count{};
  std::array<uint16_t, kMaxLiterals> sorted;
  size_t used = 0;

  explicit SortedCode(std::span<const uint8_t> lengths) {
    for (const uint8_t length : lengths) ++count[length];
    std::array<uint16_t, kLongestCode + 2> start{};
    for (size_t length = 1; length <= kLongestCode; ++length) start[length + 1] = static_cast<uint16_t>(start[length] + count[length]);
    used = start[kLongestCode + 1];
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] > 0) sorted[start[lengths[i]]++] = static_cast<uint16_t>(i);
    }
  }

  // Of the room that codes have: below 0 there are too many.
  int Left() const {
    int left = 1;
    for (size_t length = 1; length <= kLongestCode && left >= 0; ++length) left = 2 * left - count[length];
    return left;
  }
};

// Codes longer than `bits`, from `code` on, which is the one of code.sorted[next].
bool BuildSubtables(const SortedCode& all, std::span<const uint32_t> symbols, size_t bits, size_t next, uint32_t code, std::span<uint32_t> table) {
  const uint32_t low = (1U << bits) - 1;
  size_t end = size_t{1} << bits;
  size_t start = 0;
  size_t sub_bits = 0;
  uint32_t prefix = ~0U;
  for (size_t length = bits + 1; length <= kLongestCode; ++length) {
    for (size_t left = all.count[length]; left > 0; --left) {
      if ((code & low) != prefix) {
        prefix = code & low;
        start = end;
        sub_bits = length - bits;
        // As large as it takes to hold the codes that follow.
        for (size_t held = left; held < size_t{1} << sub_bits && bits + sub_bits < kLongestCode;) held = 2 * held + all.count[bits + ++sub_bits];
        end += size_t{1} << sub_bits;
        if (end > table.size()) return false;
        table[prefix] = kExceptional | kPointer | static_cast<uint32_t>(start << 16 | sub_bits << 8 | bits);
      }
      const uint32_t entry = WithBits(symbols[all.sorted[next++]], length - bits);
      for (size_t i = code >> bits; i < size_t{1} << sub_bits; i += size_t{1} << (length - bits)) table[start + i] = entry;
      if (next == all.used) return true;
      code = Following(code, length);
    }
  }
  return true;
}

}  // namespace

constinit const std::array<uint32_t, kMaxLiterals> kLiteralSymbols = LiteralSymbols();
constinit const std::array<uint32_t, kMaxDistances> kDistanceSymbols = DistanceSymbols();
constinit const std::array<uint32_t, kLengthCodes> kLengthCodeSymbols = LengthCodeSymbols();

bool BuildTable(std::span<const uint8_t> lengths, std::span<const uint32_t> symbols, size_t bits, std::span<uint32_t> table) {
  const SortedCode all(lengths);
  const int left = all.Left();
  const bool sparse = all.used == 0 || (all.used == 1 && all.count[1] == 1);
  if (left < 0 || (left > 0 && !sparse)) return false;
  if (sparse) {
    std::fill_n(table.begin(), size_t{1} << bits, kExceptional | 1U);
    for (size_t i = 0; all.used == 1 && i < size_t{1} << bits; i += 2) table[i] = WithBits(symbols[all.sorted[0]], 1);
    return true;
  }
  // A table for codes of up to `length` bits is that for shorter ones twice, and then the codes of this length.
  table[0] = 0;
  uint32_t code = 0;
  size_t next = 0;
  for (size_t length = 1; length <= bits; ++length) {
    std::memcpy(&table[size_t{1} << (length - 1)], table.data(), sizeof(uint32_t) << (length - 1));
    for (size_t i = 0; i < all.count[length]; ++i) {
      table[code] = WithBits(symbols[all.sorted[next++]], length);
      if (next < all.used) code = Following(code, length);
    }
  }
  return next == all.used || BuildSubtables(all, symbols, bits, next, code, table);
}

}  // namespace penstock
