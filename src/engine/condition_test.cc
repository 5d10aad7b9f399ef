// Conditions against what they say in words, and the rows that `where` keeps by them.
#include "engine/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/testing.h"

namespace penstock::engine::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

AttrMap Step(std::string op) {
  AttrMap step;
  step.Set("op", std::move(op));
  return step;
}
AttrMap Step(std::string op, const char* name, AttrValue value) {
  AttrMap step = Step(std::move(op));
  step.Set(name, std::move(value));
  return step;
}
AttrMap TheValue() { return Step("column", "name", std::string()); }
AttrMap Whole(int64_t value) { return Step("int", "value", value); }

Plan Where(const Plan& input, std::vector<AttrMap> condition) { return Over(input, "where", {{"condition", std::move(condition)}}); }

std::vector<std::string> Kept(const Plan& plan) { return ReadEpoch(*Compile(plan)); }

std::string Refusal(std::vector<AttrMap> condition) { return CheckPlan(Where(Numbers(10), std::move(condition))).status().message(); }

TEST(Where, KeepsTheRowsForWhichTheConditionHolds) {
  const Plan numbers = Numbers(10);
  EXPECT_THAT(Kept(Where(numbers, {TheValue(), Whole(7), Step("greater")})), ElementsAre("8", "9"));
  EXPECT_THAT(Kept(Where(numbers, {TheValue(), Whole(7), Step("greater_equal")})), ElementsAre("7", "8", "9"));
  EXPECT_THAT(Kept(Where(numbers, {TheValue(), Whole(2), Step("less")})), ElementsAre("0", "1"));
  EXPECT_THAT(Kept(Where(numbers, {TheValue(), Whole(1), Step("less_equal")})), ElementsAre("0", "1"));
  EXPECT_THAT(Kept(Where(numbers, {TheValue(), Whole(4), Step("equal")})), ElementsAre("4"));
  EXPECT_THAT(Kept(Where(Numbers(3), {TheValue(), Whole(1), Step("not_equal")})), ElementsAre("0", "2"));
  EXPECT_THAT(Kept(Where(numbers, {TheValue(), Step("in", "ints", std::vector<int64_t>{8, 3, 11})})), ElementsAre("3", "8"));
  EXPECT_THAT(Kept(Where(numbers, {Step("bool", "value", false)})), IsEmpty());
}

TEST(Where, JoinsConditions) {
  const std::vector<AttrMap> small = {TheValue(), Whole(2), Step("less")};
  std::vector<AttrMap> small_or_nine = small;
  for (const AttrMap& step : {TheValue(), Whole(9), Step("equal"), Step("or")}) small_or_nine.push_back(step);
  EXPECT_THAT(Kept(Where(Numbers(10), small_or_nine)), ElementsAre("0", "1", "9"));
  std::vector<AttrMap> small_and_not_zero = small;
  for (const AttrMap& step : {TheValue(), Whole(0), Step("equal"), Step("not"), Step("and")}) small_and_not_zero.push_back(step);
  EXPECT_THAT(Kept(Where(Numbers(10), small_and_not_zero)), ElementsAre("1"));
}

TEST(Where, LooksAtStrings) {
  const TempDir dir;
  const Plan records = Records(WriteFiles(dir, 1, 4, Compression::kGzip));
  EXPECT_THAT(Kept(Where(records, {TheValue(), Step("text", "value", std::string("f0r2")), Step("greater_equal")})), ElementsAre("f0r2", "f0r3"));
  EXPECT_THAT(Kept(Where(records, {TheValue(), Step("in", "texts", std::vector<std::string>{"f0r3", "f0r0"})})), ElementsAre("f0r0", "f0r3"));
}

TEST(Where, DrawsTheSameForARowHoweverItIsRead) {
  const auto pipeline = Compile(Where(Numbers(2000), {Step("random"), Step("float", "value", 0.25), Step("less")}));
  const std::vector<std::string> rows = ReadEpoch(*pipeline);
  EXPECT_GT(rows.size(), 400U);
  EXPECT_LT(rows.size(), 600U);
  EXPECT_EQ(ReadEpoch(*pipeline, {.block_target = 1}), rows);
  EXPECT_NE(ReadEpoch(*pipeline, {.epoch = 1}), rows);
  const std::vector<std::string> lane = ReadLane(*pipeline, 0);
  ASSERT_GT(lane.size(), 2U);
  EXPECT_EQ(ReadLane(*pipeline, 0, {.from = 2}), std::vector<std::string>(lane.begin() + 2, lane.end()));
}

TEST(Where, DrawsAnewForEachMentionAndEachPass) {
  const std::vector<AttrMap> half = {Step("random"), Step("float", "value", 0.5), Step("less")};
  std::vector<AttrMap> quarter = half;
  for (const AttrMap& step : half) quarter.push_back(step);
  quarter.push_back(Step("and"));
  const size_t kept = Kept(Where(Numbers(4000), quarter)).size();
  EXPECT_GT(kept, 800U);
  EXPECT_LT(kept, 1200U);
  const auto passes = Compile(Over(Where(Numbers(16), half), "repeat", {{"count", int64_t{2}}}));
  ASSERT_EQ(passes->layout().lanes, 2U);
  EXPECT_NE(ReadLane(*passes, 0), ReadLane(*passes, 1));
}

TEST(Where, IsCountedByTakeAndSkip) {
  const Plan odd_ones = Where(Numbers(100), {TheValue(), Whole(89), Step("greater")});
  EXPECT_THAT(Kept(Over(odd_ones, "take", {{"count", int64_t{2}}})), ElementsAre("90", "91"));
  EXPECT_THAT(Kept(Over(odd_ones, "skip", {{"count", int64_t{8}}})), ElementsAre("98", "99"));
}

TEST(Where, TellsWhereARecordIsThatCannotBeParsed) {
  const TempDir dir;
  AttrMap feature;
  feature.Set("name", std::string("x"));
  feature.Set("dtype", std::string("int64"));
  feature.Set("default", std::vector<int64_t>{1});
  // No record of these is a tf.Example.
  const Plan parsed = Over(Records(WriteFiles(dir, 1, 3, Compression::kNone)), "parse_example", {{"features", std::vector<AttrMap>{feature}}});
  std::vector<std::string> before;
  const Status status = ReadError(*Compile(Where(parsed, {Step("column", "name", std::string("x")), Whole(0), Step("greater")})), 0, &before);
  EXPECT_THAT(before, IsEmpty());
  EXPECT_THAT(status.message(), HasSubstr("at offset 0"));
}

TEST(Condition, IsRefusedWithTheStepThatIsWrong) {
  EXPECT_THAT(Refusal({Step("column", "name", std::string("label")), Whole(1), Step("less")}), HasSubstr("there is no column 'label'"));
  EXPECT_THAT(Refusal({TheValue(), Step("text", "value", std::string("a")), Step("less")}), HasSubstr("differs in kind"));
  EXPECT_THAT(Refusal({TheValue()}), HasSubstr("one truth"));
  EXPECT_THAT(Refusal({}), HasSubstr("one truth"));
  EXPECT_THAT(Refusal({TheValue(), Step("less")}), HasSubstr("step 2, less, has too little before it"));
  EXPECT_THAT(Refusal({TheValue(), Step("not")}), HasSubstr("no truth"));
  EXPECT_THAT(Refusal({Step("bool", "value", true), Step("bool", "value", true), Step("less")}), HasSubstr("no order"));
  EXPECT_THAT(Refusal({Step("near")}), HasSubstr("'near'"));
  EXPECT_THAT(Refusal({Step("random", "seed", int64_t{1})}), HasSubstr("seed"));
}

TEST(Condition, IsOnRowsNotOnBatchesOfThem) {
  const Plan batches = Over(Numbers(10), "batch", {{"n", int64_t{2}}});
  EXPECT_THAT(CheckPlan(Where(batches, {TheValue(), Whole(1), Step("less")})).status().message(), HasSubstr("filter before batch"));
}

Plan Column(std::string dtype, std::string values, int64_t rows) {
  AttrMap column;
  column.Set("name", std::string());
  column.Set("dtype", std::move(dtype));
  column.Set("shape", std::vector<int64_t>{});
  column.Set("values", std::make_shared<const std::string>(std::move(values)));
  return Source("arrays", {{"rows", rows}, {"columns", std::vector<AttrMap>{column}}});
}

template <class T>
Plan Column(std::string dtype, const std::vector<T>& values) {
  return Column(std::move(dtype), std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)),
                static_cast<int64_t>(values.size()));
}

TEST(Condition, ComparesNumbersExactly) {
  constexpr int64_t kBig = (int64_t{1} << 53) + 1;  // no double
  EXPECT_EQ(Kept(Where(Column<int64_t>("int64", {kBig - 1, kBig}), {TheValue(), Whole(kBig), Step("equal")})).size(), 1U);
  EXPECT_EQ(Kept(Where(Column<uint64_t>("uint64", {~uint64_t{0}, 1}), {TheValue(), Whole(5), Step("greater")})).size(), 1U);
  EXPECT_EQ(Kept(Where(Column<float>("float32", {0.1F, 0.2F}), {TheValue(), Step("float", "value", 0.1), Step("equal")})).size(), 1U);
  EXPECT_EQ(Kept(Where(Column<float>("float32", {0.1F, 0.2F}), {TheValue(), Step("in", "floats", std::vector<double>{0.1})})).size(), 1U);
  EXPECT_EQ(Kept(Where(Column<int8_t>("int8", {-3, 3}), {TheValue(), Whole(0), Step("less")})).size(), 1U);
  EXPECT_EQ(Kept(Where(Column<uint8_t>("bool", {0, 1, 1}), {TheValue(), Step("bool", "value", true), Step("equal")})).size(), 2U);
}

}  // namespace
}  // namespace penstock::engine::testing
