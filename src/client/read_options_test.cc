#include "client/read_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(ReadOptions, PlacesAreOfStrictAlone) {
  EXPECT_TRUE(CheckReadOptions({.mode = Mode::kStrict, .places = 4}).ok());
  for (const Mode mode : {Mode::kShared, Mode::kReplicated}) {
    const Status refused = CheckReadOptions({.mode = mode, .places = 4});
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_THAT(refused.message(), HasSubstr("places=4"));
    EXPECT_THAT(refused.message(), HasSubstr(std::string(Name(mode))));
  }
}

TEST(ReadOptions, ConsumersThatEndAtOneStepDoNotGoOnWithoutOne) {
  for (const Even even : {Even::kDrop, Even::kPad}) {
    EXPECT_THAT(CheckReadOptions({.even = even, .on_death = OnDeath::kRedeliver}).message(), HasSubstr("on_death=redeliver"));
    EXPECT_TRUE(CheckReadOptions({.even = even, .on_death = OnDeath::kHold}).ok());
  }
  EXPECT_TRUE(CheckReadOptions({.even = Even::kUneven, .on_death = OnDeath::kRedeliver}).ok());
}

TEST(ReadOptions, AnIndexIsOneOfTheDeclaredConsumers) {
  EXPECT_TRUE(CheckReadOptions({.index = 1, .consumers = 2}).ok());
  EXPECT_THAT(CheckReadOptions({.index = 2, .consumers = 2}).message(), HasSubstr("index 2"));
}

}  // namespace
}  // namespace penstock
