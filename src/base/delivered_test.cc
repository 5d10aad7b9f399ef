#include "base/delivered.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>

#include "penstock/layout.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Delivered Of(std::string_view lanes, const std::map<uint32_t, std::string>& parts = {}) {
  Delivered made;
  EXPECT_TRUE(made.AddLanesText(lanes).ok());
  for (const auto& [lane, rows] : parts) EXPECT_TRUE(made.AddRowsText(LaneId{lane}, rows).ok());
  return made;
}

TEST(Delivered, JoinsIntervalsThatTouchAndKeepsThoseThatDoNot) {
  Delivered set;
  set.Add(LaneId{3}, {10, 0}, {20, 0});
  set.Add(LaneId{3}, {30, 0}, {40, 0});
  EXPECT_EQ(set.ToString(), "3:10-20,30-40");
  set.Add(LaneId{3}, {20, 0}, {25, 2});
  EXPECT_EQ(set.ToString(), "3:10-25.2,30-40");
  set.Add(LaneId{3}, {25, 1}, {30, 0});
  EXPECT_EQ(set.ToString(), "3:10-40");
  set.Add(LaneId{3}, {7, 0}, {7, 0});
  EXPECT_EQ(set.ToString(), "3:10-40");
}

TEST(Delivered, CallsALaneWholeOnceItWasDeliveredFromItsFirstRowToItsEnd) {
  Delivered set;
  set.Add(LaneId{5}, {0, 0}, {10, 0});
  set.Add(LaneId{5}, {20, 0}, kLaneEndCursor);
  EXPECT_FALSE(set.Whole(LaneId{5}));
  set.Add(LaneId{5}, {10, 0}, {20, 0});
  EXPECT_TRUE(set.Whole(LaneId{5}));
  EXPECT_EQ(set.ToString(), "5");
  set.AddLanes({6, 8});
  EXPECT_EQ(set.ToString(), "5-7");
}

TEST(Delivered, SaysWhatIsMissingOfALane) {
  const Delivered set = Of("0-5", {{6, "0-500,600.2-end"}});
  EXPECT_THAT(set.Missing(LaneId{5}), IsEmpty());
  EXPECT_THAT(set.Missing(LaneId{6}), ElementsAre(Interval{{500, 0}, {600, 2}}));
  EXPECT_THAT(set.Missing(LaneId{7}), ElementsAre(Interval{}));
}

TEST(Delivered, HasAComplementOfAWatermarkAndPieces) {
  const Delivered set = Of("0-5,8", {{6, "0-500,600.2-700"}});
  const Delivered::Rest rest = set.Complement(12);
  EXPECT_EQ(rest.watermark, 9u);
  EXPECT_THAT(rest.pieces, ElementsAre(Delivered::Piece{LaneId{6}, {{500, 0}, {600, 2}}}, Delivered::Piece{LaneId{6}, {{700, 0}, kLaneEndCursor}},
                                       Delivered::Piece{LaneId{7}, {}}));
  EXPECT_EQ(Delivered().Complement(kEndlessLanes), (Delivered::Rest{0, {}}));
  EXPECT_EQ(Of("0-11").Complement(12), (Delivered::Rest{12, {}}));
}

TEST(Delivered, CountsTheLanesThatItLeavesOut) {
  EXPECT_EQ(Delivered().LanesBetween(), 0u);
  EXPECT_EQ(Of("0-5,8", {{6, "0-500"}}).LanesBetween(), 1u);
  EXPECT_EQ(Of("", {{4294967290, "0-5"}}).LanesBetween(), 4294967290u);
}

TEST(Delivered, SubtractsRowsFromAWholeLane) {
  Delivered set = Of("0-9");
  set.Subtract(Of("2", {{4, "0-100,200.1-end"}, {12, "0-1"}}));
  EXPECT_EQ(set.ToString(), "0-1,3,5-9 4:100-200.1");
  set.Subtract(Of("", {{4, "0-end"}}));
  EXPECT_EQ(set.ToString(), "0-1,3,5-9");
}

TEST(Delivered, RefusesTextThatIsNone) {
  for (const char* bad : {"x", "1-", "-1", "5-3", "1,,2", "1,", "4294967295", "99999999999", "1 ", "0x1"}) {
    Delivered set;
    EXPECT_FALSE(set.AddLanesText(bad).ok()) << bad;
  }
  for (const char* bad :
       {"5", "5-5", "7-3", "end-end", "1.-2", "1.2.3-4", "0-99999999999999999999", "0-18446744073709551615", "0-1.4294967296", "0-1,"}) {
    Delivered set;
    const Status status = set.AddRowsText(LaneId{1}, bad);
    EXPECT_FALSE(status.ok()) << bad;
  }
  EXPECT_THAT(Delivered().AddLanesText("7-x").message(), HasSubstr("'7-x'"));
}

TEST(Delivered, TextGivesBackTheSameSet) {
  const Delivered set = Of("0-5,7", {{6, "0-500,600.2-700,900-end"}, {9, "1-2"}});
  Delivered again;
  ASSERT_TRUE(again.AddLanesText(set.LanesText()).ok());
  for (const auto& [lane, rows] : set.parts()) ASSERT_TRUE(again.AddRowsText(lane, Delivered::RowsText(rows)).ok());
  EXPECT_EQ(again, set);
}

// The same as a plain set of (lane, place): places 0 to kPlaces stand for cursors in order, the last for the end.
constexpr uint32_t kLanes = 6;
constexpr uint32_t kPlaces = 8;
using Plain = std::set<std::pair<uint32_t, uint32_t>>;

Cursor CursorAt(uint32_t place) { return place == kPlaces ? kLaneEndCursor : Cursor{place / 2, place % 2}; }

Plain PlainOf(const Delivered& set) {
  Plain plain;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (const Interval& rows : set.Of(LaneId{lane})) {
      for (uint32_t place = 0; place < kPlaces; ++place) {
        if (rows.from <= CursorAt(place) && CursorAt(place) < rows.to) plain.emplace(lane, place);
      }
    }
  }
  return plain;
}

// Ranges and intervals in order, apart from each other, no part of a lane that is whole, nothing empty.
void ExpectCanonical(const Delivered& set) {
  for (size_t i = 0; i < set.whole().size(); ++i) {
    EXPECT_LT(set.whole()[i].first, set.whole()[i].end);
    if (i > 0) {
      EXPECT_LT(set.whole()[i - 1].end, set.whole()[i].first);
    }
  }
  for (const auto& [lane, rows] : set.parts()) {
    EXPECT_FALSE(set.Whole(lane));
    EXPECT_FALSE(rows.empty());
    EXPECT_NE(rows, std::vector<Interval>{Interval{}});
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_LT(rows[i].from, rows[i].to);
      if (i > 0) {
        EXPECT_LT(rows[i - 1].to, rows[i].from);
      }
    }
  }
}

struct Pair {
  Delivered set;
  Plain plain;
};

Pair RandomSet(std::mt19937& random) {
  Pair made;
  const auto draw = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  for (uint32_t i = draw(8); i > 0; --i) {
    const uint32_t lane = draw(kLanes);
    if (draw(4) == 0) {
      const uint32_t end = lane + 1 + draw(kLanes - lane);
      made.set.AddLanes({lane, end});
      for (uint32_t l = lane; l < end; ++l) {
        for (uint32_t place = 0; place < kPlaces; ++place) made.plain.emplace(l, place);
      }
      continue;
    }
    const uint32_t from = draw(kPlaces);
    const uint32_t to = from + draw(kPlaces - from + 1);
    made.set.Add(LaneId{lane}, CursorAt(from), CursorAt(to));
    for (uint32_t place = from; place < to; ++place) made.plain.emplace(lane, place);
  }
  return made;
}

TEST(Delivered, IsAsAPlainSetOfRowsInEveryRandomCase) {
  std::mt19937 random(1);
  for (int run = 0; run < 20'000; ++run) {
    const Pair a = RandomSet(random);
    const Pair b = RandomSet(random);
    ASSERT_EQ(PlainOf(a.set), a.plain);
    Delivered merged = a.set;
    merged.Merge(b.set);
    Plain both = a.plain;
    both.insert(b.plain.begin(), b.plain.end());
    ASSERT_EQ(PlainOf(merged), both) << a.set.ToString() << " and " << b.set.ToString();
    Delivered less = a.set;
    less.Subtract(b.set);
    Plain left = a.plain;
    for (const auto& place : b.plain) left.erase(place);
    ASSERT_EQ(PlainOf(less), left) << a.set.ToString() << " without " << b.set.ToString();
    Delivered rest;
    const auto [watermark, pieces] = a.set.Complement(kLanes);
    for (const auto& [lane, rows] : pieces) rest.Add(lane, rows.from, rows.to);
    rest.AddLanes({watermark, kLanes});
    Delivered all;
    all.AddLanes({0, kLanes});
    Delivered together = a.set;
    together.Merge(rest);
    ASSERT_EQ(together, all) << a.set.ToString() << " and its rest " << rest.ToString();
    rest.Subtract(a.set);
    Delivered without = all;
    without.Subtract(a.set);
    ASSERT_EQ(rest, without);
    for (const Delivered& set : {a.set, merged, less, rest}) ExpectCanonical(set);
  }
}

TEST(Delivered, OfAMillionLanesIsFastAndSmall) {
  constexpr uint32_t kMillion = 1'000'000;
  const auto start = std::chrono::steady_clock::now();
  Delivered position;
  for (uint32_t index = 0; index < 8; ++index) {  // every eighth lane each, as eight consumers would have them
    Delivered part;
    for (uint32_t lane = index; lane < kMillion; lane += 8) part.Add(LaneId{lane}, {}, kLaneEndCursor);
    position.Merge(part);
  }
  EXPECT_EQ(position.LanesText(), "0-999999");
  for (uint32_t lane = 0; lane < 1000; ++lane) position.Subtract(Of("", {{lane * 997, "5-9"}}));
  EXPECT_EQ(position.Complement(kMillion).pieces.size(), 1000u);
  // Milliseconds without sanitizers; a quadratic step anywhere would take minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace penstock
