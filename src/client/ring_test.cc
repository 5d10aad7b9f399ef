#include "client/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "client/ring_reference.h"

namespace penstock {
namespace {

// Rows have seqs with gaps: a ring must never count in them.
constexpr uint64_t kStride = 3;
Cursor At(uint64_t row) { return {row * kStride, 0}; }

struct Case {
  std::vector<uint64_t> lane_rows;
  RingShape shape;

  static Case Random(std::mt19937_64& random) {
    const auto below = [&](uint64_t bound) { return random() % bound; };
    Case c;
    c.shape.group_rows = 1 + below(6);
    c.shape.mix = static_cast<uint32_t>(1 + below(3));
    c.shape.places = static_cast<uint32_t>(1 + below(5));
    c.shape.lanes = static_cast<uint32_t>(below(12));
    const uint64_t longest = 1 + below(25);
    for (uint32_t i = 0; i < c.shape.lanes; ++i) c.lane_rows.push_back(below(longest + 1));
    return c;
  }
  std::vector<Parts> Expected() const { return Reference(lane_rows, shape.group_rows, shape.places).Mixed(shape.mix); }
};

// Tells a ring of its lanes bit by bit, in a random order.
class Teller {
 public:
  Teller(const Case& c, uint64_t seed) : case_(c), random_(seed) {}

  // One word more on some lane that the ring needs. False: it needs none.
  bool TellSome(Ring& ring) {
    const std::vector<LaneId> needs = ring.Needs(2);
    if (needs.empty()) return false;
    const LaneId lane = needs[random_() % needs.size()];
    const uint64_t row = ring.Told(lane).seq / kStride;
    const uint64_t left = case_.lane_rows[Raw(lane)] - row;
    if (left > 0) {
      const uint64_t rows = std::min(left, case_.shape.group_rows);
      EXPECT_TRUE(ring.Tell(lane, {At(row), At(row + rows), rows, rows * 10}).ok());
    }
    const bool at_end = left <= case_.shape.group_rows && random_() % 2 == 0;
    EXPECT_TRUE(!at_end || ring.TellEnd(lane, At(case_.lane_rows[Raw(lane)])).ok());
    return true;
  }

 private:
  const Case& case_;
  std::mt19937_64 random_;
};

Parts PartsOf(const RingBatch& batch) {
  Parts parts;
  for (const RingPiece& piece : batch.pieces) parts.emplace_back(Raw(piece.lane), piece.group.seq / kStride + piece.skip, piece.rows);
  return parts;
}

struct Walk {
  std::vector<Parts> batches;
  std::vector<RingPosition> positions;  // before the first, and after each
};

Walk WalkAll(const Case& c, RingPosition start, uint64_t seed) {
  Ring ring(c.shape, std::move(start));
  Teller teller(c, seed);
  Walk walk;
  walk.positions.push_back(ring.position());
  const uint64_t first = ring.next_batch();
  while (!ring.over()) {
    if (const auto batch = ring.Next()) {
      EXPECT_EQ(batch->g, first + walk.batches.size());
      walk.batches.push_back(PartsOf(*batch));
      walk.positions.push_back(ring.position());
    } else if (!ring.over() && !teller.TellSome(ring)) {
      ADD_FAILURE() << "the ring stands and needs nothing";
      break;
    }
  }
  return walk;
}

TEST(Ring, GivesTheOrderOfTheReferenceWhateverIsKnownFirst) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    const Case c = Case::Random(random);
    EXPECT_EQ(WalkAll(c, {}, random()).batches, c.Expected()) << "case " << i;
  }
}

TEST(Ring, APositionAfterAnyBatchIsTheSameForAllAndGivesTheIdenticalRest) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 400; ++i) {
    const Case c = Case::Random(random);
    const Walk whole = WalkAll(c, {}, random());
    EXPECT_EQ(whole.positions, WalkAll(c, {}, random()).positions) << "case " << i;
    for (size_t g = 0; g < whole.batches.size(); ++g) {
      const Walk rest = WalkAll(c, whole.positions[g], random());
      EXPECT_EQ(rest.batches, std::vector<Parts>(whole.batches.begin() + static_cast<ptrdiff_t>(g), whole.batches.end())) << i << " from " << g;
    }
  }
}

TEST(Ring, APositionNamesOnlyLanesThatHoldAPlaceOrATail) {
  const Case c{{7, 5, 4, 2}, {.lanes = 4, .group_rows = 4, .mix = 1, .places = 2}};
  const Walk walk = WalkAll(c, {}, 3);
  ASSERT_EQ(walk.batches.size(), 5u);
  EXPECT_EQ(walk.batches[3], (Parts{{0, 4, 3}, {1, 4, 1}}));
  EXPECT_EQ(walk.positions[1].ring, (std::vector<RingPosition::Place>{{LaneId{0}, At(4)}, {LaneId{1}, {}}}));
  EXPECT_EQ(walk.positions[1].place, 1u);
  EXPECT_TRUE(walk.positions[1].tails.empty());
}

TEST(Ring, LanesShorterThanAGroupAreJoinedAsTheyCome) {
  const Case c{std::vector<uint64_t>(40, 3), {.lanes = 40, .group_rows = 4, .mix = 1, .places = 2}};
  EXPECT_EQ(WalkAll(c, {}, 3).batches, c.Expected());
  Ring ring(c.shape, {});
  for (const uint32_t lane : {0, 1, 2}) {
    EXPECT_FALSE(ring.Next().has_value()) << lane;
    EXPECT_LE(ring.Needs(2).size(), 6u) << "not all lanes of the epoch";
    ASSERT_TRUE(ring.Tell(LaneId{lane}, {At(0), At(3), 3, 10}).ok());
    ASSERT_TRUE(ring.TellEnd(LaneId{lane}, At(3)).ok());
  }
  const auto batch = ring.Next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(PartsOf(*batch), (Parts{{0, 0, 3}, {2, 0, 1}})) << "lane 1 has the other place";
  EXPECT_EQ(ring.position().tails.size(), 1u);
}

TEST(Ring, WordsThatDoNotFitAreRefusedAndRepeatedOnesAreNot) {
  Ring ring({.lanes = 2, .group_rows = 4, .mix = 1, .places = 1}, {});
  ASSERT_TRUE(ring.Tell(LaneId{0}, {At(0), At(4), 4, 10}).ok());
  EXPECT_TRUE(ring.Tell(LaneId{0}, {At(0), At(4), 4, 10}).ok());
  EXPECT_FALSE(ring.Tell(LaneId{0}, {At(5), At(9), 4, 10}).ok());  // a gap
  EXPECT_FALSE(ring.Tell(LaneId{0}, {At(2), At(6), 4, 10}).ok());  // cut elsewhere
  EXPECT_FALSE(ring.Tell(LaneId{0}, {At(4), At(9), 5, 10}).ok());  // more than a group
  EXPECT_FALSE(ring.TellEnd(LaneId{0}, At(3)).ok());
  ASSERT_TRUE(ring.Tell(LaneId{0}, {At(4), At(6), 2, 10}).ok());
  EXPECT_FALSE(ring.Tell(LaneId{0}, {At(6), At(10), 4, 10}).ok());  // after a tail
  ASSERT_TRUE(ring.TellEnd(LaneId{0}, At(6)).ok());
  EXPECT_TRUE(ring.TellEnd(LaneId{0}, At(6)).ok());
  ASSERT_TRUE(ring.Next().has_value());
  ASSERT_TRUE(ring.Tell(LaneId{1}, {At(0), At(4), 4, 10}).ok());
  ASSERT_TRUE(ring.Next().has_value());
  EXPECT_TRUE(ring.Tell(LaneId{0}, {At(0), At(4), 4, 10}).ok()) << "a late word on a lane that has left";
}

TEST(Ring, NeedsTheWaitedForLaneFirstAndSeesPastLanesTooShortForAGroup) {
  Ring ring({.lanes = 6, .group_rows = 4, .mix = 1, .places = 1}, {});
  EXPECT_EQ(ring.Needs(2), (std::vector<LaneId>{LaneId{0}, LaneId{1}, LaneId{2}}));
  for (const uint32_t lane : {0u, 1u}) ASSERT_TRUE(ring.TellEnd(LaneId{lane}, {}).ok());
  EXPECT_FALSE(ring.Next().has_value());
  EXPECT_EQ(ring.waits_for(), LaneId{2});
  EXPECT_EQ(ring.Needs(2), (std::vector<LaneId>{LaneId{2}, LaneId{3}}));
}

}  // namespace
}  // namespace penstock
