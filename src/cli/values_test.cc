#include "cli/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/constants.h"
#include "cli/command.h"
#include "cli/security.h"
#include "cli/surroundings.h"

namespace penstock::cli {
namespace {

using testing::HasSubstr;

TEST(Values, SizesAreReadWithTheirUnits) {
  EXPECT_EQ(*ParseBytes("256MiB"), 256 * kMiB);
  EXPECT_EQ(*ParseBytes("1.5GiB"), 3 * kGiB / 2);
  EXPECT_EQ(*ParseBytes("2GB"), 2'000'000'000U);
  EXPECT_EQ(*ParseBytes("65536"), 65536U);
  for (const char* wrong : {"", "MiB", "12 MiB", "12mib", "-1", "nan", "inf", "1e40", "0x10", "12MiBs"}) {
    const auto parsed = ParseBytes(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_THAT(parsed.status().message(), HasSubstr("256MiB"));
  }
}

TEST(Values, TimesAreReadWithTheirUnits) {
  EXPECT_EQ(*ParseDuration("30s"), std::chrono::seconds(30));
  EXPECT_EQ(*ParseDuration("500ms"), std::chrono::milliseconds(500));
  EXPECT_EQ(*ParseDuration("2m"), std::chrono::minutes(2));
  EXPECT_EQ(*ParseDuration("10min"), std::chrono::minutes(10));
  EXPECT_FALSE(ParseDuration("soon").ok());
}

TEST(Values, SizesAreWrittenForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(4 * kGiB), "4.0 GiB");
}

TEST(Values, WithoutATokenOnlyThisMachineMayCome) {
  for (const char* here : {"127.0.0.1:5050", "localhost:0", "[::1]:0", "unix:/tmp/a.sock"}) EXPECT_TRUE(CheckExposure(here, {}).ok()) << here;
  const Status refused = CheckExposure("0.0.0.0:5050", {});
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), HasSubstr("--token-file"));
  EXPECT_TRUE(CheckExposure("0.0.0.0:5050", {.token = "secret"}).ok());
}

TEST(Values, TheServiceIsTheFlagThenTheVariableThenAnError) {
  unsetenv("PENSTOCK_SERVICE");
  EXPECT_EQ(*ServiceAddress("penstock://127.0.0.1:5050"), "127.0.0.1:5050");
  EXPECT_THAT(ServiceAddress("").status().message(), HasSubstr("PENSTOCK_SERVICE"));
  setenv("PENSTOCK_SERVICE", "grpc://127.0.0.1:1", 1);
  EXPECT_EQ(*ServiceAddress(""), "127.0.0.1:1");
  setenv("PENSTOCK_SERVICE", "nonsense", 1);
  EXPECT_THAT(ServiceAddress("").status().message(), HasSubstr("PENSTOCK_SERVICE"));
  unsetenv("PENSTOCK_SERVICE");
}

TEST(Values, ATokenFileIsReadWithoutItsLineEnd) {
  const std::string path = testing::TempDir() + "penstock-token-" + std::to_string(getpid());
  std::ofstream(path) << "secret\n";
  EXPECT_EQ(*ReadToken(path), "secret");
  std::ofstream(path) << "\n";
  EXPECT_THAT(ReadToken(path).status().message(), HasSubstr("empty"));
  unlink(path.c_str());
  EXPECT_THAT(ReadToken(path).status().message(), HasSubstr(path));
}

int RunWith(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "penstock");
  return RunCli(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Cli, UnknownFlagsAndWrongValuesAreRefusedAsUsage) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunWith({"version", "--nonsense"}), kExitUsage);
  EXPECT_EQ(RunWith({"nonsense"}), kExitUsage);
  EXPECT_EQ(RunWith({}), kExitUsage);
  EXPECT_EQ(RunWith({"worker", "--memory", "much"}), kExitUsage);
  EXPECT_EQ(RunWith({"read"}), kExitUsage);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("--nonsense"));
  EXPECT_THAT(said, HasSubstr("256MiB"));
}

TEST(Cli, EveryCommandHasHelpWithAnExample) {
  for (const CommandEntry& entry : Commands()) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(RunWith({entry.name, "--help"}), kExitFine);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr(entry.example)) << entry.name;
  }
}

TEST(Cli, ListeningElsewhereWithoutATokenIsRefused) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunWith({"dispatcher", "--listen", "0.0.0.0:0"}), kExitUsage);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--token-file"));
}

TEST(Cli, JsonIsTakenBeforeAndAfterTheCommand) {
  for (const std::vector<const char*>& arguments :
       {std::vector<const char*>{"--json", "version"}, std::vector<const char*>{"version", "--json", "--no-color"}}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(RunWith(arguments), kExitFine);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("\"version\""));
  }
}

TEST(Cli, ExitCodesSayWhetherToTryAgain) {
  EXPECT_EQ(ExitCodeOf(Status(Code::kUnavailable, "")), kExitRetry);
  EXPECT_EQ(ExitCodeOf(Status(Code::kInvalid, "")), kExitUsage);
  EXPECT_EQ(ExitCodeOf(Status(Code::kData, "")), kExitCheckFailed);
}

}  // namespace
}  // namespace penstock::cli
