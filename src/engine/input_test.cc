// tf.Examples from files, and what is said when inputs are not as they should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/testing.h"
#include "formats/example_writer.h"
#include "formats/tfrecord_writer.h"

namespace penstock::engine::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

AttrMap Feature(std::string name, std::string dtype, std::vector<int64_t> shape, bool var, std::vector<int64_t> otherwise = {}) {
  AttrMap map;
  map.Set("name", std::move(name));
  map.Set("dtype", std::move(dtype));
  map.Set("shape", std::move(shape));
  map.Set("var", var);
  if (!otherwise.empty()) map.Set("default", std::move(otherwise));
  return map;
}

std::string WriteExamples(const TempDir& dir, int count, Compression compression = Compression::kGzip) {
  const std::string path = dir.Path("examples");
  auto writer = TfRecordWriter::Create(path, compression);
  for (int64_t i = 0; i < count; ++i) {
    ExampleWriter example;
    const std::vector<int64_t> id = {i};
    const std::vector<int64_t> ids(static_cast<size_t>(i % 3), i);
    example.Ints("id", id).Ints("ids", ids);
    if (i % 2 == 0) example.Strings("name", std::vector<std::string>{"n" + std::to_string(i)});
    EXPECT_TRUE((*writer)->Write(example.Finish()).ok());
  }
  EXPECT_TRUE((*writer)->Close().ok());
  return path;
}

Plan Parsed(const Plan& input, bool with_name = false) {
  std::vector<AttrMap> features = {Feature("id", "int64", {}, false), Feature("ids", "int64", {}, true), Feature("size", "int64", {2}, false, {7})};
  if (with_name) features.push_back(Feature("name", "string", {}, false));
  return Over(input, "parse_example", {{"features", features}});
}

TEST(ParseExample, MakesFixedRaggedAndDefaultColumns) {
  TempDir dir;
  const Plan records = Records({WriteExamples(dir, 4)});
  EXPECT_THAT(ReadEpoch(*Compile(Parsed(records))), ElementsAre("[0][0:][7,7]", "[1][1:1][7,7]", "[2][2:2,2][7,7]", "[3][0:][7,7]"));
  const Plan ids = Over(Parsed(records), "project", {{"columns", std::vector<std::string>{"id"}}});
  EXPECT_THAT(ReadEpoch(*Compile(ids)), ElementsAre("0", "1", "2", "3"));
}

TEST(ParseExample, AfterTheLastBatchIsRowWise) {
  TempDir dir;
  const auto pipeline = Compile(Parsed(Over(Records({WriteExamples(dir, 4)}), "batch", {{"n", int64_t{2}}})));
  EXPECT_EQ(pipeline->layout().batch, 2U);
  EXPECT_EQ(ReadEpoch(*pipeline).size(), 4U);
}

TEST(ParseExample, OfBatchesInMidPlanMakesBatchesOfColumns) {
  TempDir dir;
  const Plan records = Records({WriteExamples(dir, 3)});
  const Plan ragged = Over(Parsed(Over(records, "batch", {{"n", int64_t{2}}})), "take", {{"count", int64_t{9}}});
  EXPECT_THAT(ReadEpoch(*Compile(ragged)), ElementsAre("[2:0,1][2:0,1:1][2:7,7,7,7]", "[1:2][1:2:2,2][1:7,7]"));
  const Plan fixed = Over(Parsed(Over(records, "batch", {{"n", int64_t{2}}, {"drop_remainder", true}})), "take", {{"count", int64_t{9}}});
  EXPECT_THAT(ReadEpoch(*Compile(fixed)), ElementsAre("[0,1][0,1:1][7,7,7,7]"));
}

TEST(ParseExample, BehindAShuffleGivesTheSameRows) {
  TempDir dir;
  const Plan records = Records({WriteExamples(dir, 50)});
  const Plan below = Over(Parsed(records), "shuffle", {{"buffer_size", int64_t{10}}});
  const Plan above = Parsed(Over(records, "shuffle", {{"buffer_size", int64_t{10}}}));
  EXPECT_EQ(Sorted(ReadEpoch(*Compile(below))), Sorted(ReadEpoch(*Compile(Parsed(records)))));
  EXPECT_EQ(Sorted(ReadEpoch(*Compile(above))), Sorted(ReadEpoch(*Compile(below))));
}

TEST(Errors, AMissingFeatureNamesFileOffsetAndRecord) {
  TempDir dir;
  const std::string path = WriteExamples(dir, 4);
  const Status status = ReadError(*Compile(Parsed(Records({path}), /*with_name=*/true)), 0);
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_THAT(status.message(), HasSubstr("name"));
  EXPECT_EQ(status.detail("file"), path);
  EXPECT_EQ(status.detail("record"), "1");
  EXPECT_NE(status.detail("offset"), "");
}

TEST(Errors, ABadRecordLeavesNoRowOfWhichOnlySomeColumnsAreThere) {
  TempDir dir;
  const Plan bad = Parsed(Records({WriteExamples(dir, 4)}), /*with_name=*/true);
  for (const Plan& plan : {Over(bad, "enumerate"), Over({bad, bad}, "zip")}) {
    std::vector<std::string> rows;
    EXPECT_EQ(ReadError(*Compile(plan), 0, &rows).code(), Code::kData);
    EXPECT_EQ(rows.size(), 1u) << "the first record is good";
  }
}

TEST(Errors, AChangedFileIsNamedWithWhatChanged) {
  TempDir dir;
  const auto files = WriteFiles(dir, 2, 5, Compression::kNone);
  const auto pipeline = Compile(Records(files));
  std::ofstream(files[1], std::ios::app) << "more";
  const Status status = ReadError(*pipeline, 1);
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_THAT(status.message(), HasSubstr(files[1]));
  EXPECT_EQ(status.detail("lane"), "1");
}

TEST(Errors, AMissingFileIsNamed) {
  TempDir dir;
  const auto files = WriteFiles(dir, 2, 5, Compression::kNone);
  const auto pipeline = Compile(Records(files));
  std::filesystem::remove(files[0]);
  EXPECT_THAT(ReadError(*pipeline, 0).message(), HasSubstr(files[0]));
  EXPECT_THAT(ListInputs(Records({dir.Path("nothing-*")})).status().message(), HasSubstr("nothing-*"));
}

TEST(Errors, ATruncatedGzipFileGivesItsRecordsThenAnErrorWithTheFile) {
  TempDir dir;
  const auto files = WriteFiles(dir, 1, 500, Compression::kGzip, 100);
  std::filesystem::resize_file(files[0], std::filesystem::file_size(files[0]) / 2);
  const Status status = ReadError(*Compile(Records(files)), 0);
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_EQ(status.detail("file"), files[0]);
}

TEST(Errors, ACrcMismatchNamesFileOffsetAndRecord) {
  TempDir dir;
  const auto files = WriteFiles(dir, 1, 10, Compression::kNone, 10);
  {
    std::fstream file(files[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(31 * 3 + 14);  // in the data of record 3: 12 bytes of header, 15 of data, 4 of CRC each
    file.put('\x7f');
  }
  const Status status = ReadError(*Compile(Records(files)), 0);
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_EQ(status.detail("file"), files[0]);
  EXPECT_EQ(status.detail("record"), "3");
  EXPECT_EQ(status.detail("offset"), "93");
}

}  // namespace
}  // namespace penstock::engine::testing
