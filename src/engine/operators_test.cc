// Each operator against what its users expect of it, without and with lanes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/testing.h"

namespace penstock::engine::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Texts(int64_t from, int64_t to, int64_t step = 1) {
  std::vector<std::string> rows;
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) rows.push_back(std::to_string(i));
  return rows;
}

std::vector<std::string> Read(const Plan& plan) { return ReadEpoch(*Compile(plan)); }

TEST(Range, CountsUpAndDown) {
  EXPECT_EQ(Read(Source("range", {{"start", int64_t{-3}}, {"stop", int64_t{200}}, {"step", int64_t{7}}})), Texts(-3, 200, 7));
  EXPECT_EQ(Read(Source("range", {{"start", int64_t{5}}, {"stop", int64_t{-5}}, {"step", int64_t{-2}}})), Texts(5, -5, -2));
  EXPECT_THAT(Read(Source("range", {{"start", int64_t{5}}, {"stop", int64_t{5}}})), IsEmpty());
}

TEST(Range, OfAHundredRowsHasSeveralLanes) { EXPECT_EQ(Compile(Numbers(100))->layout().lanes, 7U); }

AttrMap ArrayColumnAttr(std::string name, std::string dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  AttrMap map;
  map.Set("name", std::move(name));
  map.Set("dtype", std::move(dtype));
  map.Set("shape", std::move(shape));
  map.Set("values", std::make_shared<const std::string>(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)));
  return map;
}

Plan PairsOfArrays() {  // a: [2] dense, b: ragged
  AttrMap ragged = ArrayColumnAttr("b", "int64", {kRagged}, {1, 2, 2, 3});
  const std::vector<int64_t> offsets = {0, 1, 1, 4};
  AttrMap level;
  level.Set("bytes", std::make_shared<const std::string>(reinterpret_cast<const char*>(offsets.data()), offsets.size() * sizeof(int64_t)));
  ragged.Set("offsets", std::vector<AttrMap>{level});
  return Source("arrays", {{"rows", int64_t{3}}, {"columns", std::vector<AttrMap>{ArrayColumnAttr("a", "int64", {2}, {1, 2, 3, 4, 5, 6}), ragged}}});
}

TEST(Arrays, GiveRowsWithFixedAndRaggedColumns) { EXPECT_THAT(Read(PairsOfArrays()), ElementsAre("[1,2][1:1]", "[3,4][0:]", "[5,6][3:2,2,3]")); }

TEST(Arrays, WhoseOffsetsDoNotFitAreRefusedByName) {
  AttrMap column = ArrayColumnAttr("ids", "int64", {2}, {1, 2, 3});
  const auto facts = CheckPlan(Source("arrays", {{"rows", int64_t{2}}, {"columns", std::vector<AttrMap>{column}}}));
  ASSERT_FALSE(facts.ok());
  EXPECT_THAT(facts.status().message(), HasSubstr("'ids'"));
}

TEST(Arrays, OfMoreValuesThanCanBeCountedAreRefused) {
  const auto refused = [](std::vector<int64_t> shape, std::string dtype) {
    const AttrMap column = ArrayColumnAttr("ids", std::move(dtype), std::move(shape), {});
    return CheckPlan(Source("arrays", {{"rows", int64_t{1} << 42}, {"columns", std::vector<AttrMap>{column}}})).status();
  };
  EXPECT_THAT(refused({int64_t{1} << 22}, "uint8").message(), HasSubstr("'ids' would hold more values"));
  EXPECT_EQ(refused({int64_t{1} << 22}, "uint8").code(), Code::kInvalid);
}

TEST(Project, KeepsTheNamedColumns) {
  EXPECT_THAT(Read(Over(PairsOfArrays(), "project", {{"columns", std::vector<std::string>{"b"}}})), ElementsAre("1:1", "0:", "3:2,2,3"));
  const auto unknown = CheckPlan(Over(PairsOfArrays(), "project", {{"columns", std::vector<std::string>{"c"}}}));
  EXPECT_THAT(unknown.status().message(), HasSubstr("'c'"));
}

TEST(Take, GivesTenRowsHoweverManyLanesThereAre) {
  EXPECT_EQ(Read(Over(Numbers(1000), "take", {{"count", int64_t{10}}})), Texts(0, 10));
  EXPECT_EQ(Read(Over(Numbers(5), "take", {{"count", int64_t{10}}})), Texts(0, 5));
  EXPECT_EQ(Read(Over(Numbers(5), "take", {{"count", int64_t{-1}}})), Texts(0, 5));
}

TEST(Skip, LeavesOutTheFirstRows) {
  EXPECT_EQ(Read(Over(Numbers(1000), "skip", {{"count", int64_t{990}}})), Texts(990, 1000));
  EXPECT_THAT(Read(Over(Numbers(10), "skip", {{"count", int64_t{10}}})), IsEmpty());
}

TEST(Shard, TakesEveryNthRow) {
  EXPECT_EQ(Read(Over(Numbers(100), "shard", {{"num", int64_t{7}}, {"index", int64_t{3}}})), Texts(3, 100, 7));
  EXPECT_FALSE(CheckPlan(Over(Numbers(100), "shard", {{"num", int64_t{7}}, {"index", int64_t{7}}})).ok());
}

TEST(Enumerate, NumbersRowsAcrossLanes) {
  const auto rows = Read(Over(Source("range", {{"start", int64_t{100}}, {"stop", int64_t{160}}}), "enumerate"));
  ASSERT_EQ(rows.size(), 60U);
  EXPECT_EQ(rows[0], "[0][100]");
  EXPECT_EQ(rows[59], "[59][159]");
}

TEST(Zip, IsAsLongAsTheShortestInput) {
  const auto rows = Read(Over({Numbers(40), Over(Numbers(3), "repeat")}, "zip"));
  ASSERT_EQ(rows.size(), 40U);
  EXPECT_EQ(rows[39], "[39][0]");
}

TEST(Concatenate, KeepsTheOrder) {
  const Plan tail = Source("range", {{"start", int64_t{50}}, {"stop", int64_t{90}}});
  EXPECT_EQ(Read(Over({Numbers(50), tail}, "concatenate")), Texts(0, 90));
  EXPECT_THAT(CheckPlan(Over({Numbers(5), PairsOfArrays()}, "concatenate")).status().message(), HasSubstr("different specs"));
}

TEST(Repeat, AtTheRootIsPassesOfTheEpoch) {
  const auto pipeline = Compile(Over(Numbers(20), "repeat", {{"count", int64_t{3}}}));
  EXPECT_EQ(pipeline->layout().lanes, 6U);
  std::vector<std::string> wanted;
  for (int pass = 0; pass < 3; ++pass) {
    for (const std::string& row : Texts(0, 20)) wanted.push_back(row);
  }
  EXPECT_EQ(ReadEpoch(*pipeline), wanted);
}

TEST(Repeat, WithoutEndHasLanesWithoutEnd) {
  const auto pipeline = Compile(Over(Numbers(20), "repeat"));
  EXPECT_EQ(pipeline->layout().lanes, kEndlessLanes);
  EXPECT_EQ(ReadLane(*pipeline, 2'000'000), Texts(0, 16));
  EXPECT_EQ(ReadLane(*pipeline, 2'000'001), Texts(16, 20));
}

TEST(Repeat, GivesEachPassAnOrderOfItsOwn) {
  const auto pipeline = Compile(Over(Over(Numbers(64), "shuffle", {{"buffer_size", int64_t{64}}}), "repeat", {{"count", int64_t{2}}}));
  const auto rows = ReadEpoch(*pipeline);
  ASSERT_EQ(rows.size(), 128U);
  const std::vector<std::string> first(rows.begin(), rows.begin() + 64);
  const std::vector<std::string> second(rows.begin() + 64, rows.end());
  EXPECT_EQ(Sorted(first), Sorted(second));
  EXPECT_NE(first, second);
}

TEST(Repeat, OfMorePassesThanCanBeCountedIsWithoutEnd) {
  const Plan twice = Over(Over(Numbers(3), "repeat", {{"count", int64_t{1} << 32}}), "repeat", {{"count", int64_t{1} << 32}});
  EXPECT_EQ(CheckPlan(twice)->cardinality, -2);
  EXPECT_EQ(Compile(twice)->layout().lanes, kEndlessLanes);
}

TEST(Repeat, OfNothingIsNothing) {
  EXPECT_EQ(Compile(Over(Numbers(0), "repeat"))->layout().lanes, 0U);
  TempDir dir;
  const auto files = WriteFiles(dir, 1, 0, Compression::kNone);
  EXPECT_THAT(Read(Over(Over(Records(files), "repeat"), "take", {{"count", int64_t{5}}})), IsEmpty());
}

TEST(Repeat, WithoutEndOfFilesWithoutAByteIsNothing) {
  TempDir dir;
  const auto files = WriteFiles(dir, 2, 0, Compression::kNone);
  EXPECT_EQ(Compile(Over(Records(files), "repeat"))->layout().lanes, 0U);
  TempDir other;
  const Plan some = Over({Records(files), Records(WriteFiles(other, 1, 1, Compression::kNone))}, "concatenate");
  EXPECT_EQ(Compile(Over(some, "repeat"))->layout().lanes, kEndlessLanes);
}

TEST(Batch, ThatIsTheLastIsLiftedOutOfThePlan) {
  const auto pipeline =
      Compile(Over(Over(Over(PairsOfArrays(), "batch", {{"n", int64_t{2}}}), "project", {{"columns", std::vector<std::string>{"a"}}}), "prefetch"));
  EXPECT_EQ(pipeline->layout().batch, 2U);
  EXPECT_THAT(ReadEpoch(*pipeline), ElementsAre("1,2", "3,4", "5,6"));
  const auto facts = CheckPlan(Over(Numbers(10), "batch", {{"n", int64_t{4}}}));
  EXPECT_EQ(facts->cardinality, 3);
  EXPECT_EQ(ToString(facts->element_spec), ToString(LeafSpec(DType::kInt64, {kRagged})));
}

TEST(Batch, InMidPlanMakesARowOfRows) {
  const Plan batched = Over(Numbers(10), "batch", {{"n", int64_t{4}}});
  EXPECT_THAT(Read(Over(batched, "take", {{"count", int64_t{5}}})), ElementsAre("4:0,1,2,3", "4:4,5,6,7", "2:8,9"));
  EXPECT_THAT(Read(Over(Over(Numbers(10), "batch", {{"n", int64_t{4}}, {"drop_remainder", true}}), "take", {{"count", int64_t{5}}})),
              ElementsAre("0,1,2,3", "4,5,6,7"));
  EXPECT_THAT(Read(Over(Over(batched, "batch", {{"n", int64_t{2}}}), "take", {{"count", int64_t{2}}})),
              ElementsAre("2:4,4:0,1,2,3,4,5,6,7", "1:2:8,9"));
}

TEST(PaddedBatch, InMidPlanFillsRaggedDimensions) {
  const Plan padded = Over(Over(PairsOfArrays(), "padded_batch", {{"n", int64_t{2}}}), "take", {{"count", int64_t{2}}});
  EXPECT_THAT(Read(padded), ElementsAre("[2:1,2,3,4][2:1,1:1,0]", "[1:5,6][1:3:2,2,3]"));
}

TEST(Shuffle, OfCountedRowsIsAPermutationOverAllLanesThatChangesWithEpochSeedAndReplica) {
  const Plan plan = Over(Numbers(1000), "shuffle", {{"buffer_size", int64_t{10}}});
  const auto pipeline = Compile(plan);
  const auto rows = ReadEpoch(*pipeline);
  EXPECT_EQ(Sorted(rows), Sorted(Texts(0, 1000)));
  EXPECT_EQ(ReadEpoch(*pipeline), rows);
  EXPECT_NE(ReadEpoch(*pipeline, {.epoch = 1}), rows);
  EXPECT_NE(ReadEpoch(*pipeline, {.replica = 1}), rows);
  EXPECT_NE(ReadEpoch(*Compile(plan, 8)), rows);
}

TEST(Shuffle, WithTheSameSeedGivesTheSameOrder) {
  const Plan a = Over(Numbers(300), "shuffle", {{"buffer_size", int64_t{10}}, {"seed", int64_t{5}}});
  for (const std::string& row : Read(Over({a, a}, "zip"))) {
    const size_t middle = row.find("][");
    EXPECT_EQ(row.substr(1, middle - 1), row.substr(middle + 2, row.size() - middle - 3));
  }
}

TEST(TfRecord, IsReadInTheOrderOfFiles) {
  TempDir dir;
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    const auto files = WriteFiles(dir, 5, 20, compression);
    const auto pipeline = Compile(Records(files));
    EXPECT_EQ(pipeline->layout().lanes, 5U);
    const auto rows = ReadEpoch(*pipeline);
    ASSERT_EQ(rows.size(), 100U);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(rows[i], "f" + std::to_string(i / 20) + "r" + std::to_string(i % 20));
  }
}

TEST(TfRecord, PlainFilesAreCutAndLoseNothing) {
  TempDir dir;
  const auto files = WriteFiles(dir, 2, 1500, Compression::kNone, 2000);
  const auto pipeline = Compile(Records(files));
  EXPECT_GE(pipeline->layout().lanes, 4U);
  const auto rows = ReadEpoch(*pipeline);
  ASSERT_EQ(rows.size(), 3000U);
  for (int i = 0; i < 3000; ++i) EXPECT_EQ(NameOf(rows[i]), "f" + std::to_string(i / 1500) + "r" + std::to_string(i % 1500));
}

TEST(Interleave, TakesFilesInTurn) {
  TempDir dir;
  const auto files = WriteFiles(dir, 3, 2, Compression::kGzip);
  const Plan serial = Over(Over(Records(files), "interleave", {{"cycle_length", int64_t{2}}}), "take", {{"count", int64_t{100}}});
  EXPECT_THAT(Read(serial), ElementsAre("f0r0", "f1r0", "f0r1", "f1r1", "f2r0", "f2r1"));
  EXPECT_EQ(Sorted(Read(Over(Records(files), "interleave"))), Sorted(Read(Records(files))));
}

TEST(CountOperators, OverRecordsAreSerialAndExact) {
  TempDir dir;
  const auto files = WriteFiles(dir, 4, 10, Compression::kGzip);
  const auto taken = Compile(Over(Records(files), "take", {{"count", int64_t{13}}}));
  EXPECT_TRUE(taken->layout().serial);
  EXPECT_EQ(taken->layout().lanes, 1U);
  EXPECT_THAT(taken->explain(), HasSubstr("serial: take counts rows"));
  const auto all = Read(Records(files));
  EXPECT_EQ(ReadEpoch(*taken), std::vector<std::string>(all.begin(), all.begin() + 13));
  const auto zipped = Read(Over({Numbers(100), Over(Records(files), "skip", {{"count", int64_t{38}}})}, "zip"));
  EXPECT_THAT(zipped, ElementsAre("[0][f3r8]", "[1][f3r9]"));
  const auto sharded = Read(Over(Records(files), "shard", {{"num", int64_t{10}}, {"index", int64_t{9}}}));
  EXPECT_THAT(sharded, ElementsAre("f0r9", "f1r9", "f2r9", "f3r9"));
  EXPECT_EQ(Read(Over(Over(Records(files), "repeat", {{"count", int64_t{2}}}), "enumerate")).back(), "[79][f3r9]");
}

TEST(Plans, ThatAreWrongAreRefusedByName) {
  EXPECT_THAT(CheckPlan(Source("rnage", {})).status().message(), HasSubstr("rnage: no such operator"));
  EXPECT_THAT(CheckPlan(Over(Numbers(3), "batch", {{"n", int64_t{0}}})).status().message(), HasSubstr("'n'"));
  EXPECT_THAT(CheckPlan(Over(Numbers(3), "batch", {{"n", int64_t{1}}, {"drop", true}})).status().message(), HasSubstr("drop"));
  EXPECT_THAT(CheckPlan(Over({Numbers(3)}, "zip")).status().message(), HasSubstr("takes 2"));
  EXPECT_FALSE(CheckPlan(Plan{}).ok());
}

}  // namespace
}  // namespace penstock::engine::testing
