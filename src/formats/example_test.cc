#include "formats/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "formats/example_writer.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

template <class T>
std::vector<T> As(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
std::string Text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// The columns of some records, or why not.
Result<Columns> Parse(std::vector<FeatureSpec> features, const Strings& records) {
  PENSTOCK_ASSIGN(ExampleParser parser, ExampleParser::Create(std::move(features)));
  Columns columns(parser.spec());
  const std::vector<std::string_view> views(records.begin(), records.end());
  PENSTOCK_TRY(parser.Parse(views, columns));
  return columns;
}

FeatureSpec Feature(std::string name, DType dtype, std::vector<int64_t> shape, std::optional<FeatureDefault> otherwise = {}) {
  return {std::move(name), dtype, std::move(shape), std::move(otherwise)};
}

TEST(Example, ParsesEveryKindStraightIntoColumns) {
  const std::string record = ExampleWriter().Floats("f", Floats{1.5, 2}).Ints("i", Ints{-1, 300}).Strings("s", Strings{"ab"}).Finish();
  const auto columns =
      Parse({Feature("f", DType::kFloat32, {2}), Feature("i", DType::kInt64, {kRagged}), Feature("s", DType::kString, {})}, {record, record});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ(columns->rows(), 2u);
  EXPECT_THAT(As<float>((*columns)[0].buffer(0)), ElementsAre(1.5, 2, 1.5, 2));
  EXPECT_THAT(As<int64_t>((*columns)[1].buffer(0)), ElementsAre(0, 2, 4));
  EXPECT_THAT(As<int64_t>((*columns)[1].buffer(1)), ElementsAre(-1, 300, -1, 300));
  EXPECT_EQ(Text((*columns)[2].buffer(1)), "abab");
  EXPECT_EQ(ToString(columns->spec()), "{f: float32[2], i: int64[ragged], s: string[]}");
}

TEST(Example, ReadsExtremeIntegers) {
  const Ints values = {0, 127, 128, -1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  const auto columns = Parse({Feature("i", DType::kInt64, {6})}, {ExampleWriter().Ints("i", values).Finish()});
  EXPECT_EQ(As<int64_t>((*columns)[0].buffer(0)), values);
}

TEST(Example, ReadsIntegersOfEveryLengthBesideEachOther) {
  Ints values;
  for (int bits = 0; bits < 64; ++bits) {
    for (const int64_t value : {static_cast<int64_t>(uint64_t{1} << bits), static_cast<int64_t>((uint64_t{1} << bits) - 1), int64_t{5}})
      values.push_back(value);
  }
  for (size_t count = 1; count <= values.size(); ++count) {
    const Ints some(values.begin(), values.begin() + static_cast<ptrdiff_t>(count));
    const auto columns = Parse({Feature("i", DType::kInt64, {static_cast<int64_t>(count)})}, {ExampleWriter().Ints("i", some).Finish()});
    ASSERT_TRUE(columns.ok());
    ASSERT_EQ(As<int64_t>((*columns)[0].buffer(0)), some);
  }
}

TEST(Example, RaggedFeaturesAreEmptyWhereTheyAreMissing) {
  const auto columns = Parse({Feature("i", DType::kInt64, {kRagged}), Feature("s", DType::kString, {kRagged})},
                             {ExampleWriter().Ints("i", Ints{7}).Finish(), ExampleWriter().Strings("s", Strings{"a", "", "bc"}).Finish(), ""});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_THAT(As<int64_t>((*columns)[0].buffer(0)), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(As<int64_t>((*columns)[1].buffer(0)), ElementsAre(0, 0, 3, 3));
  EXPECT_THAT(As<int64_t>((*columns)[1].buffer(1)), ElementsAre(0, 1, 1, 3));
  EXPECT_EQ(Text((*columns)[1].buffer(2)), "abc");
}

TEST(Example, RaggedRowsOfFixedLengthCountEntries) {
  const auto columns = Parse({Feature("f", DType::kFloat32, {kRagged, 2})}, {ExampleWriter().Floats("f", Floats{1, 2, 3, 4}).Finish()});
  EXPECT_THAT(As<int64_t>((*columns)[0].buffer(0)), ElementsAre(0, 2));
  EXPECT_THAT(Parse({Feature("f", DType::kFloat32, {kRagged, 2})}, {ExampleWriter().Floats("f", Floats{1, 2, 3}).Finish()}).status().message(),
              HasSubstr("has 3 values, expected a multiple of 2"));
}

TEST(Example, DefaultsFillWhatIsMissing) {
  const auto columns = Parse({Feature("f", DType::kFloat32, {3}, Floats{0.5}), Feature("i", DType::kInt64, {2}, Ints{1, 2}),
                              Feature("s", DType::kString, {2}, Strings{"x"})},
                             {""});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_THAT(As<float>((*columns)[0].buffer(0)), ElementsAre(0.5, 0.5, 0.5));
  EXPECT_THAT(As<int64_t>((*columns)[1].buffer(0)), ElementsAre(1, 2));
  EXPECT_EQ(Text((*columns)[2].buffer(1)), "xx");
}

TEST(Example, AFeatureWithoutAListCountsAsMissing) {
  const auto columns = Parse({Feature("i", DType::kInt64, {}, Ints{9})}, {ExampleWriter().Entry("i", "").Finish()});
  EXPECT_THAT(As<int64_t>((*columns)[0].buffer(0)), ElementsAre(9));
}

TEST(Example, OfANameThatComesTwiceTheLastCounts) {
  const auto columns =
      Parse({Feature("i", DType::kInt64, {})}, {ExampleWriter().Floats("i", Floats{1, 2}).Ints("i", Ints{1}).Ints("i", Ints{2}).Finish()});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_THAT(As<int64_t>((*columns)[0].buffer(0)), ElementsAre(2));
}

TEST(Example, ReadsUnpackedAndMixedLists) {
  std::string ints("\x08\x05\x08\x80\x01\x0a\x02\x07\x08", 9);             // 5, 128 alone, then 7, 8 packed
  std::string floats("\x0d\x00\x00\x80\x3f\x0a\x04\x00\x00\x00\x40", 11);  // 1 alone, then 2 packed
  const auto columns = Parse({Feature("i", DType::kInt64, {4}), Feature("f", DType::kFloat32, {2})},
                             {ExampleWriter().Feature("i", 3, ints).Feature("f", 2, floats).Finish()});
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_THAT(As<int64_t>((*columns)[0].buffer(0)), ElementsAre(5, 128, 7, 8));
  EXPECT_THAT(As<float>((*columns)[1].buffer(0)), ElementsAre(1, 2));
}

TEST(Example, FeaturesMayComeInAnyOrderAndWithOthersBetween) {
  const std::string one = ExampleWriter().Ints("a", Ints{1}).Ints("other", Ints{0}).Ints("b", Ints{2}).Finish();
  const std::string two = ExampleWriter().Ints("b", Ints{4}).Ints("a", Ints{3}).Finish();
  const auto columns = Parse({Feature("a", DType::kInt64, {}), Feature("b", DType::kInt64, {})}, {one, two, one, two});
  EXPECT_THAT(As<int64_t>((*columns)[0].buffer(0)), ElementsAre(1, 3, 1, 3));
  EXPECT_THAT(As<int64_t>((*columns)[1].buffer(0)), ElementsAre(2, 4, 2, 4));
}

TEST(Example, AMissingFeatureIsNamedWithWhatWasExpected) {
  const Status status = Parse({Feature("image", DType::kFloat32, {2, 3})}, {""}).status();
  EXPECT_EQ(status.code(), Code::kData);
  EXPECT_THAT(status.message(), HasSubstr("feature 'image' is missing in the record, expected float32[2, 3]; give it a default"));
  EXPECT_EQ(status.detail("feature"), "image");
  EXPECT_EQ(status.detail("row"), "0");
}

TEST(Example, AWrongDTypeIsNamedWithBoth) {
  const Status status = Parse({Feature("f", DType::kFloat32, {1})}, {ExampleWriter().Ints("f", Ints{1}).Finish()}).status();
  EXPECT_EQ(status.message(), "feature 'f' has int64 values, expected float32[1]");
  EXPECT_EQ(status.detail("expected"), "float32[1]");
  EXPECT_EQ(status.detail("found"), "int64");
}

TEST(Example, AWrongLengthIsNamedWithBoth) {
  const Status status = Parse({Feature("f", DType::kFloat32, {2, 2})}, {ExampleWriter().Floats("f", Floats{1, 2, 3}).Finish()}).status();
  EXPECT_EQ(status.message(), "feature 'f' has 3 values, expected 4 (float32[2, 2])");
}

TEST(Example, ARowOfManyValuesTakesNoMemoryBeforeTheRecordHasThem) {
  auto parser = ExampleParser::Create({Feature("f", DType::kFloat32, {1LL << 30})});
  ASSERT_TRUE(parser.ok()) << parser.status();
  Columns columns(parser->spec());
  const std::string record = ExampleWriter().Floats("f", Floats{1, 2, 3}).Finish();
  const std::string_view view = record;
  EXPECT_THAT(parser->Parse({&view, 1}, columns).message(), HasSubstr("has 3 values, expected 1073741824"));
  EXPECT_EQ(columns.capacity(), 0U);
}

TEST(Example, TheRowsBeforeABadRecordAreKept) {
  auto parser = ExampleParser::Create({Feature("s", DType::kString, {}), Feature("i", DType::kInt64, {})});
  Columns columns(parser->spec());
  const std::string good = ExampleWriter().Strings("s", Strings{"a"}).Ints("i", Ints{1}).Finish();
  const std::string bad = ExampleWriter().Strings("s", Strings{"lost"}).Finish();
  const Status status = parser->Parse(std::vector<std::string_view>{good, bad, good}, columns);
  EXPECT_EQ(status.detail("row"), "1");
  EXPECT_EQ(columns.rows(), 1u);
  EXPECT_EQ(Text(columns[0].buffer(1)), "a");
  EXPECT_TRUE(parser->Parse(std::vector<std::string_view>{good}, columns).ok());
  EXPECT_EQ(Text(columns[0].buffer(1)), "aa");
}

TEST(Example, DamagedBytesAreAnErrorOrAnotherRowButNeverWorse) {
  const std::string good = ExampleWriter().Ints("i", Ints{1, 300}).Strings("s", Strings{"abc"}).Floats("f", Floats{1, 2}).Finish();
  auto parser = ExampleParser::Create(
      {Feature("i", DType::kInt64, {kRagged}), Feature("s", DType::kString, {kRagged}), Feature("f", DType::kFloat32, {kRagged})});
  Columns columns(parser->spec());
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      columns.Clear();
      const bool parsed = parser->Parse(std::vector<std::string_view>{bad}, columns).ok();
      EXPECT_EQ(columns.rows(), parsed ? 1u : 0u);
    }
  }
  EXPECT_THAT(Parse({Feature("i", DType::kInt64, {})}, {"\x0a\xff"}).status().message(), HasSubstr("a record of 2 bytes is not a tf.Example"));
}

TEST(Example, ASpecThatCannotBeIsRefused) {
  const auto refuse = [](FeatureSpec feature) { return ExampleParser::Create({std::move(feature)}).status().message(); };
  EXPECT_THAT(refuse(Feature("x", DType::kInt32, {})), HasSubstr("'x' cannot be int32: a tf.Example holds"));
  EXPECT_THAT(refuse(Feature("x", DType::kInt64, {2, kRagged})), HasSubstr("only the first dimension can be ragged"));
  EXPECT_THAT(refuse(Feature("x", DType::kInt64, {kRagged}, Ints{1})), HasSubstr("takes no default"));
  EXPECT_THAT(refuse(Feature("x", DType::kInt64, {3}, Ints{1, 2})), HasSubstr("has 2 values; its shape int64[3] takes 3"));
  EXPECT_THAT(refuse(Feature("x", DType::kInt64, {}, Floats{1})), HasSubstr("not of its dtype"));
  EXPECT_THAT(ExampleParser::Create({Feature("x", DType::kInt64, {}), Feature("x", DType::kInt64, {})}).status().message(),
              HasSubstr("'x' stands twice"));
  EXPECT_FALSE(ExampleParser::Create({}).ok());
}

}  // namespace
}  // namespace penstock
