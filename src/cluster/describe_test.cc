#include "cluster/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Environment kMixed = {
    {"PENSTOCK_SERVICE", "penstock://head:5050"}, {"PENSTOCK_ROL", "x"}, {"HAS_READERS", "maybe"}, {"PENSTOCK_DISPATCHER_SERVICE_HOST", "10.0.0.1"},
    {"PENSTOCK_DISPATCHER_SERVICE_PORT", "5050"}, {"RANK", "1"},         {"WORLD_SIZE", "2"},
};

TEST(Describe, PrintsWinnerOthersAndWhy) {
  EXPECT_EQ(Describe(Examine({.environment = kMixed})),
            "service     penstock://head:5050\n"
            "            from PENSTOCK_* (PENSTOCK_SERVICE)\n"
            "            outranked, malformed: HAS_READERS contract: HAS_READERS is 'maybe'; expected True or False (HAS_READERS, "
            "SLURM_JOB_NODELIST_HET_GROUP_0)\n"
            "            outranked: Kubernetes: penstock://10.0.0.1:5050 (PENSTOCK_DISPATCHER_SERVICE_HOST, _PORT)\n"
            "role        trainer\n"
            "            from default (no source speaks)\n"
            "joins       yes\n"
            "rank        1 of 2\n"
            "            from torchrun (RANK, WORLD_SIZE)\n"
            "job         anonymous\n"
            "            from default (no source speaks)\n"
            "attempt     0\n"
            "            from default (no source speaks)\n"
            "warning     PENSTOCK_ROL is not a variable of penstock; did you mean PENSTOCK_ROLE?\n");
}

TEST(Describe, AServerShowsWhereItListensInsteadOfARank) {
  const std::string text = Describe(Examine({.environment = {{"PENSTOCK_ROLE", "worker"}, {"POD_IP", "10.0.0.9"}}}));
  EXPECT_THAT(text, HasSubstr("advertise   10.0.0.9\n            from Kubernetes (POD_IP)\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank")));
}

TEST(Describe, AnEvaluatorIsToldThatItDoesNotJoin) {
  EXPECT_THAT(Describe(Examine({.environment = {{"PENSTOCK_ROLE", "evaluator"}}})), HasSubstr("joins       no: an evaluator"));
}

TEST(Describe, TheJobOfOneRankAloneIsTheOneThatItReads) {
  const Environment alone = {{"SLURM_JOB_ID", "7"}};
  EXPECT_THAT(Describe(Examine({.environment = alone})),
              HasSubstr("job         anonymous: one rank shares it with nobody (in penstock.dds slurm-7)\n            from Slurm (SLURM_JOB_ID)\n"));
  const auto json = nlohmann::json::parse(DescribeJson(Examine({.environment = alone})));
  EXPECT_EQ(json["job"]["value"], "");
  EXPECT_EQ(json["job"]["dds"], "slurm-7");
  EXPECT_THAT(Describe(Examine({.environment = {{"PENSTOCK_JOB_NAME", "mine"}}})), HasSubstr("job         mine\n"));
  EXPECT_THAT(Describe(Examine({.environment = {{"SLURM_JOB_ID", "7"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}})), HasSubstr("job         slurm-7\n"));
}

TEST(Describe, AnErrorStandsWhereTheAnswerWould) {
  EXPECT_THAT(Describe(Examine({.environment = {{"PENSTOCK_ROLE", "x"}}})), HasSubstr("role        error: PENSTOCK_ROLE is 'x'; expected trainer"));
}

TEST(DescribeJson, HasAMemberAQuestion) {
  const auto report = nlohmann::json::parse(DescribeJson(Examine({.environment = kMixed})));
  EXPECT_EQ(report["service"]["value"], "penstock://head:5050");
  EXPECT_EQ(report["service"]["source"], "PENSTOCK_*");
  EXPECT_EQ(report["service"]["others"].size(), 2u);
  EXPECT_EQ(report["rank"]["value"], (nlohmann::json{{"rank", 1}, {"world", 2}}));
  EXPECT_EQ(report["joins_training"], true);
  EXPECT_EQ(report["warnings"].size(), 1u);
}

TEST(DescribeJson, BytesThatAreNotTextDoNoHarm) {
  const auto report = nlohmann::json::parse(DescribeJson(Examine({.environment = {{"PENSTOCK_ROLE", "\xff\xfe"}}})));
  EXPECT_THAT(report["role"]["error"].get<std::string>(), HasSubstr("PENSTOCK_ROLE is"));
}

}  // namespace
}  // namespace penstock::cluster
