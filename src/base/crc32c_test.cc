#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace penstock {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Crc32c, AgreesWithThePublishedVectors) {
  EXPECT_EQ(Crc32c(BytesOf("123456789")), 0xE3069283U);
  const std::vector<std::byte> zeros(32);
  EXPECT_EQ(Crc32c(zeros), 0x8A9136AAU);
  EXPECT_EQ(Crc32c({}), 0U);
}

TEST(Crc32c, OfPiecesOneAfterAnotherIsThatOfTheWhole) { EXPECT_EQ(Crc32c(BytesOf("456789"), Crc32c(BytesOf("123"))), Crc32c(BytesOf("123456789"))); }

TEST(Crc32c, IsThatOfWhatIsCopied) {
  std::mt19937_64 random(1);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{32 << 10}, size_t{100'001}, size_t{(4 << 20) + 77}}) {
    for (const size_t shift : {0, 16, 5}) {
      std::vector<std::byte> from(size);
      std::ranges::generate(from, [&] { return static_cast<std::byte>(random()); });
      std::vector<std::byte> to(size + shift + 1, std::byte{42});
      EXPECT_EQ(CopyWithCrc32c(from, to.data() + shift, 7), Crc32c(from, 7)) << size;
      EXPECT_TRUE(std::ranges::equal(from, std::span(to).subspan(shift, size))) << size << " at " << shift;
      EXPECT_EQ(to.back(), std::byte{42});
    }
  }
}

TEST(Crc32c, IsMaskedAsTfRecordsHaveIt) {
  // The first 12 bytes of every TensorBoard event file: a length of 24, and a3 7f 4b 22.
  const std::vector<std::byte> length{std::byte{24}, {}, {}, {}, {}, {}, {}, {}};
  EXPECT_EQ(MaskedCrc(Crc32c(length)), 0x224B7FA3U);
}

}  // namespace
}  // namespace penstock
