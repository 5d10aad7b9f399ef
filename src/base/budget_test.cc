#include "base/budget.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace penstock {
namespace {

using enum Budget::Need;

constexpr GroupId kJob{1};
constexpr GroupId kOther{2};
HolderId H(uint64_t n) { return HolderId{n}; }

TEST(Budget, RefusesAReserveThatDoesNotFit) {
  Budget budget(100, 100);
  EXPECT_TRUE(budget.Open(H(1), kJob, 60));
  EXPECT_FALSE(budget.Open(H(2), kJob, 41));
  EXPECT_TRUE(budget.Open(H(3), kJob, 40));
  EXPECT_EQ(budget.committed(), 100U);
}

TEST(Budget, AReserveCanBeUsedWhateverOthersHold) {
  Budget budget(100, 100);
  ASSERT_TRUE(budget.Open(H(1), kJob, 20));
  ASSERT_TRUE(budget.Open(H(2), kOther, 20));
  ASSERT_TRUE(budget.Take(H(1), 20, kAhead));
  while (budget.Take(H(1), 10, kAhead)) {
  }
  EXPECT_TRUE(budget.Take(H(2), 20, kMust));
}

TEST(Budget, ReadingAheadStopsAtHalfTheCapacityAndAtTheGroupsShare) {
  Budget budget(100, 100);
  ASSERT_TRUE(budget.Open(H(1), kJob, 10));
  ASSERT_TRUE(budget.Take(H(1), 60, kAhead));
  EXPECT_EQ(budget.ahead(), 50U);
  EXPECT_FALSE(budget.Take(H(1), 1, kAhead));
  budget.Give(H(1), 60);
  ASSERT_TRUE(budget.Open(H(2), kOther, 10));
  EXPECT_FALSE(budget.Take(H(1), 36, kAhead));
  EXPECT_TRUE(budget.Take(H(1), 35, kAhead));
}

TEST(Budget, WhoAsksFirstIsServedFirst) {
  Budget budget(100, 100);
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(budget.Open(H(i), kJob, 0));
  ASSERT_TRUE(budget.Take(H(1), 45, kAhead));
  EXPECT_FALSE(budget.Take(H(2), 20, kAhead));
  EXPECT_FALSE(budget.Take(H(3), 5, kAhead)) << "H(3) would fit, but came later";
  budget.Give(H(1), 10);
  EXPECT_FALSE(budget.Next().has_value());
  budget.Give(H(1), 30);
  ASSERT_EQ(budget.Next(), H(2));
  EXPECT_TRUE(budget.Take(H(2), 20, kAhead));
  ASSERT_EQ(budget.Next(), H(3));
}

TEST(Budget, AGroupAtItsCapDoesNotHoldUpOthers) {
  Budget budget(100, 100);
  ASSERT_TRUE(budget.Open(H(1), kJob, 0));
  ASSERT_TRUE(budget.Open(H(2), kOther, 0));
  ASSERT_TRUE(budget.Take(H(1), 25, kAhead));
  EXPECT_FALSE(budget.Take(H(1), 1, kAhead));
  EXPECT_TRUE(budget.Take(H(2), 25, kAhead));
}

TEST(Budget, WhoCannotGoOnComesBeforeWhoReadsAhead) {
  Budget budget(100, 100);
  ASSERT_TRUE(budget.Open(H(1), kJob, 10));
  ASSERT_TRUE(budget.Open(H(2), kJob, 10));
  ASSERT_TRUE(budget.Take(H(1), 60, kAhead));
  EXPECT_FALSE(budget.Take(H(1), 10, kAhead));
  EXPECT_FALSE(budget.Take(H(2), 45, kMust));
  EXPECT_EQ(budget.ShortOf(), 5U);
  budget.Give(H(1), 20);
  ASSERT_EQ(budget.Next(), H(2));
  EXPECT_TRUE(budget.Take(H(2), 45, kMust));
  budget.Give(H(2), 45);
  EXPECT_EQ(budget.committed(), 40U + 45U) << "the reserve has grown to what was needed";
}

TEST(Budget, OneOversizeTakeAtATime) {
  Budget budget(100, 10);
  ASSERT_TRUE(budget.Open(H(1), kJob, 5));
  ASSERT_TRUE(budget.Open(H(2), kJob, 5));
  ASSERT_TRUE(budget.Take(H(1), 30, kMust));
  EXPECT_EQ(budget.InTheWay(), std::nullopt);
  EXPECT_FALSE(budget.Take(H(2), 30, kMust));
  EXPECT_EQ(budget.InTheWay(), H(1));
  budget.Give(H(1), 30);
  EXPECT_EQ(budget.InTheWay(), std::nullopt);
  ASSERT_EQ(budget.Next(), H(2));
  EXPECT_TRUE(budget.Take(H(2), 30, kMust));
  budget.Give(H(2), 30);
  EXPECT_EQ(budget.committed(), 10U) << "an oversize take does not grow the reserve";
}

TEST(Budget, WhatIsMovedFreesTheReserveOfWhomItCameFrom) {
  Budget budget(100, 100);
  ASSERT_TRUE(budget.Open(H(1), kJob, 20));
  ASSERT_TRUE(budget.Open(H(2), kJob, 0));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(budget.TakeReserved(H(1), 20));
    EXPECT_TRUE(budget.MoveAhead(H(1), H(2), 20));
  }
  EXPECT_EQ(budget.committed(), 60U);
  ASSERT_TRUE(budget.TakeReserved(H(1), 20));
  EXPECT_FALSE(budget.MoveAhead(H(1), H(2), 20)) << "half of the capacity is for what is read ahead";
  EXPECT_EQ(budget.Held(H(1)), 20U);
  EXPECT_EQ(budget.Held(H(2)), 40U);
}

TEST(Budget, NothingIsMovedAheadOfWhoCannotGoOn) {
  Budget budget(100, 100);
  ASSERT_TRUE(budget.Open(H(1), kJob, 20));
  ASSERT_TRUE(budget.Open(H(2), kJob, 0));
  ASSERT_TRUE(budget.Open(H(3), kJob, 60));
  ASSERT_TRUE(budget.TakeReserved(H(1), 20));
  ASSERT_FALSE(budget.Take(H(2), 30, kMust));
  EXPECT_FALSE(budget.MoveAhead(H(1), H(2), 20));
  EXPECT_EQ(budget.Held(H(1)), 20U);
}

TEST(Budget, WhatAClosedHolderCannotMoveStaysWithItUntilItIsGivenBack) {
  Budget budget(100, 100);
  for (const uint64_t n : {1, 2, 3}) ASSERT_TRUE(budget.Open(H(n), kJob, n == 2 ? 0 : 20));
  ASSERT_TRUE(budget.Take(H(1), 20, kMust));
  ASSERT_TRUE(budget.Take(H(3), 60, kAhead));
  budget.Close(H(1));
  EXPECT_FALSE(budget.MoveAhead(H(1), H(2), 20)) << "no room ahead";
  EXPECT_EQ(budget.used(), 80U);
  budget.Give(H(3), 60);
  EXPECT_TRUE(budget.MoveAhead(H(1), H(2), 20));
  budget.Give(H(2), 20);
  EXPECT_EQ(budget.used(), 0U);
}

TEST(Budget, AnOversizeTakeStaysWithWhomItIs) {
  Budget budget(200, 40);
  ASSERT_TRUE(budget.Open(H(1), kJob, 10));
  ASSERT_TRUE(budget.Open(H(2), kJob, 0));
  ASSERT_TRUE(budget.Take(H(1), 50, kMust));
  EXPECT_FALSE(budget.MoveAhead(H(1), H(2), 50));
  EXPECT_EQ(budget.Held(H(1)), 50U);
}

TEST(Budget, AClosedHolderCountsUntilAllIsGivenBack) {
  Budget budget(100, 100);
  ASSERT_TRUE(budget.Open(H(1), kJob, 50));
  ASSERT_TRUE(budget.Take(H(1), 30, kMust));
  budget.Close(H(1));
  EXPECT_EQ(budget.committed(), 30U);
  budget.Give(H(1), 30);
  EXPECT_EQ(budget.committed(), 0U);
  EXPECT_EQ(budget.Held(H(1)), 0U);
}

// Random opens, takes, gives and closes: the figures always agree with a plain model, and are never exceeded.
class BudgetProperty : public testing::TestWithParam<uint32_t> {
 protected:
  struct Plain {
    uint64_t reserve = 0;
    uint64_t held = 0;
    bool open = true;
  };
  void Check() {
    uint64_t used = 0;
    for (const auto& [id, plain] : model_) {
      used += plain.held;
      ASSERT_EQ(budget_.Held(id), plain.held);
    }
    ASSERT_EQ(budget_.used(), used);
    ASSERT_LE(budget_.committed(), budget_.capacity());
    ASSERT_LE(used, budget_.committed());
  }
  void Act() {
    const HolderId id = H(random_() % 12);
    Plain* plain = model_.contains(id) ? &model_[id] : nullptr;
    const uint64_t bytes = random_() % 200;
    switch (random_() % 6) {
      case 0:
        if (plain == nullptr && budget_.Open(id, GroupId{random_() % 3}, bytes)) model_[id] = {.reserve = bytes};
        break;
      case 1:
      case 2:
        if (plain != nullptr && plain->open && budget_.Take(id, bytes, random_() % 2 == 0 ? kMust : kAhead)) plain->held += bytes;
        break;
      case 3:
        if (plain != nullptr && plain->open && plain->held + bytes <= plain->reserve) {
          ASSERT_TRUE(budget_.TakeReserved(id, bytes)) << "a reserve can always be used";
          plain->held += bytes;
        }
        break;
      case 4:
        if (plain != nullptr) GiveBack(id, *plain, std::min(bytes, plain->held));
        break;
      default:
        if (plain == nullptr || random_() % 8 != 0) break;
        budget_.Close(id);
        plain->open = false;
        if (plain->held == 0) model_.erase(id);
    }
  }
  void GiveBack(HolderId id, Plain& plain, uint64_t bytes) {
    budget_.Give(id, bytes);
    plain.held -= bytes;
    if (!plain.open && plain.held == 0) model_.erase(id);
  }

  std::mt19937 random_{GetParam()};
  Budget budget_{1000, 125};
  std::map<HolderId, Plain> model_;
};

TEST_P(BudgetProperty, IsNeverExceededAndEveryReserveCanBeUsed) {
  for (int step = 0; step < 2000; ++step) {
    Act();
    Check();
    if (HasFatalFailure()) return;
  }
}

TEST_P(BudgetProperty, WhenAllIsGivenBackWhoeverWaitsIsServed) {
  for (int step = 0; step < 300; ++step) Act();
  std::vector<HolderId> ids;
  for (const auto& [id, plain] : model_) ids.push_back(id);
  for (const HolderId id : ids) GiveBack(id, model_[id], model_[id].held);
  ASSERT_EQ(budget_.used(), 0U);
  ASSERT_EQ(budget_.ahead(), 0U);
  while (const auto next = budget_.Next()) {
    ASSERT_TRUE(budget_.Take(*next, 1, kMust)) << "named by Next, so it can be served";
    budget_.Give(*next, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BudgetProperty, testing::Range(0U, 20U));

}  // namespace
}  // namespace penstock
