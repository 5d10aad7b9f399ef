#include "cluster/variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace penstock::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The page beside the source; "" where the test runs outside of the source tree.
std::string Page() {
  for (std::filesystem::path at = std::filesystem::read_symlink("/proc/self/exe"); at != at.parent_path(); at = at.parent_path()) {
    std::ifstream file(at.parent_path() / "docs/reference/environment.md");
    if (file) return (std::ostringstream() << file.rdbuf()).str();
  }
  return {};
}

TEST(Variables, AnUnknownOneIsWarnedOfWithTheNearestName) {
  EXPECT_THAT(WarnOfVariables({{"PENSTOCK_SERVCE", "x"}}),
              ElementsAre("PENSTOCK_SERVCE is not a variable of penstock; did you mean PENSTOCK_SERVICE?"));
  EXPECT_EQ(NearestVariable("PENSTOCK_JOBNAME"), "PENSTOCK_JOB_NAME");
  EXPECT_EQ(NearestVariable("PENSTOCK_WORLDSIZE"), "PENSTOCK_WORLD_SIZE");
  EXPECT_EQ(NearestVariable("PENSTOCK_TOKENFILE"), "PENSTOCK_TOKEN_FILE");
  EXPECT_EQ(NearestVariable("PENSTOCK_TLS_CERTS"), "PENSTOCK_TLS_CERT");
}

TEST(Variables, ANameFarFromAllHasNoNearest) {
  EXPECT_EQ(NearestVariable("PENSTOCK_QQQQQQQQ"), "");
  EXPECT_EQ(NearestVariable("OTHER"), "");
  EXPECT_EQ(NearestVariable("PENSTOCK_" + std::string(1000, 'A')), "");
  EXPECT_THAT(WarnOfVariables({{"PENSTOCK_QQQQQQQQ", "1"}}),
              ElementsAre("PENSTOCK_QQQQQQQQ is not a variable of penstock; docs/reference/environment.md lists them"));
}

TEST(Variables, WhatKubernetesSetsForServicesIsNotWarnedOf) {
  EXPECT_THAT(WarnOfVariables({{"PENSTOCK_SERVICE_HOST", "10.0.0.1"},
                               {"PENSTOCK_SERVICE_PORT", "5050"},
                               {"PENSTOCK_SERVICE_PORT_RPC", "5050"},
                               {"PENSTOCK_PORT", "tcp://10.0.0.1:5050"},
                               {"PENSTOCK_PORT_5050_TCP", "tcp://10.0.0.1:5050"},
                               {"PENSTOCK_PORT_5050_TCP_ADDR", "10.0.0.1"},
                               {"PENSTOCK_DISPATCHER_PORT_5050_TCP_PROTO", "tcp"},
                               {"PENSTOCK_WORKER_SERVICE_HOST", "10.0.0.2"}}),
              IsEmpty());
}

TEST(Variables, ThoseOfOthersAreNotWarnedOf) {
  EXPECT_THAT(WarnOfVariables({{"PENSTOC", "1"}, {"PENSTOCKS", "1"}, {"PATH", "/bin"}, {"ZZZ", "1"}}), IsEmpty());
}

TEST(Variables, EveryKnownOneIsAcceptedAndAnEmptyOneIsWarnedOf) {
  for (const Variable& variable : PenstockVariables()) {
    EXPECT_THAT(WarnOfVariables({{std::string(variable.name), "x"}}), IsEmpty());
    EXPECT_THAT(WarnOfVariables({{std::string(variable.name), ""}}),
                ElementsAre(std::string(variable.name) + " is set but empty, and counts as not set"));
  }
}

TEST(Variables, ThePageOfTheEnvironmentHasEveryOneWithItsMeaning) {
  const std::string page = Page();
  if (page.empty()) GTEST_SKIP() << "docs/reference/environment.md is not above this program";
  for (const auto& table : {PenstockVariables(), PlatformVariables()}) {
    for (const Variable& variable : table) {
      EXPECT_THAT(page, HasSubstr("| `" + std::string(variable.name) + "` | " + std::string(variable.meaning) + " |"));
    }
  }
}

}  // namespace
}  // namespace penstock::cluster
