#include "wire/refusals.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;

class RefusalsTest : public ::testing::Test {
 protected:
  std::optional<RefusalBook::Line> Note(const std::string& host) { return book_.Note(now_, host, {"hello.refused", host + ":1", "why", 1}); }
  RefusalBook book_;
  TimePoint now_{std::chrono::seconds(100)};
};

TEST_F(RefusalsTest, AFloodOfOneAddressIsALineASecondThatSaysHowMany) {
  uint64_t said = 0;
  int lines = 0;
  for (int i = 0; i < 5000; ++i, now_ = now_ + milliseconds(1)) {
    if (const auto line = Note("a")) {
      said += line->count;
      ++lines;
    }
  }
  EXPECT_EQ(lines, 5);
  for (const RefusalBook::Line& line : book_.Due(now_)) said += line.count;
  EXPECT_EQ(said, 5000u) << "none is lost, the last ones neither";
  now_ = now_ + RefusalBook::kPause;
  EXPECT_TRUE(book_.Due(now_).empty());
  EXPECT_TRUE(book_.idle());
}

TEST_F(RefusalsTest, AnAddressDoesNotSilenceAnother) {
  EXPECT_TRUE(Note("a"));
  EXPECT_FALSE(Note("a"));
  EXPECT_TRUE(Note("b"));
}

TEST_F(RefusalsTest, ManyAddressesAtOnceShareALine) {
  int lines = 0;
  for (int i = 0; i < 3000; ++i) lines += Note("host-" + std::to_string(i)) ? 1 : 0;
  EXPECT_EQ(lines, 1025);
}

}  // namespace
}  // namespace penstock
