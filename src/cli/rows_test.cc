#include "cli/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cli/features.h"
#include "cli/text_table.h"

namespace penstock::cli {
namespace {

using testing::HasSubstr;

template <class T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Rows, ARowIsWrittenInTheShapeOfItsSpec) {
  const auto spec = std::make_shared<Spec>(DictSpec({{.name = "id", .dtype = DType::kInt64, .shape = {}},
                                                     {.name = "x", .dtype = DType::kFloat32, .shape = {2}},
                                                     {.name = "words", .dtype = DType::kString, .shape = {kRagged}}}));
  const std::vector<int64_t> ids{7, 8};
  const std::vector<float> x{0.5F, 1.5F, 2.5F, 3.5F};
  const std::vector<int64_t> words{0, 1, 3};
  const std::vector<int64_t> letters{0, 2, 3, 4};
  const std::vector<char> text{'a', 'b', 'c', '\xff'};
  std::vector<ColumnData> columns(3);
  columns[0].buffers = {BytesOf(ids)};
  columns[1].buffers = {BytesOf(x)};
  columns[2].buffers = {BytesOf(words), BytesOf(letters), BytesOf(text)};
  const Batch batch(2, spec, columns, {}, nullptr);
  EXPECT_EQ(RowAsJson(batch, 0), R"({"id":7,"x":[0.5,1.5],"words":["ab"]})");
  EXPECT_EQ(RowAsJson(batch, 1), R"({"id":8,"x":[2.5,3.5],"words":["c",{"base64":"/w=="}]})");
}

TEST(Features, AreReadFromTheirShortForm) {
  const auto fixed = ParseFeature("x:float32[3,4]");
  ASSERT_TRUE(fixed.ok());
  EXPECT_EQ(fixed->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_FALSE(fixed->var);
  const auto any = ParseFeature("a:b:bytes[]");
  ASSERT_TRUE(any.ok());
  EXPECT_EQ(any->name, "a:b");
  EXPECT_EQ(any->dtype, DType::kString);
  EXPECT_TRUE(any->var);
  for (const char* wrong : {"id", ":int64", "id:int32", "id:int64[", "id:int64[3,]", "id:int64[x]", "id:int64[0]"}) {
    EXPECT_THAT(ParseFeature(wrong).status().message(), HasSubstr(wrong)) << wrong;
  }
}

TEST(TextTable, ColumnsAreAsWideAsTheyNeedToBe) {
  TextTable table({"A", "LONG"});
  table.Add({"wide one", "x"});
  EXPECT_EQ(table.Render(false), "A         LONG\nwide one  x\n");
}

}  // namespace
}  // namespace penstock::cli
