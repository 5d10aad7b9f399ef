#include "sim/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/quiet_cluster.h"

namespace penstock::sim {
namespace {

using testing::HasSubstr;

// A strict job, whose loops get what a reference with some places orders.
class LedgerTest : public testing::Test {
 protected:
  static JobScenario Strict() {
    JobScenario job = SmallStrictJob();
    job.lane_rows = 12;
    return job;
  }
  std::string Join(HistoryId id, uint32_t places, const std::string& base = "") {
    msg::Joined joined;
    joined.consumers = 1;
    joined.places = places;
    joined.base = base;
    return ledger.Joined(id, kReader, joined);
  }
  // The first batches of the order with so many places.
  std::string Deliver(HistoryId id, uint32_t places, size_t batches) {
    const auto order = StrictBatches(job, Epoch{0}, places);
    for (size_t g = 0; g < batches; ++g) {
      std::vector<Slice> batch;
      for (const Row& row : order.at(g)) {
        Slice slice;
        slice.grant.lane = row.lane;
        slice.first = row.at;
        slice.end = {row.at.seq + 1, 0};
        slice.rows = 1;
        batch.push_back(slice);
      }
      if (std::string wrong = ledger.Deliver(id, kReader, Epoch{0}, batch); !wrong.empty()) return wrong;
    }
    return "";
  }
  static std::string StateOf(uint32_t places) {
    Position state;
    state.mode = Mode::kStrict;
    state.places = places;
    state.ring.emplace();
    return ToJson(state);
  }

  static constexpr Reader kReader{ConsumerId{1}, 0, 1};
  static constexpr HistoryId kFirst{JobId{1}, Generation{0}};
  static constexpr HistoryId kNext{JobId{2}, Generation{0}};
  const JobScenario job = Strict();
  Ledger ledger{job};
};

TEST_F(LedgerTest, AStartInPlaceOfOneThatWasNotHeardToReadHasAnOrderOfItsOwn) {
  ASSERT_EQ(Join(kFirst, 3), "");
  ASSERT_EQ(Deliver(kFirst, 3, 1), "");
  EXPECT_EQ(Join(kNext, 1), "");
  EXPECT_EQ(Deliver(kNext, 1, 4), "");
}

TEST_F(LedgerTest, TheOrderOfOtherPlacesIsWrong) {
  ASSERT_EQ(Join(kFirst, 3), "");
  EXPECT_THAT(Deliver(kFirst, 1, 4), HasSubstr("is not that of the reference order"));
}

TEST_F(LedgerTest, AGenerationGoesOnWithThePlacesOfTheStateThatItBeganWith) {
  ASSERT_EQ(Join(kFirst, 3), "");
  ASSERT_EQ(Join(kNext, 1), "");
  EXPECT_EQ(Join({JobId{2}, Generation{1}}, 3, StateOf(3)), "");
  EXPECT_EQ(Deliver({JobId{2}, Generation{1}}, 3, 4), "");
  EXPECT_THAT(Join({JobId{2}, Generation{2}}, 1, StateOf(3)), HasSubstr("goes on from a state of 3"));
  EXPECT_THAT(Join({JobId{2}, Generation{3}}, 2, StateOf(2)), HasSubstr("no start's"));
  EXPECT_THAT(Join(kFirst, 2), HasSubstr("no start's"));
}

}  // namespace
}  // namespace penstock::sim
