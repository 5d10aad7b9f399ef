#include "wire/peer_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

using testing::HasSubstr;

class PeerLimitsTest : public testing::Test {
 protected:
  std::shared_ptr<PeerBook::Place> Enter(const std::string& peer) { return book_->Enter(peer, now_, why_); }

  std::shared_ptr<PeerBook> book_ = std::make_shared<PeerBook>(PeerLimits{.connections = 3, .newcomers = 2, .all_newcomers = 4, .per_second = 5});
  TimePoint now_{std::chrono::seconds(100)};
  std::string why_;
};

TEST_F(PeerLimitsTest, OnePeersConnectionsAreBoundedAndOthersAreNotConcerned) {
  std::vector<std::shared_ptr<PeerBook::Place>> places;
  for (int i = 0; i < 3; ++i) {
    places.push_back(Enter("a"));
    ASSERT_NE(places.back(), nullptr);
    places.back()->Admitted();
  }
  EXPECT_EQ(Enter("a"), nullptr);
  EXPECT_THAT(why_, HasSubstr("too many connections from a"));
  EXPECT_NE(Enter("b"), nullptr);
  places.pop_back();
  EXPECT_NE(Enter("a"), nullptr);
}

TEST_F(PeerLimitsTest, ThoseWithoutHelloAreBoundedForOneAndForAll) {
  std::vector<std::shared_ptr<PeerBook::Place>> places{Enter("a"), Enter("a")};
  EXPECT_EQ(Enter("a"), nullptr);
  places.push_back(Enter("b"));
  places.push_back(Enter("c"));
  EXPECT_EQ(Enter("d"), nullptr);
  EXPECT_THAT(why_, HasSubstr("hello"));
  places[0]->Admitted();
  EXPECT_NE(Enter("d"), nullptr);
}

TEST_F(PeerLimitsTest, NewConnectionsASecondAreBoundedAfterABurst) {
  for (int i = 0; i < 10; ++i) ASSERT_NE(Enter("a"), nullptr) << i;
  EXPECT_EQ(Enter("a"), nullptr);
  EXPECT_THAT(why_, HasSubstr("a second"));
  now_ = now_ + std::chrono::milliseconds(250);
  EXPECT_NE(Enter("a"), nullptr);
}

}  // namespace
}  // namespace penstock
