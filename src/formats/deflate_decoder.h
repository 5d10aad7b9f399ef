// DEFLATE data (RFC 1951) decoded piece by piece, alone or two streams at a time.
//
// Which bits come next is known only when the table was looked up for those before: each symbol waits for the one before it. Two streams that take
// turns in one loop do not wait for each other, and take less time than one after the other (bench/limits.py says how much).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "formats/deflate_symbols.h"
#include "formats/huffman_table.h"

namespace penstock {

// Where a decoder reads and writes; it moves `in` and `out`.
struct DeflateBytes {
  const uint8_t* in = nullptr;
  const uint8_t* in_end = nullptr;  // behind it kInputSlack bytes can be read, whatever they are
  bool last = false;                // nothing comes behind in_end
  const uint8_t* begin = nullptr;   // of what was written before `out`: all of the data, or at least kHistory bytes
  uint8_t* out = nullptr;
  uint8_t* out_end = nullptr;  // where to stop; up to kOutputSlack bytes behind it may be written
};

// Thread-compatible. Neither reads nor writes beyond what DeflateBytes says, whatever the data.
class DeflateDecoder {
 public:
  static constexpr size_t kHistory = 32 * 1024;
  static constexpr size_t kInputSlack = 640;  // the description of a block's codes is read before it is asked whether it was all there
  static constexpr size_t kOutputSlack = kSymbolsOutput;

  enum class Stop : uint8_t {
    kInput,    // there is too little behind `in`; what is there is wanted again
    kOutput,   // `out` is at out_end or behind it
    kEnd,      // of the data; `in` is behind it
    kDamaged,  // why() says how; what was written is good
  };

  // Two that run together have the same instructions.
  explicit DeflateDecoder(Instructions instructions = BestInstructions()) : instructions_(instructions) {}

  void Reset();  // to the start of other data
  Stop Run(DeflateBytes& at);
  // Both, until one of them has something else to do than decoding symbols; nothing where that is so now. Run() does that, and tells what it is.
  static void RunTogether(DeflateDecoder& a, DeflateBytes& a_at, DeflateDecoder& b, DeflateBytes& b_at);

  bool over() const { return state_ == State::kEnd || state_ == State::kDamaged; }  // Run() says so, again and again
  std::string_view why() const { return why_; }
  size_t unread() const { return count_ / 8; }  // whole bytes before `in` that were not decoded yet

 private:
  enum class State : uint8_t { kBlockStart, kStored, kSymbols, kEnd, kDamaged };
  enum class Read : uint8_t { kDone, kTooLittle, kDamaged };

  Stop WantsInput(DeflateBytes& at);
  SymbolStream Stream(const DeflateBytes& at) const;
  void Take(const SymbolStream& stream, Symbols symbols, DeflateBytes& at);
  Read LastSymbol(DeflateBytes& at);

  Read StartBlock(DeflateBytes& at);
  Read StartStored(DeflateBytes& at);
  Read ReadCodes(DeflateBytes& at);
  Read ReadLengths(DeflateBytes& at, std::span<uint8_t> lengths);
  void UseFixedCodes();
  void CopyStored(DeflateBytes& at);

  void Refill(DeflateBytes& at);
  uint32_t Bits(size_t n);
  Read Damaged(std::string_view why);

  BlockTables tables_;
  Instructions instructions_;
  uint64_t bits_ = 0;  // the next ones, the first lowest
  uint32_t count_ = 0;
  State state_ = State::kBlockStart;
  bool final_ = false;  // the block is the last
  bool fixed_ = false;  // tables_ are those of fixed codes
  size_t stored_ = 0;   // bytes left of a stored block
  std::string_view why_;
};

}  // namespace penstock
