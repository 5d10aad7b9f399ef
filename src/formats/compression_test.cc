#include "formats/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/philox.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::string Compress(std::string_view text, Compression compression) {
  Deflater deflater(compression);
  std::string out;
  deflater.Add(text, out);
  deflater.Finish(out);
  return out;
}

Result<std::string> Uncompress(std::string bytes, Compression compression, size_t piece = 1000) {
  const auto stream = Inflate(std::make_unique<SourceStream>(std::make_shared<MemorySource>(std::move(bytes), "/data/a.gz")), compression);
  std::string out;
  std::vector<std::byte> buffer(piece);
  for (;;) {
    PENSTOCK_ASSIGN(const size_t read, stream->Read(buffer));
    if (read == 0) return out;
    out.append(reinterpret_cast<const char*>(buffer.data()), read);
  }
}

// Compressible, but longer than the input buffer when compressed.
std::string LongText() {
  std::string text;
  const RandomStream stream({.seed = 1});
  for (Seq i = 0; i < 100'000; ++i) text += std::to_string(stream.At(i).Next32()) + " and ";
  return text;
}

TEST(Inflate, GivesBackWhatWasDeflated) {
  const std::string text = LongText();
  for (Compression compression : {Compression::kGzip, Compression::kZlib}) {
    for (size_t piece : {7, 1000, 300'000}) EXPECT_EQ(*Uncompress(Compress(text, compression), compression, piece), text);
    EXPECT_EQ(*Uncompress(Compress("", compression), compression), "");
    EXPECT_EQ(*Uncompress("", compression), "");
  }
}

TEST(Inflate, ReadsGzipWrittenByOthers) {
  // printf hello | gzip -9, with a name in the header
  const std::string bytes(
      "\x1f\x8b\x08\x08\x00\x00\x00\x00\x02\x03\x61\x2e\x74\x78\x74\x00\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00", 31);
  EXPECT_EQ(*Uncompress(bytes, Compression::kGzip), "hello");
}

TEST(Inflate, JoinsTheMembersOfAGzipFile) {
  const std::string two = Compress("first, ", Compression::kGzip) + Compress("", Compression::kGzip) + Compress("second", Compression::kGzip);
  EXPECT_EQ(*Uncompress(two, Compression::kGzip, 3), "first, second");
  EXPECT_EQ(*Uncompress(two + std::string(100, '\0'), Compression::kGzip), "first, second");
}

TEST(Inflate, WhatFollowsTheEndIsAnError) {
  const std::string one = Compress("first", Compression::kGzip);
  EXPECT_THAT(Uncompress(one + "junk", Compression::kGzip).status().message(), HasSubstr("something after the end of the gzip data"));
  EXPECT_FALSE(Uncompress(one + "\x1f", Compression::kGzip).ok());
}

TEST(Inflate, TruncationIsAnErrorWithFileAndOffset) {
  const std::string bytes = Compress("some text that is cut off", Compression::kGzip);
  for (size_t length = 1; length < bytes.size(); ++length) {
    const Status status = Uncompress(bytes.substr(0, length), Compression::kGzip).status();
    ASSERT_EQ(status.code(), Code::kData) << length;
    EXPECT_THAT(status.message(), HasSubstr("the gzip data ends too early"));
    EXPECT_EQ(status.detail("file"), "/data/a.gz");
    EXPECT_EQ(status.detail("offset"), std::to_string(length));
  }
}

TEST(Inflate, AWrongTrailerIsAnError) {
  std::string bytes = Compress("some text", Compression::kGzip);
  bytes[bytes.size() - 6] ^= 1;
  EXPECT_THAT(Uncompress(bytes, Compression::kGzip).status().message(), HasSubstr("a checksum that does not match"));
}

TEST(Inflate, GarbageIsAnError) {
  EXPECT_EQ(Uncompress("this is not gzip at all", Compression::kGzip).status().code(), Code::kData);
  EXPECT_EQ(Uncompress("this is not zlib at all", Compression::kZlib).status().code(), Code::kData);
}

TEST(Compression, IsDetectedByMagicBytes) {
  const auto detect = [](std::string_view bytes) { return DetectCompression(std::as_bytes(std::span(bytes))); };
  EXPECT_EQ(detect(Compress("x", Compression::kGzip)), Compression::kGzip);
  EXPECT_EQ(detect(Compress("x", Compression::kZlib)), Compression::kZlib);
  EXPECT_EQ(detect("plain"), Compression::kNone);
  EXPECT_EQ(detect(""), Compression::kNone);
}

TEST(Compression, HasNames) {
  EXPECT_EQ(*CompressionFromName("GZIP"), Compression::kGzip);
  EXPECT_EQ(*CompressionFromName(""), Compression::kNone);
  EXPECT_EQ(*CompressionFromName("auto"), Compression::kAuto);
  EXPECT_THAT(CompressionFromName("bzip2").status().message(), HasSubstr("'bzip2'; known are auto, none, gzip, zlib"));
}

}  // namespace
}  // namespace penstock
