#include "formats/deflate_symbols.h"

#include <array>
#include <bit>
#include <cstring>

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

#define PENSTOCK_INLINE [[gnu::always_inline]] inline

constexpr uint32_t kFull = 56;      // bits that are there at least after a refill, with those passed over
constexpr uint32_t kPassed = 2;     // bits
constexpr int kLiteralsARound = 4;  // that need no refill: their codes and the one that is looked up behind them
static_assert((kLiteralsARound + 1) * kLiteralBits <= kFull - kPassed);
static_assert(15 + 5 + 15 + 13 <= kFull - kPassed);  // the longest match

// A stream in registers. The two lowest bits were passed over: so masked bits are the offset of an entry of four bytes, and the load that everything
// waits for has no index to scale, which takes some processors a cycle of seven.
struct Cursor {
  uint64_t bits;
  uint32_t count;  // its low byte alone means something: entries are subtracted whole
  const uint8_t* in;
  uint8_t* out;
  uint32_t entry;  // of the next symbol, looked up before the bits behind it are refilled: it need not wait for them
};

PENSTOCK_INLINE uint64_t Load64(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Bits above `count` may be there already; the same are put over them.
PENSTOCK_INLINE void Refill(Cursor& cursor) {
  cursor.bits |= Load64(cursor.in) << (cursor.count & 63);
  cursor.in += 7 - (cursor.count >> 3 & 7);
  cursor.count |= kFull;
}

PENSTOCK_INLINE uint32_t Lookup(const uint32_t* table, size_t bits, uint64_t next) {
  uint32_t entry;
  std::memcpy(&entry, reinterpret_cast<const uint8_t*>(table) + (next & (((uint64_t{1} << bits) - 1) << kPassed)), sizeof entry);
  return entry;
}
PENSTOCK_INLINE uint32_t NextEntry(const BlockTables& tables, const Cursor& cursor) {
  return Lookup(tables.literals.data(), kLiteralBits, cursor.bits);
}

PENSTOCK_INLINE void Pass(Cursor& cursor, uint32_t entry) {
  cursor.bits >>= entry & 63;
  cursor.count -= entry;
}

// The entry of a code that is longer than the table's bits.
template <size_t kSize>
PENSTOCK_INLINE uint32_t Behind(const std::array<uint32_t, kSize>& table, Cursor& cursor, uint32_t pointer) {
  Pass(cursor, pointer);
  return table[(pointer >> 16) + (cursor.bits >> kPassed & ((1U << (pointer >> 8 & 15)) - 1))];
}

// The least value of a length or distance and its extra bits.
PENSTOCK_INLINE uint32_t Value(const Cursor& cursor, uint32_t entry) {
  const uint64_t code_and_extra = cursor.bits >> kPassed & ((uint64_t{1} << (entry & 63)) - 1);
  return (entry >> 16) + static_cast<uint32_t>(code_and_extra >> (entry >> 8 & 63));
}

// Writes up to 32 bytes more than `length`. A source that overlaps what is written repeats itself.
PENSTOCK_INLINE void CopyMatch(uint8_t* out, uint32_t length, uint32_t distance) {
  const uint8_t* from = out - distance;
  uint8_t* const end = out + length;
  if (distance >= 16) [[likely]] {
    std::memcpy(out, from, 16);
    std::memcpy(out + 16, from + 16, 16);
    for (int64_t copied = 32; copied < length; copied += 16) std::memcpy(out + copied, from + copied, 16);
  } else if (distance >= 8) {
    for (; out < end; out += 8, from += 8) std::memcpy(out, from, 8);
  } else {
    uint64_t pattern = Load64(from) & ((uint64_t{1} << 8 * distance) - 1);
    for (uint32_t bytes = distance; bytes < 8; bytes *= 2) pattern |= pattern << 8 * bytes;
    for (const uint32_t step = 8 - 8 % distance; out < end; out += step) std::memcpy(out, &pattern, 8);
  }
}

// What is no literal of the table, with kFull bits there.
PENSTOCK_INLINE Symbols Other(const BlockTables& tables, const uint8_t* begin, Cursor& cursor) {
  uint32_t entry = cursor.entry;
  if (entry & kExceptional) [[unlikely]] {
    if (entry & kPointer) entry = Behind(tables.literals, cursor, entry);
    if (entry & kLiteralEntry) {
      Pass(cursor, entry);
      *cursor.out++ = static_cast<uint8_t>(entry >> 16);
      Refill(cursor);
      cursor.entry = NextEntry(tables, cursor);
      return Symbols::kGoOn;
    }
    if (entry & kExceptional) {
      if (!(entry & kEndOfBlock)) return Symbols::kBadSymbol;
      Pass(cursor, entry);
      return Symbols::kBlockEnd;
    }
  }
  const uint32_t length = Value(cursor, entry);
  Pass(cursor, entry);
  entry = Lookup(tables.distances.data(), kDistanceBits, cursor.bits);
  if (entry & kExceptional) [[unlikely]] {
    if (entry & kPointer) entry = Behind(tables.distances, cursor, entry);
    if (entry & kExceptional) return Symbols::kBadDistance;
  }
  const uint32_t distance = Value(cursor, entry);
  Pass(cursor, entry);
  Refill(cursor);
  cursor.entry = NextEntry(tables, cursor);
  if (distance > cursor.out - begin) [[unlikely]]
    return Symbols::kBadDistance;
  CopyMatch(cursor.out, length, distance);
  cursor.out += length;
  return Symbols::kGoOn;
}

// A few literals, or fewer and a match.
PENSTOCK_INLINE Symbols Round(const BlockTables& tables, const uint8_t* begin, Cursor& cursor) {
#pragma GCC unroll 8
  for (int i = 0; i < kLiteralsARound; ++i) {
    if (!(cursor.entry & kLiteralEntry)) {
      if (i > 0) Refill(cursor);
      return Other(tables, begin, cursor);
    }
    Pass(cursor, cursor.entry);
    *cursor.out++ = static_cast<uint8_t>(cursor.entry >> 16);
    cursor.entry = NextEntry(tables, cursor);
  }
  Refill(cursor);
  return Symbols::kGoOn;
}

PENSTOCK_INLINE Cursor Begin(SymbolStream& stream) {
  if (stream.count > 56) {  // there is no room for those passed over
    --stream.in;
    stream.count -= 8;
  }
  const uint64_t bits = stream.bits & ((uint64_t{1} << stream.count) - 1);
  Cursor cursor{.bits = bits << kPassed, .count = stream.count + kPassed, .in = stream.in, .out = stream.out, .entry = 0};
  Refill(cursor);
  cursor.entry = NextEntry(*stream.tables, cursor);
  return cursor;
}

PENSTOCK_INLINE void End(const Cursor& cursor, SymbolStream& stream) {
  stream.count = (cursor.count & 63) - kPassed;
  stream.bits = cursor.bits >> kPassed & ((uint64_t{1} << stream.count) - 1);
  stream.in = cursor.in;
  stream.out = cursor.out;
}

PENSTOCK_INLINE Symbols DecodeAlone(SymbolStream& stream) {
  if (!HasRound(stream)) return Symbols::kGoOn;
  const BlockTables& tables = *stream.tables;
  const uint8_t* const begin = stream.begin;
  const uint8_t* const in_end = stream.in_end - kSymbolsInput;
  const uint8_t* const out_end = stream.out_end;
  Cursor cursor = Begin(stream);
  Symbols symbols = Symbols::kGoOn;
  while (cursor.in < in_end && cursor.out < out_end) {
    symbols = Round(tables, begin, cursor);
    if (symbols != Symbols::kGoOn) [[unlikely]]
      break;
  }
  End(cursor, stream);
  return symbols;
}

PENSTOCK_INLINE OfTwo DecodeBoth(SymbolStream& first, SymbolStream& second) {
  OfTwo result{Symbols::kGoOn, false};
  if (!HasRound(first) || !HasRound(second)) return result;
  Cursor a = Begin(first);
  Cursor b = Begin(second);
  for (;;) {
    if (first.in_end - a.in <= static_cast<ptrdiff_t>(kSymbolsInput) || a.out >= first.out_end) break;
    if (second.in_end - b.in <= static_cast<ptrdiff_t>(kSymbolsInput) || b.out >= second.out_end) break;
    result = {Round(*first.tables, first.begin, a), false};
    if (result.symbols != Symbols::kGoOn) [[unlikely]]
      break;
    result = {Round(*second.tables, second.begin, b), true};
    if (result.symbols != Symbols::kGoOn) [[unlikely]]
      break;
  }
  End(a, first);
  End(b, second);
  return result;
}

[[gnu::target("bmi,bmi2")]] Symbols AloneByBmi2(SymbolStream& stream) { return DecodeAlone(stream); }
Symbols AloneByBaseline(SymbolStream& stream) { return DecodeAlone(stream); }
[[gnu::target("bmi,bmi2")]] OfTwo BothByBmi2(SymbolStream& first, SymbolStream& second) { return DecodeBoth(first, second); }
OfTwo BothByBaseline(SymbolStream& first, SymbolStream& second) { return DecodeBoth(first, second); }

const Instructions kBest = __builtin_cpu_supports("bmi2") ? Instructions::kBmi2 : Instructions::kBaseline;

}  // namespace

Instructions BestInstructions() { return kBest; }

Symbols DecodeSymbols(SymbolStream& stream, Instructions instructions) {
  return instructions == Instructions::kBmi2 ? AloneByBmi2(stream) : AloneByBaseline(stream);
}

OfTwo DecodeSymbols(SymbolStream& first, SymbolStream& second, Instructions instructions) {
  return instructions == Instructions::kBmi2 ? BothByBmi2(first, second) : BothByBaseline(first, second);
}

Symbols DecodeSymbol(SymbolStream& stream) {
  Cursor cursor = Begin(stream);
  Symbols symbols = Symbols::kGoOn;
  if (cursor.entry & kLiteralEntry) {
    Pass(cursor, cursor.entry);
    *cursor.out++ = static_cast<uint8_t>(cursor.entry >> 16);
  } else {
    symbols = Other(*stream.tables, stream.begin, cursor);
  }
  End(cursor, stream);
  return symbols;
}

}  // namespace penstock
