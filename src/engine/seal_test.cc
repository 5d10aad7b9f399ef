#include "engine/seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/crc32c.h"

namespace penstock::engine {
namespace {

constexpr uint64_t kRows = 3;

struct TwoColumns {
  std::vector<std::byte> a = std::vector<std::byte>(kRows * 8, std::byte{1});
  std::vector<std::byte> b = std::vector<std::byte>(kRows * 4, std::byte{2});

  BlockPlan Plan() const { return PlanBlock(kRows, {5, 0}, {5 + kRows, 0}, /*has_cursors=*/false, std::array<uint64_t, 2>{a.size(), b.size()}); }
  std::vector<std::byte> InPlace(const BlockPlan& block) const {
    std::vector<std::byte> memory(block.header.total_bytes);
    std::copy(a.begin(), a.end(), memory.begin() + static_cast<std::ptrdiff_t>(block.places[0].offset));
    std::copy(b.begin(), b.end(), memory.begin() + static_cast<std::ptrdiff_t>(block.places[1].offset));
    return memory;
  }
};

uint64_t DigestOf(const TwoColumns& columns) {
  BlockPlan block = columns.Plan();
  std::vector<std::byte> memory = columns.InPlace(block);
  SealBlock(block, memory);
  return block.header.digest;
}

TEST(Digest, IsTheSameWhereverTheBuffersLayAndWhoeverTookTheirCrcs) {
  const TwoColumns columns;
  BlockPlan with_crcs = columns.Plan();
  std::vector<std::byte> memory = columns.InPlace(with_crcs);
  SealBlock(with_crcs, std::array{Crc32c(columns.a), Crc32c(columns.b)}, memory);
  EXPECT_EQ(with_crcs.header.digest, DigestOf(columns));

  BlockPlan head = columns.Plan();
  SealHead(head, std::array{Crc32c(columns.a), Crc32c(columns.b)}, memory);
  EXPECT_EQ(head.header.digest, DigestOf(columns));
}

TEST(Digest, TellsRowsApartByContentOrderAndPlace) {
  const TwoColumns columns;
  TwoColumns other = columns;
  other.b.back() = std::byte{3};
  EXPECT_NE(DigestOf(other), DigestOf(columns));
  TwoColumns first_differs = columns;
  first_differs.b.front() = std::byte{3};
  EXPECT_NE(DigestOf(other), DigestOf(first_differs));
  BlockPlan later = columns.Plan();
  later.header.first_seq += kRows;
  std::vector<std::byte> memory = columns.InPlace(later);
  SealBlock(later, memory);
  EXPECT_NE(later.header.digest, DigestOf(columns));
}

}  // namespace
}  // namespace penstock::engine
