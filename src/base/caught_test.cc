#include "base/caught.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>

namespace penstock {
namespace {

using testing::HasSubstr;

Status StatusOfThrown(const std::function<void()>& thrower) {
  return Caught([&]() -> Status {
    thrower();
    return {};
  });
}

TEST(Caught, MemoryThatThereIsNotIsTooLarge) {
  EXPECT_EQ(StatusOfThrown([] { throw std::bad_alloc(); }).code(), Code::kTooLarge);
  EXPECT_EQ(StatusOfThrown([] { throw std::length_error("vector::reserve"); }).code(), Code::kTooLarge);
}

TEST(Caught, AnythingElseIsAnErrorThatKeepsItsWords) {
  const Status status = StatusOfThrown([] { throw std::runtime_error("odd"); });
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("odd"));
  EXPECT_EQ(StatusOfThrown([] { throw 3; }).code(), Code::kInternal);
}

TEST(Caught, WhatReturnsIsReturned) {
  EXPECT_TRUE(StatusOfThrown([] {}).ok());
}

}  // namespace
}  // namespace penstock
