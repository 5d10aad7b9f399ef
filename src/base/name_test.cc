#include "base/name.h"

#include <gmock/gmock.h>

namespace penstock {
namespace {

using ::testing::HasSubstr;

TEST(Name, HasOneTo200BytesWithoutControlCharacters) {
  for (const std::string& good : {std::string("a"), std::string("Zug 7/ü=é"), std::string(200, 'x')}) EXPECT_TRUE(CheckName("job_name", good).ok());
  for (const std::string& bad : {std::string(), std::string("a\nb"), std::string("a\0b", 3), std::string("\x1b[2J"), std::string("\x7f"),
                                 std::string("\xc2\x9b"), std::string(201, 'x')}) {
    const Status refused = CheckName("job_name", bad);
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_THAT(refused.message(), HasSubstr("expected 1 to 200 bytes without control characters"));
  }
}

TEST(Name, ARefusalShowsItEscapedAndNotAllOfAHugeOne) {
  EXPECT_THAT(CheckName("--job", "a\nb").message(), HasSubstr("--job is 'a\\nb';"));
  const std::string message = CheckName("--job", std::string(20'000'000, 'x')).message();
  EXPECT_LT(message.size(), 300u);
  EXPECT_THAT(message, HasSubstr("20000000 bytes"));
}

TEST(Name, ForATerminalControlCharactersAreEscapedAndLettersStay) {
  EXPECT_EQ(Printable("train ü\x1b[31m\n\t\xc2\x9b"
                      "1m"),
            "train ü\\x1b[31m\\n\\t\\xc2\\x9b"
            "1m");
}

}  // namespace
}  // namespace penstock
