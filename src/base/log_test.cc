#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "penstock/ids.h"

namespace penstock {
namespace {

TEST(Log, AnEventIsOneLineOfNamesAndValues) {
  EXPECT_EQ(FormatEvent("worker.start", {{"address", "127.0.0.1:1"}, {"memory", uint64_t{7}}, {"job", JobId{3}}, {"shm", true}}),
            "worker.start address=127.0.0.1:1 memory=7 job=3 shm=true");
}

TEST(Log, AValueThatWouldConfuseIsQuoted) {
  EXPECT_EQ(FormatEvent("e", {{"why", "no room"}, {"a", ""}, {"b", "x=\"y\"\nz"}}), R"(e why="no room" a="" b="x=\"y\"\nz")");
}

TEST(Log, IsQuietUnlessAskedFor) {
  testing::internal::CaptureStderr();
  LogError("nobody.asked");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Log, WhatAThreadWorksOnIsInItsEvents) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(SetUpLog(LogLevel::kInfo).ok());
  {
    const std::vector<LogField> outer{{"job", "train"}};
    const std::vector<LogField> inner{{"job", "train"}, {"lane", 3}};
    const LogScope job(outer);
    LogInfo("outer");
    {
      const LogScope lane(inner);
      LogInfo("inner", {{"file", "a"}});
    }
  }
  LogInfo("after");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("info outer job=train\n"), std::string::npos) << said;
  EXPECT_NE(said.find("info inner file=a job=train lane=3\n"), std::string::npos) << said;
  EXPECT_NE(said.find("info after\n"), std::string::npos) << said;
  ASSERT_TRUE(SetUpLog(LogLevel::kOff).ok());
}

TEST(Log, TheVariableWinsAndAWrongOneIsNamed) {
  setenv("PENSTOCK_LOG", "warn", 1);
  EXPECT_TRUE(SetUpLog(LogLevel::kDebug).ok());
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kWarn));
  setenv("PENSTOCK_LOG", "loud", 1);
  const Status error = SetUpLog(LogLevel::kInfo);
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_NE(error.message().find("PENSTOCK_LOG"), std::string::npos);
  unsetenv("PENSTOCK_LOG");
  EXPECT_TRUE(SetUpLog(LogLevel::kOff).ok());
}

}  // namespace
}  // namespace penstock
