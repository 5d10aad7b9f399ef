#include "cluster/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/describe.h"
#include "cluster/identity_cases.h"

namespace penstock::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string TfJob(std::string_view type, std::string_view index) {
  std::string text = kTfJob;
  text.replace(text.find("TYPE"), 4, type);
  return text.replace(text.find("INDEX"), 5, index);
}

Inputs InputsOf(const Case& c) {
  Inputs inputs;
  for (const Case::Setting& setting : c.environment) {
    if (setting.name == nullptr) break;
    const std::string_view value = setting.value;
    const size_t slash = value.find('/');
    inputs.environment[setting.name] = value.starts_with('@') ? TfJob(value.substr(1, slash - 1), value.substr(slash + 1)) : std::string(value);
  }
  if (c.group.library != nullptr) inputs.facts.process_group = ProcessGroup{c.group.library, {c.group.rank, c.group.world}};
  if (c.ray.job_id != nullptr) inputs.facts.ray = Ray{c.ray.job_id, std::nullopt};
  if (c.ray.dispatcher != nullptr) inputs.facts.ray->dispatcher = c.ray.dispatcher;
  inputs.facts.hostname = "box";
  return inputs;
}

Inputs Of(Environment environment) { return {.environment = std::move(environment)}; }

std::string Text(const Service& service) { return ToString(service); }
std::string Text(const Address& address) { return ToString(address); }
std::string Text(const Rank& rank) { return ToString(rank); }
std::string Text(const std::string& text) { return text; }
std::string Text(Role role) { return std::string(Name(role)); }
std::string Text(uint16_t port) { return std::to_string(port); }

template <class T>
void ExpectAnswer(const Answer<T>& answer, std::string_view expected) {
  if (!expected.starts_with('!')) {
    ASSERT_TRUE(answer.value.ok()) << answer.value.status();
    EXPECT_EQ(Text(*answer.value), expected);
    return;
  }
  ASSERT_FALSE(answer.value.ok()) << Text(*answer.value);
  EXPECT_EQ(answer.value.status().code(), Code::kInvalid);
  EXPECT_THAT(answer.value.status().message(), HasSubstr(std::string(expected.substr(1))));
  EXPECT_NE(answer.value.status().detail("variable"), "");
}

TEST(Examine, EveryCaseOfTheTableIsWhoItShouldBe) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Report report = Examine(InputsOf(c));
    ExpectAnswer(report.service, c.service);
    EXPECT_EQ(Name(report.service.source), Name(c.service_from));
    ExpectAnswer(report.role, c.role);
    EXPECT_EQ(Name(report.role.source), Name(c.role_from));
    ExpectAnswer(report.rank, c.rank);
    EXPECT_EQ(Name(report.rank.source), Name(c.rank_from));
    ExpectAnswer(report.job, c.job);
    ExpectAnswer(report.advertise, c.advertise);
    ExpectAnswer(report.listen_port, c.port);
  }
}

TEST(Examine, AnySubsetOfAnEnvironmentIsAnsweredAndDescribed) {
  for (const Case& c : kCases) {
    for (const auto& [name, value] : InputsOf(c).environment) {
      Inputs inputs = InputsOf(c);
      inputs.environment.erase(name);
      const Report report = Examine(inputs);
      EXPECT_THAT(Describe(report), AllOf(HasSubstr("service"), HasSubstr("role")));
      EXPECT_THAT(DescribeJson(report), HasSubstr("\"joins_training\""));
    }
  }
}

TEST(Examine, ArgumentsWinOverTheEnvironmentMalformedOrNot) {
  Inputs inputs;
  inputs.environment = {{"PENSTOCK_SERVICE", "???"}, {"PENSTOCK_ROLE", "???"}, {"PENSTOCK_RANK", "x"}, {"PENSTOCK_JOB_NAME", "other"}};
  inputs.arguments.service = "unix:/run/penstock.sock";
  inputs.arguments.role = Role::kDispatcher;
  inputs.arguments.rank = Rank{1, 2};
  inputs.arguments.advertise = "me";
  inputs.arguments.listen_port = 9;
  inputs.arguments.job_name = "mine";
  const auto identity = Identify(inputs);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(ToString(identity->service), "unix:/run/penstock.sock");
  EXPECT_EQ(identity->role, Role::kDispatcher);
  EXPECT_EQ(identity->rank, (Rank{1, 2}));
  EXPECT_EQ(ToString(identity->advertise), "me");
  EXPECT_EQ(identity->listen_port, 9);
  EXPECT_EQ(identity->job, "mine");
}

TEST(Examine, AMalformedLoserIsListedAndHarmless) {
  const Report report =
      Examine(Of({{"PENSTOCK_RANK", "0"}, {"PENSTOCK_WORLD_SIZE", "1"}, {"RANK", "x"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}));
  ASSERT_TRUE(report.rank.value.ok());
  ASSERT_EQ(report.rank.others.size(), 2u);
  EXPECT_EQ(report.rank.others[0].kind, Other::Kind::kMalformed);
  EXPECT_EQ(report.rank.others[0].source, Source::kTorchrun);
  EXPECT_EQ(report.rank.others[1].kind, Other::Kind::kOutranked);
  EXPECT_EQ(report.rank.others[1].says, "1 of 2");
}

TEST(Examine, AttemptsAreCountedByThePlatform) {
  EXPECT_EQ(*Examine(Of({{"TORCHELASTIC_RESTART_COUNT", "2"}, {"SLURM_RESTART_COUNT", "1"}})).attempt.value, 2u);
  EXPECT_EQ(*Examine(Of({{"SLURM_RESTART_COUNT", "1"}})).attempt.value, 1u);
  EXPECT_EQ(*Examine(Of({})).attempt.value, 0u);
  EXPECT_FALSE(Examine(Of({{"SLURM_RESTART_COUNT", "x"}})).attempt.value.ok());
}

TEST(Examine, ADispatchersPortIsKnownToAllAndAWorkersIsItsOwn) {
  EXPECT_EQ(*Examine(Of({{"PENSTOCK_ROLE", "dispatcher"}})).listen_port.value, 5050);
  EXPECT_EQ(*Examine(Of({{"PENSTOCK_ROLE", "worker"}})).listen_port.value, 0);
}

TEST(CheckServing, AServersRoleWithoutAServiceIsAnErrorThatNamesBoth) {
  const auto check = [](Environment environment) { return CheckServing(Examine(Of(std::move(environment)))); };
  EXPECT_THAT(check({{"PENSTOCK_ROLE", "worker"}}).message(),
              AllOf(HasSubstr("by PENSTOCK_ROLE this process is a worker, and nothing names the service"), HasSubstr("set PENSTOCK_SERVICE=")));
  EXPECT_EQ(check({{"PENSTOCK_ROLE", "dispatcher"}}).code(), Code::kInvalid);
  EXPECT_THAT(check({{"PENSTOCK_ROLE", "worker"}, {"PENSTOCK_SERVICE", "inline"}}).message(),
              HasSubstr("by PENSTOCK_SERVICE its service is 'inline', which has no servers"));
  EXPECT_THAT(check({{"SPEC_TYPE", "datasetworker"}, {"MACHINES_CONFIG", R"({"dataset_worker": null})"}}).message(), HasSubstr("MACHINES_CONFIG"));
  EXPECT_TRUE(check({{"PENSTOCK_ROLE", "worker"}, {"PENSTOCK_SERVICE", "unix:/run/penstock"}}).ok());
  EXPECT_TRUE(check({{"PENSTOCK_ROLE", "dispatcher"}, {"PENSTOCK_SERVICE", "head:5050"}}).ok());
  EXPECT_TRUE(check({{"PENSTOCK_ROLE", "evaluator"}}).ok());
}

TEST(Unranked, OneOfSeveralTrainersOfTheOriginalsContractNeedsAProcessGroup) {
  const Environment worker{{"SPEC_TYPE", "worker"}, {"MACHINES_CONFIG", kWithReaders}, {"JOB_NAME", "abc"}, {"MY_POD_NAME", "abc-worker-3"}};
  EXPECT_THAT(Unranked(Examine(Of(worker))), AllOf(HasSubstr("by SPEC_TYPE=worker, MY_POD_NAME=abc-worker-3 this is one of several"),
                                                   HasSubstr("set PENSTOCK_RANK and PENSTOCK_WORLD_SIZE")));
  Inputs with_group = Of(worker);
  with_group.facts.process_group = ProcessGroup{"torch.distributed", {3, 4}};
  EXPECT_EQ(Unranked(Examine(with_group)), "");
  for (const auto& [type, pod] : {std::pair{"chief", "abc-chief-0"}, {"evaluator", "abc-evaluator-1"}, {"datasetworker", "abc-datasetworker-1"}}) {
    Environment other = worker;
    other["SPEC_TYPE"] = type;
    other["MY_POD_NAME"] = pod;
    EXPECT_EQ(Unranked(Examine(Of(other))), "") << type;
  }
}

TEST(Examine, ALongValueIsCutInTheError) {
  const Status status = Examine(Of({{"TF_CONFIG", std::string(100'000, '[')}})).service.value.status();
  EXPECT_THAT(status.message(), HasSubstr("(100000 bytes)"));
  EXPECT_LT(status.message().size(), 400u);
}

TEST(Identify, OnlyTrainersJoinByThemselves) {
  EXPECT_TRUE(JoinsTraining(Identify(Of({{"TF_CONFIG", TfJob("chief", "0")}}))->role));
  EXPECT_FALSE(JoinsTraining(Identify(Of({{"TF_CONFIG", TfJob("evaluator", "0")}}))->role));
  EXPECT_FALSE(JoinsTraining(Identify(Of({{"TF_CONFIG", TfJob("ps", "0")}}))->role));
  EXPECT_FALSE(JoinsTraining(Identify(Of({{"TF_CONFIG", TfJob("datasetworker", "0")}}))->role));
}

TEST(Identify, AServerHasNoUseForARank) {
  EXPECT_TRUE(Identify(Of({{"PENSTOCK_ROLE", "worker"}, {"RANK", "x"}})).ok());
  EXPECT_FALSE(Identify(Of({{"PENSTOCK_ROLE", "trainer"}, {"RANK", "x"}})).ok());
}

TEST(Identify, ATrainerHasNoUseForAnAddressToListenOn) {
  EXPECT_TRUE(Identify(Of({{"PENSTOCK_ADVERTISE", ":::"}})).ok());
  EXPECT_FALSE(Identify(Of({{"PENSTOCK_ROLE", "worker"}, {"PENSTOCK_ADVERTISE", "a b"}})).ok());
}

TEST(Identify, AMisspeltServiceIsRefusedWithTheWordThatWasMeant) {
  for (const auto& [misspelt, meant] : {std::pair{"inlin", "inline"}, {"loacl", "local"}, {"of", "off"}}) {
    const Result<Identity> identity = Identify({.environment = {{"PENSTOCK_SERVICE", misspelt}}});
    ASSERT_FALSE(identity.ok());
    EXPECT_NE(identity.status().message().find("did you mean '" + std::string(meant) + "'?"), std::string::npos) << identity.status().message();
  }
  EXPECT_EQ(Identify({.environment = {{"PENSTOCK_SERVICE", "trainer"}}}).status().message().find("did you mean"), std::string::npos);
}

TEST(Identify, ADispatcherNeedsNoService) {
  EXPECT_TRUE(Identify(Of({{"PENSTOCK_ROLE", "dispatcher"}, {"PENSTOCK_SERVICE", "???"}})).ok());
  EXPECT_FALSE(Identify(Of({{"PENSTOCK_ROLE", "worker"}, {"PENSTOCK_SERVICE", "???"}})).ok());
}

TEST(Identify, AMisplacedServerIsToldSo) {
  EXPECT_THAT(Identify(Of({{"PENSTOCK_ROLE", "dispatcher"}}))->misplaced, HasSubstr("set PENSTOCK_SERVICE"));
  EXPECT_EQ(Identify(Of({}))->misplaced, "");
}

TEST(Identify, CarriesWhoAnswered) {
  const auto identity = Identify(Of({{"TF_CONFIG", TfJob("worker", "0")}, {"PENSTOCK_JOB_NAME", "mine"}}));
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(identity->service_from, Source::kTfConfig);
  EXPECT_EQ(identity->job, "mine");
  EXPECT_EQ(identity->job_from, Source::kPenstock);
  EXPECT_EQ(identity->rank, (Rank{1, 3}));
}

TEST(OnPlatform, IsWhereAPlatformNamedTheServiceOrStartedTheProcess) {
  const auto on_platform = [](Environment environment) { return OnPlatform(*Identify(Of(std::move(environment)))); };
  EXPECT_TRUE(on_platform({{"TF_CONFIG", TfJob("worker", "0")}}));
  EXPECT_TRUE(on_platform({{"TF_CONFIG", TfJob("worker", "0")}, {"PENSTOCK_SERVICE", "penstock://elsewhere:5050"}}));
  EXPECT_TRUE(on_platform({{"PENSTOCK_DISPATCHER_SERVICE_HOST", "10.0.0.1"}, {"PENSTOCK_DISPATCHER_SERVICE_PORT", "5050"}}));
  EXPECT_TRUE(on_platform({{"PENSTOCK_SERVICE", "penstock://h:5050"}, {"JOB_COMPLETION_INDEX", "0"}, {"PENSTOCK_WORLD_SIZE", "2"}}));
  EXPECT_FALSE(on_platform({{"PENSTOCK_SERVICE", "penstock://h:5050"}}));
  EXPECT_FALSE(on_platform({{"PENSTOCK_SERVICE", "penstock://h:5050"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "7"}}));
  EXPECT_FALSE(on_platform({}));
}

TEST(CurrentEnvironment, ReadsTheProcess) {
  ASSERT_EQ(setenv("PENSTOCK_ROLE", "ps", 1), 0);
  EXPECT_EQ(CurrentEnvironment().at("PENSTOCK_ROLE"), "ps");
  unsetenv("PENSTOCK_ROLE");
  EXPECT_FALSE(CurrentEnvironment().contains("PENSTOCK_ROLE"));
}

}  // namespace
}  // namespace penstock::cluster
