#include "cluster/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::cluster {
namespace {

Placement PlaceIn(Role role, Environment environment, const std::string& listen = {}, bool local = true) {
  Inputs inputs{.environment = std::move(environment), .arguments = {.role = role}, .facts = {.hostname = "box"}};
  const auto placement = PlaceServer(Examine(inputs), listen, [local](const std::string&) { return local; });
  EXPECT_TRUE(placement.ok()) << placement.status();
  return placement.ok() ? *placement : Placement{};
}

constexpr char kDispatcherOfTfJob[] =
    R"({"cluster": {"datasetdispatcher": ["j-datasetdispatcher-0.ml.svc:5050"]}, "task": {"type": "datasetdispatcher", "index": 0}})";

TEST(Placement, AServerThatNobodyKnowsStaysOnLoopback) {
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {}).listen, "127.0.0.1:5050");
  EXPECT_EQ(PlaceIn(Role::kWorker, {{"PENSTOCK_SERVICE", "127.0.0.1:5050"}}).listen, "127.0.0.1:0");
  EXPECT_EQ(PlaceIn(Role::kWorker, {{"PENSTOCK_SERVICE", "127.0.0.1:5050"}}).advertise, "");
}

TEST(Placement, AWorkerOfADispatcherElsewhereTellsItsHostsName) {
  const Placement worker = PlaceIn(Role::kWorker, {{"PENSTOCK_SERVICE", "192.0.2.1:5050"}}, "", false);
  EXPECT_EQ(worker.listen, "0.0.0.0:0");
  EXPECT_EQ(worker.advertise, "box");
}

TEST(Placement, ADispatcherBindsTheNameItIsLookedForWhereThatIsItsOwn) {
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {{"TF_CONFIG", kDispatcherOfTfJob}}).listen, "j-datasetdispatcher-0.ml.svc:5050");
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {{"TF_CONFIG", kDispatcherOfTfJob}}, "", false).listen, "0.0.0.0:5050");
}

TEST(Placement, ADispatcherListensWherePenstockServiceSaysThatItIs) {
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {{"PENSTOCK_SERVICE", "penstock://127.0.0.2:6000"}}).listen, "127.0.0.2:6000");
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {{"PENSTOCK_SERVICE", "penstock://head:6000"}}, "", false).listen, "0.0.0.0:6000");
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {{"PENSTOCK_SERVICE", "unix:/run/penstock.sock"}}).listen, "unix:/run/penstock.sock");
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {{"PENSTOCK_SERVICE", "head:6000"}, {"TF_CONFIG", kDispatcherOfTfJob}}).listen, "head:6000");
  EXPECT_EQ(PlaceIn(Role::kWorker, {{"PENSTOCK_SERVICE", "127.0.0.1:6000"}}).listen, "127.0.0.1:0");
}

TEST(Placement, AWorkerListensWhereItTellsOthersToLook) {
  const Environment slurm{
      {"HAS_READERS", "True"}, {"TASK_TYPE", "datasetworker"}, {"SLURM_JOB_NODELIST_HET_GROUP_0", "a1"}, {"SLURMD_NODENAME", "a2"}};
  EXPECT_EQ(PlaceIn(Role::kWorker, slurm).listen, "a2:5051");
  EXPECT_EQ(PlaceIn(Role::kWorker, slurm).advertise, "a2:5051");
  EXPECT_EQ(PlaceIn(Role::kWorker, {{"PENSTOCK_ADVERTISE", "me:7000"}}).listen, "me:7000");
  EXPECT_EQ(PlaceIn(Role::kWorker, {{"POD_IP", "10.0.0.3"}}, "", false).listen, "0.0.0.0:0");
  EXPECT_EQ(PlaceIn(Role::kWorker, {{"POD_IP", "10.0.0.3"}}, "", false).advertise, "10.0.0.3");
}

TEST(Placement, TheFlagWinsAndTheAddressToTellStays) {
  const Placement worker = PlaceIn(Role::kWorker, {{"POD_IP", "10.0.0.3"}}, "0.0.0.0:9");
  EXPECT_EQ(worker.listen, "0.0.0.0:9");
  EXPECT_EQ(worker.advertise, "10.0.0.3");
}

TEST(Placement, AMalformedAddressIsAnErrorThatNamesTheVariable) {
  const auto placement = PlaceServer(Examine({.environment = {{"POD_IP", "not an address"}}, .arguments = {.role = Role::kWorker}}), "");
  EXPECT_THAT(placement.status().message(), testing::HasSubstr("POD_IP"));
}

TEST(Placement, ADispatcherThatIsToldWhereToListenAsksNobodyElse) {
  EXPECT_EQ(PlaceIn(Role::kDispatcher, {{"TF_CONFIG", "{"}, {"POD_IP", "not an address"}}, "127.0.0.1:0").listen, "127.0.0.1:0");
}

TEST(Placement, ThisMachineKnowsItsOwnAddresses) {
  EXPECT_TRUE(IsLocalHost("localhost"));
  EXPECT_TRUE(IsLocalHost("127.3.4.5"));
  EXPECT_FALSE(IsLocalHost("192.0.2.1"));
}

TEST(Placement, LoopbackIsAnAddressAndNoNameThatLooksLikeOne) {
  EXPECT_TRUE(IsLoopback("localhost"));
  EXPECT_TRUE(IsLoopback("127.3.4.5"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("127.0.0.1.invalid"));
  EXPECT_FALSE(IsLoopback(""));
  EXPECT_FALSE(IsLoopback("*"));
}

}  // namespace
}  // namespace penstock::cluster
