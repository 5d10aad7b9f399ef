#include "base/crc32c.h"

#include <gtest/gtest.h>

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

TEST(Crc32c, IsMaskedAsTfRecordsHaveIt) {
  // The first 12 bytes of every TensorBoard event file: a length of 24, and a3 7f 4b 22.
  const std::vector<std::byte> length{std::byte{24}, {}, {}, {}, {}, {}, {}, {}};
  EXPECT_EQ(MaskedCrc(Crc32c(length)), 0x224B7FA3U);
}

}  // namespace
}  // namespace penstock
