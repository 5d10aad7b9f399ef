#include "formats/deflate_decoder.h"

#include <algorithm>
#include <cstring>

namespace penstock {
namespace {

// Whether bits were taken that lie behind the input's end.
bool Overran(const DeflateBytes& at, uint32_t bits_left) { return at.in - bits_left / 8 > at.in_end; }

}  // namespace

void DeflateDecoder::Reset() {
  bits_ = 0;
  count_ = 0;
  state_ = State::kBlockStart;
  final_ = false;
  stored_ = 0;
  why_ = {};
}

DeflateDecoder::Stop DeflateDecoder::Run(DeflateBytes& at) {
  for (;;) {
    if (state_ == State::kEnd) return Stop::kEnd;
    if (state_ == State::kDamaged) return Stop::kDamaged;
    if (at.out >= at.out_end) return Stop::kOutput;
    if (state_ == State::kBlockStart) {
      if (StartBlock(at) == Read::kTooLittle) return WantsInput(at);
    } else if (state_ == State::kStored) {
      if (stored_ > 0 && at.in == at.in_end) return WantsInput(at);
      CopyStored(at);
    } else if (SymbolStream stream = Stream(at); HasRound(stream)) {
      const Symbols symbols = DecodeSymbols(stream, instructions_);
      Take(stream, symbols, at);
    } else {
      if (!at.last || LastSymbol(at) == Read::kTooLittle) return WantsInput(at);
    }
  }
}

// Whole bytes are given back: the input may be somewhere else when it goes on.
DeflateDecoder::Stop DeflateDecoder::WantsInput(DeflateBytes& at) {
  at.in -= count_ / 8;
  count_ %= 8;
  bits_ &= (uint64_t{1} << count_) - 1;
  return Stop::kInput;
}

void DeflateDecoder::RunTogether(DeflateDecoder& a, DeflateBytes& a_at, DeflateDecoder& b, DeflateBytes& b_at) {
  if (a.state_ != State::kSymbols || b.state_ != State::kSymbols) return;
  SymbolStream first = a.Stream(a_at);
  SymbolStream second = b.Stream(b_at);
  const OfTwo result = DecodeSymbols(first, second, a.instructions_);
  a.Take(first, result.second ? Symbols::kGoOn : result.symbols, a_at);
  b.Take(second, result.second ? result.symbols : Symbols::kGoOn, b_at);
}

SymbolStream DeflateDecoder::Stream(const DeflateBytes& at) const {
  return {
      .tables = &tables_, .bits = bits_, .count = count_, .in = at.in, .in_end = at.in_end, .begin = at.begin, .out = at.out, .out_end = at.out_end};
}

void DeflateDecoder::Take(const SymbolStream& stream, Symbols symbols, DeflateBytes& at) {
  bits_ = stream.bits;
  count_ = stream.count;
  at.in = stream.in;
  at.out = stream.out;
  if (symbols == Symbols::kBadSymbol) (void)Damaged("an invalid symbol");
  if (symbols == Symbols::kBadDistance) (void)Damaged("a reference to before its start");
  if (symbols != Symbols::kBlockEnd) return;
  state_ = final_ ? State::kEnd : State::kBlockStart;
  if (!final_) return;
  at.in -= count_ / 8;  // what follows the data is not ours
  bits_ = 0;
  count_ = 0;
}

// Where the input is about to end: what was read from behind it is found out afterwards.
DeflateDecoder::Read DeflateDecoder::LastSymbol(DeflateBytes& at) {
  SymbolStream stream = Stream(at);
  const Symbols symbols = DecodeSymbol(stream);
  if (stream.in - stream.count / 8 > at.in_end) return Read::kTooLittle;
  Take(stream, symbols, at);
  return Read::kDone;
}

// All of a block's head, or nothing of it.
DeflateDecoder::Read DeflateDecoder::StartBlock(DeflateBytes& at) {
  const uint64_t bits = bits_;
  const uint32_t count = count_;
  const uint8_t* const in = at.in;
  Refill(at);
  final_ = Bits(1) != 0;
  const uint32_t type = Bits(2);
  Read read = Read::kDone;
  if (type == 0) read = StartStored(at);
  if (type == 1) UseFixedCodes();
  if (type == 2) read = ReadCodes(at);
  if (Overran(at, count_)) read = Read::kTooLittle;  // what it says was not read from the data
  if (read == Read::kTooLittle) {
    bits_ = bits;
    count_ = count;
    at.in = in;
    state_ = State::kBlockStart;
    return read;
  }
  if (type == 3) return Damaged("an invalid block");
  if (read == Read::kDamaged) return read;
  state_ = type == 0 ? State::kStored : State::kSymbols;
  if (at.in > at.in_end) {  // bits from behind the end are none
    count_ -= static_cast<uint32_t>(8 * (at.in - at.in_end));
    at.in = at.in_end;
  }
  bits_ &= (uint64_t{1} << count_) - 1;
  return read;
}

DeflateDecoder::Read DeflateDecoder::StartStored(DeflateBytes& at) {
  at.in -= count_ / 8;
  bits_ = 0;
  count_ = 0;
  if (at.in_end - at.in < 4) return Read::kTooLittle;
  const auto word = [&at](int i) { return static_cast<uint32_t>(at.in[i] | at.in[i + 1] << 8); };
  if (word(0) != (word(2) ^ 0xFFFF)) return Damaged("an invalid block");
  stored_ = word(0);
  at.in += 4;
  return Read::kDone;
}

void DeflateDecoder::CopyStored(DeflateBytes& at) {
  const size_t bytes = std::min({stored_, static_cast<size_t>(at.in_end - at.in), static_cast<size_t>(at.out_end - at.out)});
  if (bytes > 0) std::memcpy(at.out, at.in, bytes);
  at.in += bytes;
  at.out += bytes;
  stored_ -= bytes;
  if (stored_ == 0) state_ = final_ ? State::kEnd : State::kBlockStart;
}

void DeflateDecoder::UseFixedCodes() {
  if (fixed_) return;
  std::array<uint8_t, kMaxLiterals> lengths{};
  std::fill_n(lengths.begin(), 144, 8);
  std::fill(lengths.begin() + 144, lengths.begin() + 256, 9);
  std::fill(lengths.begin() + 256, lengths.begin() + 280, 7);
  std::fill(lengths.begin() + 280, lengths.end(), 8);
  const bool literals = BuildTable(lengths, kLiteralSymbols, kLiteralBits, tables_.literals);
  std::fill_n(lengths.begin(), kMaxDistances, 5);
  fixed_ = literals && BuildTable(std::span(lengths).first(kMaxDistances), kDistanceSymbols, kDistanceBits, tables_.distances);
}

DeflateDecoder::Read DeflateDecoder::ReadCodes(DeflateBytes& at) {
  const size_t literals = 257 + Bits(5);
  const size_t distances = 1 + Bits(5);
  if (literals > 286 || distances > 30) return Damaged("an invalid block");
  std::array<uint8_t, kMaxLiterals + kMaxDistances> lengths;
  if (const Read read = ReadLengths(at, std::span(lengths).first(literals + distances)); read != Read::kDone) return read;
  fixed_ = false;
  const std::span all(lengths);
  const bool codes = lengths[256] > 0 && BuildTable(all.first(literals), kLiteralSymbols, kLiteralBits, tables_.literals) &&
                     BuildTable(all.subspan(literals, distances), kDistanceSymbols, kDistanceBits, tables_.distances);
  return codes ? Read::kDone : Damaged("an invalid block");
}

// The lengths of codes, in a code of their own.
DeflateDecoder::Read DeflateDecoder::ReadLengths(DeflateBytes& at, std::span<uint8_t> lengths) {
  static constexpr std::array<uint8_t, kLengthCodes> kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  std::array<uint8_t, kLengthCodes> code{};
  const size_t told = 4 + Bits(4);
  for (size_t i = 0; i < told; ++i) {
    Refill(at);
    code[kOrder[i]] = static_cast<uint8_t>(Bits(3));
  }
  std::array<uint32_t, 1 << kLengthCodeBits> table;
  const bool one = std::count(code.begin(), code.end(), 0) + 1 >= static_cast<ptrdiff_t>(code.size());  // at the most, which is no code here
  if (one || !BuildTable(code, kLengthCodeSymbols, kLengthCodeBits, table)) return Damaged("an invalid block");
  for (size_t i = 0; i < lengths.size();) {
    Refill(at);
    const uint32_t entry = table[bits_ & (table.size() - 1)];
    if (entry & kExceptional) return Damaged("an invalid block");
    (void)Bits(entry & 63);
    const uint32_t symbol = entry >> 16;
    if (symbol < 16) {
      lengths[i++] = static_cast<uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) return Damaged("an invalid block");
    const size_t times = symbol == 16 ? 3 + Bits(2) : symbol == 17 ? 3 + Bits(3) : 11 + Bits(7);
    if (times > lengths.size() - i) return Damaged("an invalid block");
    std::memset(&lengths[i], symbol == 16 ? lengths[i - 1] : 0, times);
    i += times;
  }
  return Read::kDone;
}

void DeflateDecoder::Refill(DeflateBytes& at) {
  uint64_t word;
  std::memcpy(&word, at.in, sizeof word);
  bits_ |= word << count_;
  at.in += 7 - count_ / 8;
  count_ |= 56;
}

uint32_t DeflateDecoder::Bits(size_t n) {
  const auto value = static_cast<uint32_t>(bits_ & ((uint64_t{1} << n) - 1));
  bits_ >>= n;
  count_ -= static_cast<uint32_t>(n);
  return value;
}

DeflateDecoder::Read DeflateDecoder::Damaged(std::string_view why) {
  state_ = State::kDamaged;
  why_ = why;
  return Read::kDamaged;
}

}  // namespace penstock
