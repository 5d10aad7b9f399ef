#include "client/batcher.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "wire/block_sample.h"

namespace penstock {
namespace {

Layout LayoutOf(const Spec& spec, bool pad = false) {
  Layout layout;
  layout.batch = 4;
  layout.pad = pad;
  layout.row_spec = spec;
  return layout;
}

BlockPtr Hold(SampleBlock block) {
  const BlockView view = CheckBlock(block.spec, block.extent.bytes()).value();
  return std::make_shared<const HeldBlock>(HeldBlock{std::move(block.extent), view});
}

SlicedBlock SliceOf(const BlockPtr& block, uint64_t row, uint64_t rows) {
  return {{{}, Handle{1}, row, rows, block->view.cursor(row), block->view.cursor(row + rows)}, block};
}

std::vector<ColumnShape> ShapesOf(const Spec& spec) { return {spec.columns.begin(), spec.columns.end()}; }

ColumnView ViewOf(const ColumnShape& shape, uint64_t rows, const ColumnData& data) { return ColumnView::Of(shape, rows, data.buffers); }

// The rows of a column, copied out row by row: what a batch must equal however it was made.
std::string Bytes(const ColumnView& view, uint64_t first, uint64_t rows) {
  std::string all;
  for (uint64_t row = first; row < first + rows; ++row) {
    std::vector<uint64_t> lengths;
    view.BufferLengths(row, 1, lengths);
    std::vector<std::string> buffers;
    std::vector<std::span<std::byte>> places;
    for (const uint64_t length : lengths) buffers.emplace_back(length, '\0');
    for (std::string& buffer : buffers) places.push_back(std::as_writable_bytes(std::span(buffer)));
    view.CopyTo(row, 1, places);
    for (const std::string& buffer : buffers) all += std::to_string(buffer.size()) + ":" + buffer;
  }
  return all;
}

std::string BlockBytes(const ColumnShape& shape, const SlicedBlock& slice, size_t first_buffer) {
  std::vector<std::span<const std::byte>> buffers;
  for (size_t i = 0; i <= shape.levels; ++i) buffers.push_back(slice.block->view.buffer(first_buffer + i));
  return Bytes(ColumnView::Of(shape, slice.block->view.rows(), buffers), slice.slice.row, slice.slice.rows);
}

void ExpectSameRows(const Spec& spec, const Batch& batch, const std::vector<SlicedBlock>& slices) {
  const auto shapes = ShapesOf(spec);
  size_t first_buffer = 0;
  for (size_t c = 0; c < shapes.size(); ++c) {
    std::string expected;
    for (const SlicedBlock& slice : slices) expected += BlockBytes(shapes[c], slice, first_buffer);
    EXPECT_EQ(Bytes(ViewOf(shapes[c], batch.rows(), batch.column(c)), 0, batch.rows()), expected);
    first_buffer += shapes[c].levels + 1;
  }
}

TEST(Batcher, ASliceOfABlockIsLentWithoutACopyOfItsValues) {
  const Spec spec = DictSpec({{"id", DType::kInt64, {}}, {"words", DType::kString, {}}});
  BlockSampler sampler(1);
  const BlockPtr block = Hold(sampler.RandomBlock(spec, 10, false));
  const Batch batch = Batcher(LayoutOf(spec)).Make(std::vector{SliceOf(block, 3, 4)}, false).value();
  EXPECT_EQ(batch.rows(), 4u);
  EXPECT_EQ(batch.column(0).values().data(), block->view.buffer(0).data() + 3 * 8);
  const auto strings = block->view.buffer(2);
  EXPECT_GE(batch.column(1).values().data(), strings.data());
  EXPECT_LE(batch.column(1).values().data() + batch.column(1).values().size(), strings.data() + strings.size());
  int64_t first = -1;
  std::memcpy(&first, batch.column(1).buffers[0].data(), sizeof(first));
  EXPECT_EQ(first, 0);
}

TEST(Batcher, ABatchKeepsItsBlocksAliveAndAnOwnCopyDoesNot) {
  const Spec spec = DictSpec({{"id", DType::kInt64, {}}});
  BlockSampler sampler(2);
  BlockPtr block = Hold(sampler.RandomBlock(spec, 4, false));
  const std::weak_ptr<const HeldBlock> watch = block;
  const Batcher batcher(LayoutOf(spec));
  const Batch owned = batcher.Make(std::vector{SliceOf(block, 0, 4)}, true).value();
  {
    const Batch lent = batcher.Make(std::vector{SliceOf(block, 0, 4)}, false).value();
    block.reset();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(batcher.dropped(), 1u);
  EXPECT_EQ(owned.column(0).values().size(), 32u);
}

TEST(Batcher, PiecesSayWhichRowsOfWhichLane) {
  const Spec spec = DictSpec({{"id", DType::kInt64, {}}});
  BlockSampler sampler(3);
  const BlockPtr block = Hold(sampler.RandomBlock(spec, 8, false));
  std::vector<SlicedBlock> slices{SliceOf(block, 0, 2), SliceOf(block, 2, 3), SliceOf(block, 6, 1)};
  const Batch batch = Batcher(LayoutOf(spec)).Make(slices, false).value();
  ASSERT_EQ(batch.pieces().size(), 2u);
  EXPECT_EQ(batch.pieces()[0].rows, 5u);
  EXPECT_EQ(batch.pieces()[1].rows, 1u);
}

TEST(Batcher, LentAndJoinedRowsOfRandomSpecsAreThoseOfTheBlocks) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    BlockSampler sampler(seed);
    const Spec spec = sampler.RandomSpec();
    const Batcher batcher(LayoutOf(spec));
    std::vector<SlicedBlock> slices;
    for (uint64_t i = 0; i <= sampler.Below(3); ++i) {
      const uint64_t rows = 1 + sampler.Below(8);
      const BlockPtr block = Hold(sampler.RandomBlock(spec, rows, sampler.Below(2) == 0));
      const uint64_t first = sampler.Below(rows);
      slices.push_back(SliceOf(block, first, 1 + sampler.Below(rows - first)));
    }
    SCOPED_TRACE(seed);
    ExpectSameRows(spec, batcher.Make(slices, sampler.Below(2) == 0).value(), slices);
  }
}

TEST(Batcher, RowsCopiedOutOfABlockAreABlockOfTheSameRows) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    BlockSampler sampler(seed);
    const Spec spec = sampler.RandomSpec();
    const uint64_t rows = 1 + sampler.Below(8);
    const BlockPtr block = Hold(sampler.RandomBlock(spec, rows, sampler.Below(2) == 0));
    const uint64_t first = sampler.Below(rows);
    const SlicedBlock slice = SliceOf(block, first, 1 + sampler.Below(rows - first));
    const auto copy = std::make_shared<const HeldBlock>(CopyRows(spec, *block, first, slice.slice.rows).value());
    SCOPED_TRACE(seed);
    EXPECT_EQ(copy->view.cursor(0), slice.slice.first);
    EXPECT_EQ(copy->view.cursor(slice.slice.rows), slice.slice.end);
    const Batch batch = Batcher(LayoutOf(spec)).Make(std::vector{SliceOf(copy, 0, slice.slice.rows)}, false).value();
    ExpectSameRows(spec, batch, {slice});
  }
}

TEST(Batcher, PaddingFillsToTheLongestWithZerosAndEmptyStrings) {
  const Spec spec = DictSpec({{"ids", DType::kInt32, {kRagged}}, {"words", DType::kString, {kRagged}}});
  SampleBlock sample{.spec = spec, .plan = {}, .cursors = {}, .buffers = {}, .extent = {}};
  const std::vector<int64_t> id_ends{0, 2, 2, 3};
  const std::vector<int32_t> ids{7, 8, 9};
  const std::vector<int64_t> word_ends{0, 1, 1, 3};
  const std::vector<int64_t> letter_ends{0, 2, 3, 3};
  const std::string letters = "abc";
  const std::vector<uint64_t> lengths{32, 12, 32, 32, 3};
  sample.plan = PlanBlock(3, {0, 0}, {3, 0}, false, lengths);
  sample.extent = HeapExtents().Allocate(sample.plan.header.total_bytes).value();
  WriteBlockHead(sample.plan, sample.extent.bytes());
  const std::vector<const void*> sources{id_ends.data(), ids.data(), word_ends.data(), letter_ends.data(), letters.data()};
  for (size_t i = 0; i < lengths.size(); ++i) std::memcpy(sample.extent.bytes().data() + sample.plan.places[i].offset, sources[i], lengths[i]);
  const BlockPtr block = Hold(std::move(sample));

  const Batch batch = Batcher(LayoutOf(spec, true)).Make(std::vector{SliceOf(block, 0, 3)}, false).value();
  EXPECT_EQ(batch.spec().columns[0].shape, std::vector<int64_t>{2});
  std::vector<int32_t> padded(6);
  ASSERT_EQ(batch.column(0).values().size(), 24u);
  std::memcpy(padded.data(), batch.column(0).values().data(), 24);
  EXPECT_EQ(padded, (std::vector<int32_t>{7, 8, 0, 0, 9, 0}));
  EXPECT_EQ(batch.spec().columns[1].shape, std::vector<int64_t>{2});
  std::vector<int64_t> ends(7);
  ASSERT_EQ(batch.column(1).buffers[0].size(), 56u);
  std::memcpy(ends.data(), batch.column(1).buffers[0].data(), 56);
  EXPECT_EQ(ends, (std::vector<int64_t>{0, 2, 2, 2, 2, 3, 3}));
  EXPECT_EQ(batch.column(1).values().size(), 3u);
}

}  // namespace
}  // namespace penstock
