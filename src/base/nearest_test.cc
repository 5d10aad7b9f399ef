#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock {
namespace {

const std::vector<std::string_view> kWords = {"status", "local", "off", "inline"};

TEST(Nearest, FindsAWordWithALetterLeftOutAddedOrSwapped) {
  EXPECT_EQ(Nearest("statsu", kWords), "status");
  EXPECT_EQ(Nearest("inlin", kWords), "inline");
  EXPECT_EQ(Nearest("of", kWords), "off");
  EXPECT_EQ(Nearest("locall", kWords), "local");
}

TEST(Nearest, FindsNothingForAnotherWord) {
  EXPECT_EQ(Nearest("trainer", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
  EXPECT_EQ(Nearest(std::string(1000, 's'), kWords), "");
}

TEST(Nearest, NamesNoneThatSharesNoLetter) { EXPECT_EQ(Nearest("xy", {kWords.begin() + 2, 1}), ""); }

}  // namespace
}  // namespace penstock
