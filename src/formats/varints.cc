#include "formats/varints.h"

#include <immintrin.h>

#include <bit>
#include <cstring>

#include "formats/protobuf_wire.h"

namespace penstock {
namespace {

constexpr ptrdiff_t kChunk = 64;

// A bit for each of 64 bytes: whether a varint ends there.
uint64_t EndsIn(const char* chunk) {
  uint64_t goes_on = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(chunk) + i);
    goes_on |= uint64_t{static_cast<uint16_t>(_mm_movemask_epi8(bytes))} << (16 * i);
  }
  return ~goes_on;
}

uint64_t Load(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

void Store(uint64_t value, std::byte*& out) {
  std::memcpy(out, &value, sizeof value);
  out += sizeof value;
}

struct JoinByShifts {
  uint64_t operator()(uint64_t word) const { return JoinSevens(word); }
};
struct JoinByPext {
  [[gnu::target("bmi2")]] uint64_t operator()(uint64_t word) const { return _pext_u64(word, ~kTopBits); }
};

// Decodes what ends in the chunk at `at`, behind which 8 bytes can be read, to `out`, as far as it goes. The ends are found first, so that no load
// waits for the one before. Returns where it stopped: the start of a varint that ends behind the chunk, is longer than 8 bytes, or has no room.
template <class Join>
[[gnu::always_inline]] inline const char* DecodeChunk(const char* at, std::byte*& out, const std::byte* out_end, Join join) {
  const char* start = at;
  for (uint64_t ends = EndsIn(at); ends != 0; ends &= ends - 1) {
    const char* const next = at + std::countr_zero(ends) + 1;
    const auto length = next - start;
    if (length > 8 || out == out_end) break;
    Store(join(Load(start) & ~uint64_t{0} >> (64 - 8 * length)), out);
    start = next;
  }
  return start;
}

// All chunks of [at, end) that have 8 bytes behind them, as far as DecodeChunk goes.
template <class Join>
[[gnu::always_inline]] inline const char* DecodeChunks(const char* at, const char* end, std::byte*& out, const std::byte* out_end, Join join) {
  while (end - at >= kChunk + 8) {
    const char* const next = DecodeChunk(at, out, out_end, join);
    if (next == at) break;
    at = next;
  }
  return at;
}

const char* DecodeByShifts(const char* at, const char* end, std::byte*& out, const std::byte* out_end) {
  return DecodeChunks(at, end, out, out_end, JoinByShifts{});
}

[[gnu::target("bmi,bmi2")]] const char* DecodeByPext(const char* at, const char* end, std::byte*& out, const std::byte* out_end) {
  return DecodeChunks(at, end, out, out_end, JoinByPext{});
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
  const char* const end = run.data() + run.size();
  const std::byte* const out_end = out + n * sizeof(uint64_t);
  const char* const at = (kFastPext ? DecodeByPext : DecodeByShifts)(run.data(), end, out, out_end);
  const std::string_view rest(at, static_cast<size_t>(end - at));
  const auto room = static_cast<uint64_t>(out_end - out) / sizeof(uint64_t);
  return CountVarints(rest) == room && ForEachVarint(rest, [&out](uint64_t value) { Store(value, out); });
}

}  // namespace penstock
