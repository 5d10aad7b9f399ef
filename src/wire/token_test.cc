#include "wire/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(Token, TheClustersOwnAllowsEverything) { EXPECT_EQ(*CheckToken("secret", "secret", 0), TokenClaims{}); }

TEST(Token, ADerivedOneSaysWhatItAllows) {
  const TokenClaims claims{.job = "train/a b", .expires = 100};
  EXPECT_EQ(*CheckToken("secret", DeriveToken("secret", claims), 99), claims);
  EXPECT_EQ(CheckToken("secret", DeriveToken("secret", {.job = "j"}), 1'000'000'000)->job, "j");
}

TEST(Token, TheClustersOwnIsNeitherMadeFromAnotherNorShort) {
  const std::string own = RandomToken();
  EXPECT_TRUE(CheckClusterToken(own).ok());
  EXPECT_TRUE(CheckClusterToken("sixteen bytes...").ok());
  EXPECT_THAT(CheckClusterToken("fifteen bytes..").message(), HasSubstr("has 15 bytes, and could be guessed"));
  for (const TokenClaims& claims : {TokenClaims{.job = "j"}, TokenClaims{.expires = 100}}) {
    const Status refused = CheckClusterToken(DeriveToken(own, claims));
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_THAT(refused.message(), HasSubstr("need the service's own"));
  }
}

TEST(Token, AnExpiredOneIsRefusedWithTheRemedy) {
  const Status refused = CheckToken("secret", DeriveToken("secret", {.expires = 100}), 100).status();
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_THAT(refused.message(), HasSubstr("penstock token create"));
}

TEST(Token, WhateverWasNotMadeUnderTheClustersTokenIsWrong) {
  const std::string good = DeriveToken("secret", {.job = "j", .expires = 100});
  std::vector<std::string> wrong{"", "other", "pst1.", "pst1..", "pst1.zz.zz", DeriveToken("other", {.job = "j"}), good + "0", good.substr(1)};
  for (size_t i = 5; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = changed[i] == '0' ? '1' : '0';
    wrong.push_back(changed);
  }
  for (const std::string& token : wrong) {
    const Status refused = CheckToken("secret", token, 0).status();
    EXPECT_EQ(refused.code(), Code::kPermission) << token;
    EXPECT_THAT(refused.message(), HasSubstr("PENSTOCK_TOKEN_FILE")) << token;
  }
}

TEST(Token, RandomOnesDiffer) {
  EXPECT_EQ(RandomToken().size(), 64U);
  EXPECT_NE(RandomToken(), RandomToken());
}

}  // namespace
}  // namespace penstock
