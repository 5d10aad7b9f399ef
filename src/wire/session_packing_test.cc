// Packed blocks over sessions: each frame says for itself whether its bytes are packed.
#include <gmock/gmock.h>

#include <cstring>

#include "wire/packing.h"
#include "wire/session_fixture.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Packing> PackInto(Extent& block, PackCodec codec) {
  auto packing = std::make_shared<const Packing>(Packer().Pack(codec, block.bytes()));
  block.Pack(packing);
  return packing;
}

TEST_F(SessionTest, PackedBlocksAndOthersTakeTurnsOnOneStream) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  EXPECT_EQ(accepted_->reach(), Reach::kSameHost);
  uint64_t wire_bytes = 0;
  uint64_t queued = 0;
  uint32_t block_no = 0;
  for (const uint64_t bytes : {uint64_t{64}, 100 * kKiB, kPackPiece, 3 * kMiB + 1}) {
    for (const PackCodec codec : {PackCodec::kLz4, PackCodec::kNone, PackCodec::kZstd}) {
      ++block_no;
      On(server_io_, [&] {
        Extent block = HeapExtents().Allocate(bytes).value();
        std::memset(block.bytes().data(), static_cast<int>(block_no), bytes);
        const auto packing = PackInto(block, codec);
        EXPECT_EQ(packing->codec, codec);
        wire_bytes += block.sent_size() + (block.packed() ? EncodePackedHead(*packing).size() : 0);
        queued += accepted_->SendBlock(StreamId{5}, block_no % 2 == 0 ? block.Share() : std::move(block), Handover::kLend);
      });
      const Extent block = client_.TakeBlock();
      ASSERT_EQ(block.size(), bytes);
      for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(block.bytes()[i], static_cast<std::byte>(block_no));
    }
  }
  EXPECT_EQ(client_.wire_bytes, wire_bytes);
  EXPECT_EQ(queued, wire_bytes);
  On(server_io_, [&] { EXPECT_GT(accepted_->link_use().written, wire_bytes); });
}

TEST_F(SessionTest, APackedBlockCountsAgainstCreditAsLargeAsItWillBe) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  client_.block_limit = kMiB - 1;
  On(server_io_, [&] {
    Extent block = HeapExtents().Allocate(kMiB).value();
    std::memset(block.bytes().data(), 1, kMiB);
    EXPECT_LT(PackInto(block, PackCodec::kLz4)->bytes, kMiB / 10);
    accepted_->SendBlock(StreamId{5}, std::move(block), Handover::kCopy);
  });
  EXPECT_THAT(client_.WaitClosed().message(), HasSubstr("more than the credit"));
}

TEST_F(SessionTest, APackedBlockThatNobodyWantsIsReadOver) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  client_.unwanted = StreamId{5};
  for (const uint32_t stream : {5U, 6U}) {
    On(server_io_, [&] {
      Extent block = HeapExtents().Allocate(kMiB).value();
      std::memset(block.bytes().data(), 1, kMiB);
      PackInto(block, PackCodec::kZstd);
      accepted_->SendBlock(StreamId{stream}, std::move(block), Handover::kCopy);
    });
  }
  EXPECT_EQ(client_.TakeBlock().size(), kMiB);
  EXPECT_EQ(client_.heap.bytes_out(), 0U);
}

TEST_F(SessionTest, APackedBlockThatWasDamagedClosesTheSessionWithTheReason) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  On(server_io_, [&] {
    Extent block = HeapExtents().Allocate(kMiB).value();
    std::memset(block.bytes().data(), 1, kMiB);
    PackInto(block, PackCodec::kZstd);
    block.bytes()[0] ^= std::byte{0xFF};
    accepted_->SendBlock(StreamId{5}, std::move(block), Handover::kCopy);
  });
  EXPECT_THAT(client_.WaitClosed().message(), HasSubstr("a packed block was damaged on its way (zstd)"));
  EXPECT_TRUE(client_.blocks.empty());
}

}  // namespace
}  // namespace penstock
