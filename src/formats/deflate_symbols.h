// The loop of a DEFLATE decoder: the literals and matches of a block whose tables are made. deflate_decoder.h is what to use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/huffman_table.h"

namespace penstock {

// Where a stream is within a block.
struct SymbolStream {
  const BlockTables* tables = nullptr;
  uint64_t bits = 0;   // the next ones, the first lowest
  uint32_t count = 0;  // how many they are, up to 63
  const uint8_t* in = nullptr;
  const uint8_t* in_end = nullptr;
  const uint8_t* begin = nullptr;  // of what a match may refer to
  uint8_t* out = nullptr;
  uint8_t* out_end = nullptr;
};

inline constexpr size_t kSymbolsInput = 32;    // bytes that a round may read; with fewer left there is none
inline constexpr size_t kSymbolsOutput = 320;  // bytes that a round may write behind out_end

enum class Symbols : uint8_t { kGoOn, kBlockEnd, kBadSymbol, kBadDistance };

inline bool HasRound(const SymbolStream& stream) {
  return stream.out < stream.out_end && stream.in_end - stream.in > static_cast<ptrdiff_t>(kSymbolsInput);
}

// The instructions that a loop is compiled to: what comes out is the same.
enum class Instructions : uint8_t {
  kBaseline,
  kBmi2,  // shifts by a register's value are one instruction instead of three
};
Instructions BestInstructions();  // that this processor has

// Decodes while HasRound(), or up to the block's end or damage.
Symbols DecodeSymbols(SymbolStream& stream, Instructions instructions);

struct OfTwo {
  Symbols symbols;
  bool second;  // whose they are
};
// Decodes both while both have a round, or up to the first block's end or damage in one of them.
OfTwo DecodeSymbols(SymbolStream& first, SymbolStream& second, Instructions instructions);

// One literal or match, wherever the input ends: kSymbolsInput bytes behind `in` are read. Whether they were there is for the caller to ask.
Symbols DecodeSymbol(SymbolStream& stream);

}  // namespace penstock
