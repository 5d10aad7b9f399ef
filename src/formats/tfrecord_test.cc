#include "formats/tfrecord.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/crc32c.h"
#include "base/philox.h"
#include "formats/tfrecord_writer.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Records = std::vector<std::string>;

Records Numbered(size_t n) {
  Records records;
  const RandomStream stream({.seed = 4});
  for (size_t i = 0; i < n; ++i) records.push_back(std::to_string(i) + std::string(stream.At(i).Below(300), 'x'));
  return records;
}

std::string FileOf(const Records& records) {
  std::string bytes;
  for (const std::string& record : records) AppendRecord(record, bytes);
  return bytes;
}

std::string Gzip(std::string_view bytes) {
  Deflater deflater(Compression::kGzip);
  std::string out;
  deflater.Add(bytes, out);
  deflater.Finish(out);
  return out;
}

struct Read {
  Records records;
  Status status;
};
Read ReadAll(const std::string& bytes, RecordOptions options = {}, uint64_t from = 0, uint64_t to = kToEnd,
             Compression compression = Compression::kAuto) {
  Read read;
  auto reader = RecordReader::Open(std::make_shared<MemorySource>(bytes, "/data/a"), compression, options, from, to);
  if (!reader.ok()) return {{}, reader.status()};
  for (;;) {
    const auto next = (*reader)->Next(10);
    if (!next.ok()) return {read.records, next.status()};
    if (next->empty()) return read;
    EXPECT_LE(next->size(), 10u);
    for (std::string_view record : *next) read.records.emplace_back(record);
  }
}

TEST(TfRecord, HasTheBytesThatTensorFlowWrites) {
  EXPECT_EQ(FileOf({"hello"}), std::string("\x05\x00\x00\x00\x00\x00\x00\x00\xea\xb2\x04\x3e"
                                           "hello"
                                           "\xbb\x1f\x1c\x19",
                                           21));
}

TEST(TfRecord, ReadsWhatWasWrittenPlainAndCompressed) {
  const Records records = Numbered(1000);
  const std::string plain = FileOf(records);
  for (size_t window : {16, 100, 1 << 18}) {
    EXPECT_EQ(ReadAll(plain, {.window = window}).records, records) << window;
    EXPECT_EQ(ReadAll(Gzip(plain), {.window = window}).records, records) << window;
  }
  EXPECT_THAT(ReadAll("").records, IsEmpty());
  EXPECT_EQ(ReadAll(FileOf({"", "", "a"})).records, (Records{"", "", "a"}));
}

TEST(TfRecord, GivesManyRecordsAtOnceWithoutCopies) {
  const auto reader = RecordReader::Open(std::make_shared<MemorySource>(FileOf(Numbered(100))), Compression::kNone, {});
  const auto records = (*reader)->Next(1000);
  EXPECT_EQ(records->size(), 100u);
  EXPECT_EQ((*reader)->record(), 100u);
  const auto& first = records->front();
  EXPECT_EQ((*records)[1].data(), first.data() + first.size() + kRecordHeader + kRecordFooter);
}

TEST(TfRecord, ARecordLargerThanTheWindowIsWhole) {
  const Records records = {std::string(1000, 'a'), "b", std::string(5000, 'c')};
  EXPECT_EQ(ReadAll(FileOf(records), {.window = 64}).records, records);
}

TEST(TfRecord, ADamagedRecordIsNamedAndTheOnesBeforeItAreGiven) {
  std::string bytes = FileOf({"one", "two", "three"});
  bytes[19 + 12] ^= 1;
  const Read read = ReadAll(bytes);
  EXPECT_THAT(read.records, ElementsAre("one"));
  EXPECT_EQ(read.status.message(), "/data/a at offset 19, record 1: the data's CRC does not match: the file is damaged");
  EXPECT_EQ(read.status.detail("file"), "/data/a");
  EXPECT_EQ(read.status.detail("offset"), "19");
  EXPECT_EQ(read.status.detail("record"), "1");
  EXPECT_EQ(ReadAll(bytes, {.verify_crc = false}).records.size(), 3u);
}

TEST(TfRecord, ADamagedLengthIsNamed) {
  std::string bytes = FileOf({"one", "two"});
  bytes[19] ^= 1;
  EXPECT_THAT(ReadAll(bytes).status.message(), HasSubstr("offset 19, record 1: the length's CRC does not match: the file is damaged"));
  EXPECT_THAT(ReadAll("some text that is no record").status.message(), HasSubstr("not a TFRecord file, or its compression is another"));
}

TEST(TfRecord, ATruncatedFileIsAnErrorAtAnyLength) {
  const std::string bytes = FileOf({"one", "two"});
  for (size_t length = 1; length < bytes.size(); ++length) {
    if (length == 19) continue;
    EXPECT_THAT(ReadAll(bytes.substr(0, length), {}, 0, kToEnd, Compression::kNone).status.message(), HasSubstr("the file ends inside a record"))
        << length;
  }
  const std::string zipped = Gzip(bytes);
  const Read read = ReadAll(zipped.substr(0, zipped.size() - 9));
  EXPECT_EQ(read.status.code(), Code::kData);
  EXPECT_THAT(read.status.message(), HasSubstr("/data/a at compressed offset"));
}

TEST(TfRecord, ARecordOverTheCapIsRefused) {
  EXPECT_THAT(ReadAll(FileOf({std::string(100, 'x')}), {.max_record = 99}).status.message(), HasSubstr("100 bytes, more than the cap of 99"));
}

TEST(TfRecord, AHugeLengthIsNoReasonToAllocate) {
  const uint64_t length = 1ULL << 30;
  std::string header(reinterpret_cast<const char*>(&length), sizeof length);
  const uint32_t crc = MaskedCrc(Crc32c(std::as_bytes(std::span(header))));
  header.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  const auto reader = RecordReader::Open(std::make_shared<MemorySource>(header + "x"), Compression::kNone, {});
  EXPECT_THAT((*reader)->Next(1).status().message(), HasSubstr("ends inside a record of 1073741824 bytes"));
  EXPECT_LT((*reader)->bytes_held(), 1u << 20);
}

TEST(TfRecord, SkipsWithoutReadingTheData) {
  const Records records = Numbered(500);
  for (const std::string& bytes : {FileOf(records), Gzip(FileOf(records))}) {
    for (size_t window : {16, 1000, 1 << 18}) {
      auto reader = RecordReader::Open(std::make_shared<MemorySource>(bytes), Compression::kAuto, {.window = window});
      EXPECT_EQ(*(*reader)->Skip(0), 0u);
      EXPECT_EQ(std::string((*reader)->Next(1)->front()), records[0]);
      EXPECT_EQ(*(*reader)->Skip(300), 300u);
      EXPECT_EQ((*reader)->record(), 301u);
      EXPECT_EQ(std::string((*reader)->Next(1)->front()), records[301]);
      EXPECT_EQ(*(*reader)->Skip(1000), 198u);
      EXPECT_TRUE((*reader)->Next(1)->empty());
    }
  }
  const auto cut = RecordReader::Open(std::make_shared<MemorySource>(FileOf({"one", "two"}).substr(0, 30)), Compression::kNone, {});
  EXPECT_THAT((*cut)->Skip(5).status().message(), HasSubstr("ends inside a record"));
}

TEST(TfRecord, RangesOfAPlainFileTogetherHaveEachRecordOnce) {
  const Records records = Numbered(200);
  const std::string bytes = FileOf(records);
  for (uint64_t step : {1000, 333, 50, 7}) {
    Records joined;
    for (uint64_t from = 0; from < bytes.size(); from += step) {
      const Read read = ReadAll(bytes, {}, from, std::min<uint64_t>(from + step, bytes.size()));
      ASSERT_TRUE(read.status.ok()) << read.status;
      joined.insert(joined.end(), read.records.begin(), read.records.end());
    }
    EXPECT_EQ(joined, records) << step;
  }
}

TEST(TfRecord, DamageAtTheEdgeOfARangeIsNeverPassedOver) {
  const Records records = Numbered(20);
  const std::string good = FileOf(records);
  for (size_t at = 0; at < good.size(); at += 5) {
    std::string bad = good;
    bad[at] ^= 0x40;
    size_t errors = 0;
    for (uint64_t from = 0; from < bad.size(); from += 400) {
      errors += ReadAll(bad, {}, from, std::min<uint64_t>(from + 400, bad.size()), Compression::kNone).status.ok() ? 0 : 1;
    }
    EXPECT_GT(errors, 0u) << at;
  }
}

TEST(TfRecord, ACompressedFileIsNotCut) {
  EXPECT_THAT(ReadAll(Gzip(FileOf({"a"})), {}, 1).status.message(), HasSubstr("is compressed: it can only be read whole"));
}

TEST(TfRecord, ALengthThatLooksLikeZlibIsStillPlain) {
  EXPECT_EQ(*DetectRecordCompression(MemorySource(FileOf({std::string(0x9c78, 'x')}))), Compression::kNone);
  EXPECT_EQ(ReadAll(FileOf({std::string(0x9c78, 'x')})).records.size(), 1u);
}

TEST(TfRecordWriter, WritesFilesThatReadBack) {
  const std::string path = (std::filesystem::temp_directory_path() / ("penstock_writer_test_" + std::to_string(getpid()))).string();
  const Records records = Numbered(300);
  for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const auto writer = TfRecordWriter::Create(path, compression);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const std::string& record : records) ASSERT_TRUE((*writer)->Write(record).ok());
    ASSERT_TRUE((*writer)->Close().ok());
    std::ifstream in(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_EQ(*DetectRecordCompression(MemorySource(bytes)), compression);
    EXPECT_EQ(ReadAll(bytes).records, records);
  }
  std::filesystem::remove(path);
}

TEST(TfRecordWriter, AnUnwritablePlaceIsAnErrorByName) {
  EXPECT_THAT(TfRecordWriter::Create("/no/such/place", Compression::kNone).status().message(), HasSubstr("cannot write /no/such/place"));
}

}  // namespace
}  // namespace penstock
