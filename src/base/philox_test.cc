#include "base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace penstock {
namespace {

TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, DrawsTheSameAtARowWhateverWasDrawnBefore) {
  const RandomStream stream({.seed = 7, .epoch = Epoch{1}, .lane = LaneId{3}, .op = 2});
  Draws alone = stream.At(1000);
  const uint64_t first = alone.Next64();
  for (Seq seq = 0; seq < 10; ++seq) stream.At(seq).Next64();
  EXPECT_EQ(stream.At(1000).Next64(), first);
}

TEST(RandomStream, DiffersInEveryPartOfItsKey) {
  const std::vector<RandomKey> keys = {
      {}, {.seed = 1}, {.seed = 1ULL << 40}, {.epoch = Epoch{1}}, {.replica = ReplicaId{1}}, {.lane = LaneId{1}}, {.op = 1}};
  std::set<uint64_t> drawn;
  for (const RandomKey& key : keys) {
    for (Seq seq : {Seq{0}, Seq{1}, Seq{1} << 40}) drawn.insert(RandomStream(key).At(seq).Next64());
  }
  EXPECT_EQ(drawn.size(), keys.size() * 3);
}

TEST(Draws, BelowIsUniformAndStaysBelow) {
  std::vector<int> counts(6, 0);
  const RandomStream stream({.seed = 5});
  for (Seq seq = 0; seq < 60'000; ++seq) ++counts.at(stream.At(seq).Below(6));
  for (int count : counts) EXPECT_NEAR(count, 10'000, 500);
  EXPECT_EQ(stream.At(0).Below(1), 0u);
}

TEST(Draws, BelowRejectsRatherThanFoldsLargeBounds) {
  // With folding, the lower third of [0, 3 * 2^62) would come twice as often as the rest.
  const uint64_t third = 1ULL << 62;
  const RandomStream stream({.seed = 9});
  int lower = 0;
  for (Seq seq = 0; seq < 30'000; ++seq) lower += stream.At(seq).Below(3 * third) < third ? 1 : 0;
  EXPECT_NEAR(lower, 10'000, 500);
}

TEST(Permutation, ReachesEveryIndexOnce) {
  for (uint64_t n : {0, 1, 2, 3, 255, 256, 257, 1000, 4096, 5003}) {
    const Permutation permutation(n, RandomStream({.seed = n}).At(0));
    std::vector<uint64_t> reached;
    for (uint64_t i = 0; i < n; ++i) reached.push_back(permutation(i));
    std::sort(reached.begin(), reached.end());
    for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(reached[i], i) << "of " << n;
  }
}

TEST(Permutation, WorksUpToTheLargestSize) {
  const Permutation permutation(~uint64_t{0}, RandomStream({}).At(0));
  EXPECT_NE(permutation(0), permutation(1));
  EXPECT_LT(permutation(12345), ~uint64_t{0});
}

TEST(Permutation, IsUniformOverItsFirstElement) {
  for (uint64_t n : {10, 1000}) {
    std::vector<int> counts(10, 0);
    for (Seq seed = 0; seed < 10'000; ++seed) ++counts.at(Permutation(n, RandomStream({.seed = seed}).At(0))(0) * 10 / n);
    for (int count : counts) EXPECT_NEAR(count, 1000, 200) << n;
  }
}

TEST(Permutation, LeavesNoTrendBetweenNeighbours) {
  const uint64_t n = 100'000;
  const Permutation permutation(n, RandomStream({.seed = 3}).At(0));
  uint64_t rising = 0;
  for (uint64_t i = 0; i + 1 < n; ++i) rising += permutation(i) < permutation(i + 1) ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(rising), n / 2.0, 1000);
}

}  // namespace
}  // namespace penstock
