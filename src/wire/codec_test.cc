#include "wire/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "wire/codec_parts.h"
#include "wire/message_samples.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Codec, EveryMessageComesBackWhole) {
  const std::vector<Message> samples = SampleMessages();
  ASSERT_EQ(samples.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < samples.size(); ++i) {
    ASSERT_EQ(samples[i].index(), i) << "one sample a message, in their order";
    const auto back = DecodeMessage(BytesOf(EncodeMessage(samples[i])));
    ASSERT_TRUE(back.ok()) << MessageName(samples[i]) << ": " << back.status();
    EXPECT_TRUE(*back == samples[i]) << MessageName(samples[i]);
  }
}

TEST(Codec, MessageNamesAreThoseOfTheSchema) {
  EXPECT_EQ(MessageName(msg::Hello{}), "Hello");
  EXPECT_EQ(MessageName(msg::StatusReply{}), "StatusReply");
}

TEST(Codec, AMessageCutOffIsRefused) {
  for (const Message& message : SampleMessages()) {
    const std::string bytes = EncodeMessage(message);
    for (size_t keep = 0; keep + 8 < bytes.size(); keep += 8) {
      const std::string cut = bytes.substr(0, keep);
      const auto back = DecodeMessage(BytesOf(cut));
      EXPECT_FALSE(back.ok() && *back == message) << MessageName(message) << " cut to " << keep;
    }
  }
}

TEST(Codec, RandomDamageIsRefusedOrReadsAsSomeMessage) {
  std::mt19937_64 random(1);
  for (const Message& message : SampleMessages()) {
    const std::string good = EncodeMessage(message);
    for (int round = 0; round < 300; ++round) {
      std::string bad = good;
      for (uint64_t hits = 1 + random() % 4; hits > 0; --hits) bad[random() % bad.size()] = static_cast<char>(random());
      const auto back = DecodeMessage(BytesOf(bad));
      ASSERT_TRUE(!back.ok() || !EncodeMessage(*back).empty());
    }
  }
}

std::string Finish(codec::Builder& b, fb::Body type, flatbuffers::Offset<void> body) {
  b.Finish(fb::CreateMessage(b, type, body));
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

TEST(Codec, AnUnknownMessageIsRefusedByItsNumber) {
  codec::Builder b;
  const auto body = fb::CreateDone(b).Union();
  const auto back = DecodeMessage(BytesOf(Finish(b, fb::Body{200}, body)));
  EXPECT_EQ(back.status().code(), Code::kMismatch);
  EXPECT_THAT(back.status().message(), HasSubstr("200"));
}

TEST(Codec, AMessageWithoutATableThatItNeedsIsRefusedByName) {
  const auto refusal = [](fb::Body type, auto make) {
    codec::Builder b;
    const auto body = make(b).Union();
    return DecodeMessage(BytesOf(Finish(b, type, body))).status().message();
  };
  EXPECT_THAT(refusal(fb::Body::Open, [](auto& b) { return fb::CreateOpen(b); }), HasSubstr("without its range"));
  EXPECT_THAT(refusal(fb::Body::Open, [](auto& b) { return fb::CreateOpen(b, 1, 1, fb::CreateRange(b)); }), HasSubstr("without its lane"));
  EXPECT_THAT(refusal(fb::Body::Joined, [](auto& b) { return fb::CreateJoined(b); }), HasSubstr("without its layout"));
  EXPECT_THAT(refusal(fb::Body::Inputs, [](auto& b) { return fb::CreateInputs(b, 1, 0, 0, fb::CreateLayout(b, 1)); }), HasSubstr("without its spec"));
  EXPECT_THAT(refusal(fb::Body::Failed, [](auto& b) { return fb::CreateFailed(b); }), HasSubstr("without its error"));
  EXPECT_THAT(refusal(fb::Body::Join, [](auto& b) { return fb::CreateJoin(b, 0, 0, fb::Mode{9}); }), HasSubstr("unknown mode 9"));
  EXPECT_THAT(refusal(fb::Body::Inputs, [](auto& b) { return fb::CreateInputs(b, 1, 0, 0, fb::CreateLayout(b, 1, false, 0, 7, 0)); }),
              HasSubstr("mix"));
}

TEST(Codec, AnErrorCodeOfANewerPeerKeepsItsMessage) {
  codec::Builder b;
  const auto message = b.CreateString("something new");
  const auto body = fb::CreateFailed(b, fb::CreateErrorInfo(b, 250, message)).Union();
  const auto back = DecodeMessage(BytesOf(Finish(b, fb::Body::Failed, body)));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(std::get<msg::Failed>(*back).error, Status(Code::kInternal, "something new"));
}

}  // namespace
}  // namespace penstock
