#include "wire/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "wire/block_sample.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::string Text(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

TEST(Block, OfAnySpecReadsBackAsItWasWritten) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    BlockSampler sampler(seed);
    const bool has_cursors = sampler.Below(2) == 0;
    const SampleBlock block = sampler.RandomBlock(sampler.RandomSpec(), sampler.Below(20), has_cursors);
    const auto view = CheckBlock(block.spec, block.extent.bytes());
    ASSERT_TRUE(view.ok()) << view.status();
    ASSERT_EQ(view->rows(), block.cursors.size());
    ASSERT_EQ(view->buffer_count(), block.buffers.size());
    for (size_t i = 0; i < block.buffers.size(); ++i) ASSERT_EQ(Text(view->buffer(i)), block.buffers[i]);
    for (size_t i = 0; i < block.cursors.size(); ++i) ASSERT_EQ(view->cursor(i), (Cursor{block.cursors[i].seq, block.cursors[i].child}));
    ASSERT_EQ(view->cursor(view->rows()), view->info().end);
    ASSERT_EQ(view->info().bytes, block.plan.header.total_bytes);
  }
}

TEST(Block, OfEqualRowsIsEqualBytes) {
  const auto make = [] {
    BlockSampler sampler(7);
    return sampler.RandomBlock(sampler.RandomSpec(), 9, true);
  };
  const SampleBlock one = make(), other = make();
  EXPECT_EQ(Text(one.extent.bytes()), Text(other.extent.bytes()));
}

// Whatever the bytes are, a view that is given out can be read to its last byte.
TEST(Block, WithRandomDamageIsRefusedOrStaysInBounds) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    BlockSampler sampler(seed);
    const SampleBlock block = sampler.RandomBlock(sampler.RandomSpec(), sampler.Below(6), sampler.Below(2) == 0);
    const auto bytes = block.extent.bytes();
    const size_t head = sizeof(BlockHeader) + block.plan.places.size() * sizeof(BufferPlace);
    for (uint64_t hits = 1 + sampler.Below(3); hits > 0; --hits) {
      const size_t at = sampler.Below(2) == 0 ? sampler.Below(head) : sampler.Below(bytes.size());
      bytes[at] = static_cast<std::byte>(sampler.Below(256));
    }
    const auto view = CheckBlock(block.spec, bytes.first(bytes.size() - (sampler.Below(4) == 0 ? sampler.Below(bytes.size()) : 0)));
    if (!view.ok()) continue;
    size_t sum = 0;
    for (size_t i = 0; i < view->buffer_count(); ++i) {
      for (const std::byte b : view->buffer(i)) sum += static_cast<size_t>(b);
    }
    ASSERT_LE(view->rows(), sum + kMaxBlockRows);
  }
}

// A block of ragged strings and a fixed column, with cursors, that a test spoils.
class DamagedBlock : public ::testing::Test {
 protected:
  DamagedBlock() {
    BlockSampler sampler(1);
    const Spec spec = DictSpec({{"words", DType::kString, {kRagged}}, {"x", DType::kFloat32, {2}}});
    block_ = sampler.RandomBlock(spec, 5, true);
  }
  BlockHeader& header() { return *reinterpret_cast<BlockHeader*>(block_.extent.bytes().data()); }
  BufferPlace& place(size_t i) { return reinterpret_cast<BufferPlace*>(block_.extent.bytes().data() + sizeof(BlockHeader))[i]; }
  template <class T>
  T* buffer(size_t i) {
    return reinterpret_cast<T*>(block_.extent.bytes().data() + block_.plan.places[i].offset);
  }
  void ExpectRefused(const std::string& why) {
    const auto view = CheckBlock(block_.spec, block_.extent.bytes());
    ASSERT_FALSE(view.ok());
    EXPECT_EQ(view.status().code(), Code::kData);
    EXPECT_THAT(view.status().message(), HasSubstr(why));
  }

  SampleBlock block_;
};

TEST_F(DamagedBlock, WithAnotherMagicIsRefused) { header().magic = 1, ExpectRefused("magic"); }
TEST_F(DamagedBlock, WithUnknownFlagsIsRefused) { header().flags |= 2, ExpectRefused("flags"); }
TEST_F(DamagedBlock, LargerThanItsMemoryIsRefused) { header().total_bytes += 64, ExpectRefused("it says"); }
TEST_F(DamagedBlock, SmallerThanItsBuffersIsRefused) { header().total_bytes -= 64, ExpectRefused("over the block's end"); }
TEST_F(DamagedBlock, WithTooManyRowsIsRefused) { header().rows = kMaxBlockRows + 1, ExpectRefused("rows"); }
TEST_F(DamagedBlock, WithOtherRowsThanCursorsIsRefused) { header().rows = 4, ExpectRefused("cursors for 4 rows"); }
TEST_F(DamagedBlock, WithBuffersMissingIsRefused) { header().buffer_count = 4, ExpectRefused("4 buffers where the spec asks for 5"); }
TEST_F(DamagedBlock, WithoutItsCursorsIsRefused) { header().flags = 0, ExpectRefused("buffers"); }
TEST_F(DamagedBlock, ThatEndsBeforeItBeginsIsRefused) { header().end_seq = 0, header().first_seq = 1, ExpectRefused("ends before"); }
TEST_F(DamagedBlock, ThatEndsBeforeItsLastRowIsRefused) {
  header().end_seq = header().first_seq, header().end_child = header().first_child, ExpectRefused("behind its end");
}
TEST_F(DamagedBlock, ThatBeginsAfterItsFirstRowIsRefused) {
  header().first_seq = buffer<RowCursor>(0)[0].seq, header().first_child = buffer<RowCursor>(0)[0].child + 1,
  ExpectRefused("before its first cursor");
}
TEST_F(DamagedBlock, WithCursorsThatDoNotRiseIsRefused) { buffer<RowCursor>(0)[2] = buffer<RowCursor>(0)[1], ExpectRefused("do not rise"); }
TEST_F(DamagedBlock, WithABufferOffTheGridIsRefused) { place(2).offset += 8, ExpectRefused("not aligned"); }
TEST_F(DamagedBlock, WithBuffersThatOverlapIsRefused) { place(2).offset = place(1).offset, ExpectRefused("overlaps"); }
TEST_F(DamagedBlock, WithABufferOverItsHeadIsRefused) { place(0).offset = 0, ExpectRefused("overlaps"); }
TEST_F(DamagedBlock, WithABufferFarAwayIsRefused) { place(4).offset = uint64_t{1} << 63, ExpectRefused("over the block's end"); }
TEST_F(DamagedBlock, WithALengthThatWrapsIsRefused) { place(4).length = ~uint64_t{0}, ExpectRefused("over the block's end"); }
TEST_F(DamagedBlock, WithOffsetsCutOffIsRefused) { place(1).length -= 8, ExpectRefused("bytes of offsets for 5 items"); }
TEST_F(DamagedBlock, WithOffsetsNotFromZeroIsRefused) { buffer<int64_t>(1)[0] = 1, ExpectRefused("do not start at 0"); }
TEST_F(DamagedBlock, WithOffsetsThatFallIsRefused) { buffer<int64_t>(1)[2] = -1, ExpectRefused("fall"); }
TEST_F(DamagedBlock, WithOffsetsBeyondTheValuesIsRefused) {
  buffer<int64_t>(2)[block_.buffers[1].size() / 8 - 1] += 1, ExpectRefused("values of string");
}
TEST_F(DamagedBlock, WithHugeOffsetsIsRefused) { buffer<int64_t>(1)[5] = int64_t{1} << 62, ExpectRefused("end at"); }
TEST_F(DamagedBlock, WithValuesMissingIsRefused) { place(4).length -= 4, ExpectRefused("values of float32"); }

TEST(Block, InMemoryThatIsNotAlignedIsRefused) {
  BlockSampler sampler(3);
  const SampleBlock block = sampler.RandomBlock(LeafSpec(DType::kInt64, {}), 3, false);
  EXPECT_FALSE(CheckBlock(block.spec, block.extent.bytes().subspan(8)).ok());
}

TEST(Block, ShorterThanAHeaderIsRefused) {
  BlockSampler sampler(3);
  const SampleBlock block = sampler.RandomBlock(LeafSpec(DType::kInt64, {}), 3, false);
  EXPECT_FALSE(CheckBlock(block.spec, block.extent.bytes().first(40)).ok());
  EXPECT_FALSE(CheckBlock(block.spec, {}).ok());
}

TEST(Block, OfAShapeThatOverflowsIsRefused) {
  BlockSampler sampler(3);
  const SampleBlock block = sampler.RandomBlock(LeafSpec(DType::kInt64, {}), 3, false);
  EXPECT_FALSE(CheckBlock(LeafSpec(DType::kInt64, {int64_t{1} << 40, int64_t{1} << 40}), block.extent.bytes()).ok());
}

TEST(Block, WithoutCursorsCountsRowsFromItsFirstSeq) {
  BlockSampler sampler(3);
  SampleBlock block = sampler.RandomBlock(LeafSpec(DType::kInt64, {}), 3, false);
  auto& header = *reinterpret_cast<BlockHeader*>(block.extent.bytes().data());
  header.end_seq = header.first_seq + 2;
  EXPECT_FALSE(CheckBlock(block.spec, block.extent.bytes()).ok());
  header.first_seq = kLaneEnd - 1;
  EXPECT_FALSE(CheckBlock(block.spec, block.extent.bytes()).ok());
}

}  // namespace
}  // namespace penstock
