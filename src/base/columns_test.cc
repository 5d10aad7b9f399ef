#include "base/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace penstock {
namespace {

using ::testing::ElementsAre;

template <class T>
std::vector<T> As(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string Text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::shared_ptr<const Spec> TestSpec() {
  return std::make_shared<Spec>(DictSpec({{"id", DType::kInt64, {}}, {"ids", DType::kInt32, {kRagged}}, {"name", DType::kString, {}}}));
}

void AddRow(Columns& columns, int64_t id, const std::vector<int32_t>& ids, std::string_view name) {
  std::memcpy(columns[0].AppendDense(1), &id, sizeof id);
  std::byte* out = columns[1].AppendRagged(ids.size());
  if (!ids.empty()) std::memcpy(out, ids.data(), ids.size() * sizeof(int32_t));
  columns[2].AppendString(name);
}

Columns Three() {
  Columns columns(TestSpec());
  AddRow(columns, 10, {1, 2}, "a");
  AddRow(columns, 11, {}, "");
  AddRow(columns, 12, {3, 4, 5}, "xyz");
  return columns;
}

TEST(Columns, KeepOffsetsThatStartAtZeroAndValuesBehindThem) {
  const Columns columns = Three();
  EXPECT_EQ(columns.rows(), 3u);
  EXPECT_THAT(As<int64_t>(columns[0].buffer(0)), ElementsAre(10, 11, 12));
  EXPECT_THAT(As<int64_t>(columns[1].buffer(0)), ElementsAre(0, 2, 2, 5));
  EXPECT_THAT(As<int32_t>(columns[1].buffer(1)), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(Text(columns[2].buffer(1)), "axyz");
}

TEST(Columns, AppendsARangeOfAnotherWithItsOffsetsRebased) {
  Columns columns = Three();
  columns.Append(Three(), 1, 2);
  EXPECT_EQ(columns.rows(), 5u);
  EXPECT_THAT(As<int64_t>(columns[1].buffer(0)), ElementsAre(0, 2, 2, 5, 5, 8));
  EXPECT_THAT(As<int32_t>(columns[1].buffer(1)), ElementsAre(1, 2, 3, 4, 5, 3, 4, 5));
  EXPECT_EQ(Text(columns[2].buffer(1)), "axyzxyz");
}

TEST(Columns, GathersRowsInAnyOrder) {
  Columns columns(TestSpec());
  columns.Gather(Three(), std::vector<uint64_t>{2, 0, 2});
  EXPECT_THAT(As<int64_t>(columns[0].buffer(0)), ElementsAre(12, 10, 12));
  EXPECT_THAT(As<int64_t>(columns[2].buffer(0)), ElementsAre(0, 3, 4, 7));
  EXPECT_EQ(Text(columns[2].buffer(1)), "xyzaxyz");
}

TEST(Columns, ASliceIsTheRowsByThemselves) {
  const Columns slice = Three().Slice(2, 1);
  EXPECT_EQ(slice.rows(), 1u);
  EXPECT_THAT(As<int64_t>(slice[1].buffer(0)), ElementsAre(0, 3));
  EXPECT_THAT(As<int32_t>(slice[1].buffer(1)), ElementsAre(3, 4, 5));
}

TEST(Columns, CopiesARangeIntoBuffersOfTheLengthsItNamed) {
  const Columns columns = Three();
  const std::vector<uint64_t> lengths = columns.BufferLengths(1, 2);
  EXPECT_THAT(lengths, ElementsAre(16, 24, 12, 24, 3));
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> buffers;
  for (uint64_t length : lengths) memory.emplace_back(length);
  for (auto& buffer : memory) buffers.emplace_back(buffer);
  columns.CopyTo(1, 2, buffers);
  EXPECT_THAT(As<int64_t>(memory[1]), ElementsAre(0, 0, 3));
  EXPECT_THAT(As<int32_t>(memory[2]), ElementsAre(3, 4, 5));
  EXPECT_EQ(Text(memory[4]), "xyz");
}

TEST(Columns, TruncateDropsRowsAndHalfBuiltOnes) {
  Columns columns = Three();
  int64_t id = 13;
  std::memcpy(columns[0].AppendDense(1), &id, sizeof id);
  columns[1].PushOffset(0, 9);
  columns.Truncate(2);
  AddRow(columns, 20, {7}, "q");
  EXPECT_THAT(As<int64_t>(columns[0].buffer(0)), ElementsAre(10, 11, 20));
  EXPECT_THAT(As<int64_t>(columns[1].buffer(0)), ElementsAre(0, 2, 2, 3));
  EXPECT_EQ(Text(columns[2].buffer(1)), "aq");
}

TEST(Columns, FillingAgainAfterClearAllocatesNothing) {
  Columns columns = Three();
  const uint64_t capacity = columns.capacity();
  columns.Clear();
  EXPECT_EQ(columns.rows(), 0u);
  columns.Append(Three(), 0, 3);
  EXPECT_EQ(columns.capacity(), capacity);
}

TEST(Columns, RowBytesAddUpToTheBytesOfARange) {
  const Columns columns = Three();
  EXPECT_EQ(columns.RowBytes(0), 8 + (8 + 8) + (8 + 1u));
  EXPECT_EQ(columns.RowBytes(0) + columns.RowBytes(1) + columns.RowBytes(2) + 2 * sizeof(int64_t), columns.bytes());
}

TEST(Columns, NestRaggedLevelsAroundFixedOnes) {
  // Two lists a row; each entry of a list is a pair of strings.
  Columns columns(std::make_shared<Spec>(LeafSpec(DType::kString, {2, kRagged, 2})));
  Column& column = columns[0];
  const auto add = [&](std::string_view text) {
    column.PushOffset(1, text.size());
    std::memcpy(column.ExtendValues(text.size()), text.data(), text.size());
  };
  column.PushOffset(0, 1);
  column.PushOffset(0, 0);
  add("ab"), add("c");
  column.FinishRow();
  column.PushOffset(0, 0);
  column.PushOffset(0, 1);
  add("d"), add("ef");
  column.FinishRow();

  const Columns last = columns.Slice(1, 1);
  EXPECT_THAT(As<int64_t>(last[0].buffer(0)), ElementsAre(0, 0, 1));
  EXPECT_THAT(As<int64_t>(last[0].buffer(1)), ElementsAre(0, 1, 3));
  EXPECT_EQ(Text(last[0].buffer(2)), "def");
}

}  // namespace
}  // namespace penstock
