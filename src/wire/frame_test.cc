#include "wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace penstock {
namespace {

using ::testing::HasSubstr;

const FrameHeader kSample{FrameType::kBlock, kPayloadCrc, 7, 0, 0, 4096, 0xDEADBEEF};

TEST(Frame, HeaderReadsBackAsItWasWritten) {
  for (const FrameHeader& header : {kSample, FrameHeader{FrameType::kControl, kIsReply, 0, 12, 99, 0, 0}, FrameHeader{.type = FrameType::kPing},
                                    FrameHeader{.type = FrameType::kLent, .stream = 3, .body_bytes = kLentBytes},
                                    FrameHeader{FrameType::kBlock, kPacked | kPayloadCrc, 7, 16, 0, 4096, 1}}) {
    const auto back = DecodeFrameHeader(EncodeFrameHeader(header), FrameCaps{});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, header);
  }
}

TEST(Frame, WithAnyOneByteChangedIsRefused) {
  const FrameHeaderBytes good = EncodeFrameHeader(kSample);
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      FrameHeaderBytes bad = good;
      bad[i] ^= std::byte(1 << bit);
      EXPECT_FALSE(DecodeFrameHeader(bad, FrameCaps{}).ok()) << "byte " << i;
    }
  }
}

TEST(Frame, OfSomethingElseIsSaidToBeNoPenstockFrame) {
  FrameHeaderBytes http{};
  std::memcpy(http.data(), "GET / HTTP/1.1\r\nHost: example\r\n\r\n", 33);
  const auto header = DecodeFrameHeader(http, FrameCaps{});
  EXPECT_EQ(header.status().code(), Code::kMismatch);
  EXPECT_THAT(header.status().message(), HasSubstr("not a penstock frame"));
}

TEST(Frame, OfAnUnknownTypeIsRefusedByItsNumber) {
  const auto header = DecodeFrameHeader(EncodeFrameHeader({.type = FrameType{77}}), FrameCaps{});
  EXPECT_EQ(header.status().code(), Code::kMismatch);
  EXPECT_THAT(header.status().message(), HasSubstr("type 77"));
}

TEST(Frame, OverTheCapsIsRefusedWithBothFigures) {
  const auto before_hello = DecodeFrameHeader(EncodeFrameHeader({.type = FrameType::kControl, .body_bytes = 70000}), kCapsBeforeHello);
  EXPECT_EQ(before_hello.status().code(), Code::kTooLarge);
  EXPECT_THAT(before_hello.status().message(), HasSubstr("70000 bytes; at most 65536 are taken before hello"));
  EXPECT_FALSE(DecodeFrameHeader(EncodeFrameHeader({.type = FrameType::kControl, .body_bytes = kMaxControlBody + 1}), FrameCaps{}).ok());
  EXPECT_FALSE(DecodeFrameHeader(EncodeFrameHeader({.type = FrameType::kBlock, .payload_bytes = kMaxBlock + 1}), FrameCaps{}).ok());
  EXPECT_FALSE(DecodeFrameHeader(EncodeFrameHeader({.type = FrameType::kBlock, .payload_bytes = 1}), kCapsBeforeHello).ok());
}

TEST(Frame, OfAFormThatItsTypeDoesNotHaveIsRefused) {
  for (const FrameHeader& header :
       {FrameHeader{.type = FrameType::kControl}, FrameHeader{.type = FrameType::kControl, .body_bytes = 1, .payload_bytes = 1},
        FrameHeader{.type = FrameType::kPing, .body_bytes = 1}, FrameHeader{.type = FrameType::kBlock},
        FrameHeader{.type = FrameType::kBlock, .body_bytes = 1, .payload_bytes = 1}, FrameHeader{.type = FrameType::kLent, .body_bytes = 15},
        FrameHeader{.type = FrameType::kBlock, .flags = kPacked, .payload_bytes = 1},
        FrameHeader{.type = FrameType::kControl, .flags = kPacked, .body_bytes = 1}}) {
    EXPECT_EQ(DecodeFrameHeader(EncodeFrameHeader(header), FrameCaps{}).status().code(), Code::kData);
  }
}

}  // namespace
}  // namespace penstock
