#include "formats/varints.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace penstock {
namespace {

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

std::string RunOf(const std::vector<uint64_t>& values) {
  std::string run;
  for (const uint64_t value : values) AppendVarint(value, run);
  return run;
}

std::vector<uint64_t> Decoded(std::string_view run, uint64_t n) {
  std::vector<uint64_t> values(n);
  if (!DecodeVarints(run, n, reinterpret_cast<std::byte*>(values.data()))) values.clear();
  return values;
}

// Numbers of up to so many bits, of all lengths.
std::vector<uint64_t> Numbers(size_t n, unsigned bits) {
  std::mt19937_64 random(n * 64 + bits);
  std::vector<uint64_t> values(n);
  for (uint64_t& value : values) value = random() >> (64 - bits) >> (random() % bits);
  return values;
}

TEST(Varints, AreDecodedWhateverTheirLengthAndNumber) {
  for (const unsigned bits : {1U, 7U, 8U, 20U, 48U, 56U, 57U, 63U, 64U}) {
    for (size_t n = 1; n < 200; n += n < 80 ? 1 : 17) {
      const std::vector<uint64_t> values = Numbers(n, bits);
      EXPECT_EQ(Decoded(RunOf(values), n), values) << n << " of " << bits << " bits";
      EXPECT_EQ(CountVarints(RunOf(values)), n);
    }
  }
}

TEST(Varints, OfNineAndTenBytesAmongShortOnesAreDecoded) {
  for (const size_t n : {3, 20, 200}) {
    std::vector<uint64_t> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = i % 3 == 0 ? ~uint64_t{0} - i : i % 3 == 1 ? uint64_t{1} << 62 | i : i;
    EXPECT_EQ(Decoded(RunOf(values), n), values);
  }
}

TEST(Varints, OfAnotherNumberThanExpectedAreRefused) {
  for (const size_t n : {1, 9, 60, 100}) {
    const std::string run = RunOf(Numbers(n, 48));
    EXPECT_TRUE(Decoded(run, n + 1).empty());
    if (n > 1) {
      EXPECT_TRUE(Decoded(run, n - 1).empty());
    }
  }
}

TEST(Varints, ThatAreCutOffOrLongerThanTenBytesAreRefused) {
  for (const size_t n : {1, 9, 60, 100}) {
    const std::string run = RunOf(Numbers(n, 20));
    EXPECT_TRUE(Decoded(run + '\x80', n).empty());
    EXPECT_TRUE(Decoded(run + '\x80', n + 1).empty());
    EXPECT_TRUE(Decoded(run + std::string(10, '\x80') + '\x01', n + 1).empty());
    EXPECT_TRUE(Decoded(run + std::string(100, '\x80') + '\x01', n + 1).empty());
  }
}

}  // namespace
}  // namespace penstock
