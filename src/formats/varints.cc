#include "formats/varints.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kChunk = 64;
constexpr size_t kBehind = 8;  // bytes behind a chunk that are loaded with its last ones
constexpr ptrdiff_t kLongest = 10;
constexpr uint64_t kTopBits = 0x8080808080808080;  // clear in the last byte of a varint

// A bit for each of 64 bytes: whether a varint ends there.
[[gnu::always_inline]] inline uint64_t EndsIn(const char* chunk) {
  const auto goes_on = [chunk](int i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(chunk) + i);
    return uint64_t{static_cast<uint16_t>(_mm_movemask_epi8(bytes))} << (16 * i);
  };
  return ~(goes_on(0) | goes_on(1) | goes_on(2) | goes_on(3));
}

uint64_t Load(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The low seven bits of each of the first `length` bytes, or of all eight, one after another.
struct JoinByShifts {
  uint64_t operator()(uint64_t word, ptrdiff_t length) const {
    if (length < 8) word &= ~uint64_t{0} >> (64 - 8 * length);
    word = (word & 0x007F007F007F007F) | (word & 0x7F007F007F007F00) >> 1;
    word = (word & 0x00003FFF00003FFF) | (word & 0x3FFF00003FFF0000) >> 2;
    return (word & 0x000000000FFFFFFF) | (word & 0x0FFFFFFF00000000) >> 4;
  }
};
struct JoinByPext {
  [[gnu::target("bmi2")]] uint64_t operator()(uint64_t word, ptrdiff_t length) const {
    return _pext_u64(_bzhi_u64(word, static_cast<unsigned>(8 * length)), ~kTopBits);
  }
};

// What the ninth byte and the tenth, if it has one, add to the value: negative numbers and hashes of 64 bits are that long.
[[gnu::always_inline]] inline uint64_t HighBits(const char* ninth, ptrdiff_t length) {
  const uint64_t high = static_cast<uint8_t>(ninth[0]) & 0x7FU;
  return high << 56 | (length == kLongest ? static_cast<uint64_t>(ninth[1]) << 63 : 0);
}

// Decodes to `out`, as far as there is room, the varints that `ends` says end in the chunk at `at`, behind which kBehind bytes can be read. The ends
// are found first, so that no load waits for the one before. Returns where it stopped: the start of a varint that ends behind the chunk, is longer
// than any can be, or has no room.
template <class Join>
[[gnu::always_inline]] inline const char* DecodeChunk(const char* at, uint64_t ends, std::byte*& out, const std::byte* out_end, Join join) {
  const char* start = at;
  std::byte* to = out;  // not through the reference, which what is stored could change
  for (; ends != 0; ends &= ends - 1) {
    const char* const next = at + std::countr_zero(ends) + 1;
    const auto length = next - start;
    if (length > kLongest || to == out_end) break;
    uint64_t value = join(Load(start), length);
    if (length > 8) value |= HighBits(start + 8, length);
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
    start = next;
  }
  out = to;
  return start;
}

// All of `run`, as far as DecodeChunk goes; what is behind the last whole chunk from a copy that can be read beyond its end.
template <class Join>
[[gnu::always_inline]] inline bool Decode(std::string_view run, std::byte* out, const std::byte* out_end, Join join) {
  const char* at = run.data();
  const char* const end = at + run.size();
  while (end - at >= static_cast<ptrdiff_t>(kChunk + kBehind)) {
    const char* const next = DecodeChunk(at, EndsIn(at), out, out_end, join);
    if (next == at) return false;
    at = next;
  }
  while (at != end) {
    std::array<char, kChunk + kBehind> copy{};
    const size_t bytes = std::min(kChunk, static_cast<size_t>(end - at));
    std::memcpy(copy.data(), at, bytes);
    const uint64_t ends = EndsIn(copy.data()) & ~uint64_t{0} >> (kChunk - bytes);
    const auto decoded = DecodeChunk(copy.data(), ends, out, out_end, join) - copy.data();
    if (decoded == 0) return false;
    at += decoded;
  }
  return out == out_end;
}

bool DecodeByShifts(std::string_view run, std::byte* out, const std::byte* out_end) { return Decode(run, out, out_end, JoinByShifts{}); }

[[gnu::target("bmi,bmi2")]] bool DecodeByPext(std::string_view run, std::byte* out, const std::byte* out_end) {
  return Decode(run, out, out_end, JoinByPext{});
}

// Zen before its third generation has the instruction, but as a slow loop.
const bool kFastPext = __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2");

}  // namespace

uint64_t CountVarints(std::string_view run) {
  uint64_t goes_on = 0;
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= run.size(); at += sizeof(uint64_t)) {
    goes_on += ((Load(run.data() + at) & kTopBits) >> 7) * 0x0101010101010101 >> 56;  // the sum of its bytes
  }
  for (; at < run.size(); ++at) goes_on += static_cast<uint8_t>(run[at]) >> 7;
  return run.size() - goes_on;
}

bool DecodeVarints(std::string_view run, uint64_t n, std::byte* out) {
  const std::byte* const out_end = out + n * sizeof(uint64_t);
  return (kFastPext ? DecodeByPext : DecodeByShifts)(run, out, out_end);
}

}  // namespace penstock
