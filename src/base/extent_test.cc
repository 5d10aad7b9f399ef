#include "base/extent.h"

#include <gtest/gtest.h>

#include "base/constants.h"

namespace penstock {
namespace {

TEST(HotExtents, HandOutWhatWasLetGoOfLast) {
  HotExtents extents;
  Extent first = extents.Allocate(kMiB).value();
  Extent second = extents.Allocate(kMiB).value();
  const std::byte* last = second.bytes().data();
  first.Reset();
  second.Reset();
  const Extent again = extents.Allocate(kMiB - 100).value();
  EXPECT_EQ(again.bytes().data(), last);
  EXPECT_EQ(again.size(), kMiB - 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(again.bytes().data()) % 64, 0U);
}

TEST(HotExtents, KeepNoMoreThanTheirBound) {
  HotExtents extents;
  std::vector<Extent> out;
  for (int i = 0; i < 3; ++i) out.push_back(extents.Allocate(HotExtents::kMaxKept / 2).value());
  out.clear();
  EXPECT_EQ(extents.bytes_kept(), HotExtents::kMaxKept);
  extents.Allocate(3 * HotExtents::kMaxKept).value().Reset();
  EXPECT_EQ(extents.bytes_kept(), HotExtents::kMaxKept);
}

TEST(HotExtents, KeepNothingSmall) {
  HotExtents extents;
  extents.Allocate(100).value().Reset();
  EXPECT_EQ(extents.bytes_kept(), 0U);
}

TEST(HotExtents, OutliveTheirAllocator) {
  Extent extent;
  {
    HotExtents extents;
    extent = extents.Allocate(kMiB).value();
  }
  extent.bytes().back() = std::byte{1};
  extent.Reset();
}

TEST(Extent, IsMovedAndSharedWithWhatFollowsIt) {
  Extent extent = HeapExtents().Allocate(2).value();
  const auto rest = std::make_shared<std::vector<std::byte>>(3, std::byte{2});
  extent.Follow(std::make_shared<const Following>(Following{{std::span<const std::byte>(*rest)}, 3, rest}));
  Extent moved = std::move(extent);
  EXPECT_EQ(moved.whole_size(), 5U);
  const Extent shared = moved.Share();
  EXPECT_EQ(moved.whole_size(), 5U);
  EXPECT_EQ(shared.whole_size(), 5U);
}

TEST(Extent, OfAPackedBlockIsMovedAndSharedAsThat) {
  Extent extent = HeapExtents().Allocate(100).value();
  EXPECT_EQ(extent.sent_size(), 100U);
  extent.Pack(std::make_shared<const Packing>(Packing{.codec = PackCodec::kLz4, .raw_bytes = 100, .pieces = {30}, .bytes = 30}));
  Extent moved = std::move(extent);
  const Extent shared = moved.Share();
  for (const Extent* each : {&std::as_const(moved), &shared}) {
    EXPECT_EQ(each->sent().data(), each->bytes().data());
    EXPECT_EQ(each->sent_size(), 30U);
    EXPECT_EQ(each->whole_size(), 100U);
  }
  moved.Reset();
  EXPECT_FALSE(moved.packed());
}

TEST(Extent, GoesHomeWhenAllWhoShareItHaveLetGo) {
  HeapExtents heap;
  Extent first = heap.Allocate(100).value();
  first.bytes()[99] = std::byte{3};
  Extent second = first.Share();
  Extent third = first.Share();
  EXPECT_EQ(second.bytes().data(), first.bytes().data());
  first.Reset();
  third.Reset();
  EXPECT_EQ(heap.bytes_out(), 100U);
  EXPECT_EQ(second.bytes()[99], std::byte{3});
  second.Reset();
  EXPECT_EQ(heap.bytes_out(), 0U);
}

}  // namespace
}  // namespace penstock
