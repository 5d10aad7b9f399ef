#include "wire/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

namespace penstock {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class SegmentPoolTest : public ::testing::Test {
 protected:
  std::shared_ptr<SegmentTable> table_ = std::make_shared<SegmentTable>();
  SegmentPool pool_{table_, kMiB};
};

TEST_F(SegmentPoolTest, GivesAlignedExtentsWhoseTagSaysWhereTheyLie) {
  const Extent extent = pool_.Allocate(100).value();
  EXPECT_EQ(extent.size(), 100U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(extent.bytes().data()) % 64, 0U);
  const auto segment = table_->Find(SegmentOf(extent.tag()));
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(segment->memory().data() + OffsetOf(extent.tag()), extent.bytes().data());
}

TEST_F(SegmentPoolTest, UsesTheMemoryThatCameHomeLastAgainFirst) {
  Extent first = pool_.Allocate(10'000).value();
  Extent second = pool_.Allocate(10'000).value();
  const uint64_t tag = second.tag();
  first.Reset();
  second.Reset();
  EXPECT_EQ(pool_.Allocate(9'900).value().tag(), tag);
}

TEST_F(SegmentPoolTest, NeverHandsOutMemoryTwice) {
  std::mt19937_64 random(1);
  std::vector<Extent> out;
  for (int i = 0; i < 5000; ++i) {
    if (!out.empty() && random() % 2 == 0) {
      std::swap(out[random() % out.size()], out.back());
      out.pop_back();
    } else {
      out.push_back(pool_.Allocate(random() % 300'000).value());
    }
    if (random() % 500 == 0) out.clear();
    std::map<const std::byte*, size_t> places;
    for (const Extent& extent : out) places.emplace(extent.bytes().data(), extent.size());
    ASSERT_EQ(places.size(), out.size());
    const std::byte* end = nullptr;
    for (const auto& [place, size] : places) {
      ASSERT_LE(end, place);
      end = place + size;
    }
  }
}

TEST_F(SegmentPoolTest, CountsWhatWasTouchedUntilItIsTrimmed) {
  Extent extent = pool_.Allocate(100'000).value();
  const uint64_t charge = SegmentPool::ChargeOf(100'000);
  EXPECT_EQ(pool_.touched_bytes(), charge);
  EXPECT_EQ(pool_.bytes_out(), charge);
  pool_.Trim();
  EXPECT_EQ(pool_.touched_bytes(), charge) << "somebody holds it";
  extent.Reset();
  EXPECT_EQ(pool_.touched_bytes(), charge) << "a free list is memory too";
  EXPECT_EQ(pool_.bytes_out(), 0U);
  pool_.Trim();
  EXPECT_EQ(pool_.touched_bytes(), 0U);
}

uint64_t PagesOfFile(int descriptor) {
  struct stat facts {};
  EXPECT_EQ(fstat(descriptor, &facts), 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

TEST_F(SegmentPoolTest, GivesBackWhatIsFreeBesideWhatSomebodyHolds) {
  SegmentPool pool(table_, 16 * kMiB);
  std::vector<Extent> out;
  for (int i = 0; i < 64; ++i) {
    out.push_back(pool.Allocate(i % 2 == 0 ? 200'000 : 5'000).value());
    std::ranges::fill(out.back().bytes(), std::byte{7});
  }
  const auto segment = table_->Find(SegmentOf(out[0].tag()));
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % 4 != 1) out[i].Reset();
  }
  pool.Trim();
  EXPECT_LE(pool.touched_bytes(), 16 * 4 * 4096U) << "a small one out, and the pages at its ends";
  EXPECT_LE(PagesOfFile(segment->descriptor()), pool.touched_bytes());
  for (size_t i = 1; i < out.size(); i += 4) {
    EXPECT_TRUE(std::ranges::all_of(out[i].bytes(), [](std::byte byte) { return byte == std::byte{7}; })) << i;
  }
}

TEST_F(SegmentPoolTest, CountsWhatWasGivenBackAgainOnceItIsUsed) {
  std::mt19937_64 random(2);
  SegmentPool pool(table_, 4 * kMiB);
  const Extent first = pool.Allocate(1000).value();
  const auto segment = table_->Find(SegmentOf(first.tag()));
  std::vector<Extent> out;
  for (int round = 0; round < 2000; ++round) {
    if (random() % 50 == 0) pool.Trim();
    if (!out.empty() && random() % 2 == 0) {
      std::swap(out[random() % out.size()], out.back());
      out.pop_back();
    } else if (pool.bytes_out() < 2 * kMiB) {
      out.push_back(pool.Allocate(random() % 100'000 + 1).value());
      std::ranges::fill(out.back().bytes(), std::byte{1});
    }
    if (round % 20 != 0) continue;
    ASSERT_GE(pool.touched_bytes(), pool.bytes_out());
    if (table_->Find(SegmentId{static_cast<uint32_t>(segment->id()) + 1}) != nullptr) continue;  // a second one holds some
    ASSERT_GE(pool.touched_bytes() + 4096, PagesOfFile(segment->descriptor())) << round;
  }
}

TEST_F(SegmentPoolTest, ChargesAtMostAQuarterMoreThanAsked) {
  for (uint64_t bytes = 4096; bytes < 64 * kMiB; bytes += bytes / 7 + 1) {
    EXPECT_GE(SegmentPool::ChargeOf(bytes), bytes);
    EXPECT_LE(SegmentPool::ChargeOf(bytes), bytes + bytes / 4 + 64);
    EXPECT_EQ(SegmentPool::ChargeOf(bytes) % 64, 0U);
    EXPECT_EQ(SegmentPool::ChargeOf(SegmentPool::ChargeOf(bytes)), SegmentPool::ChargeOf(bytes));
  }
}

TEST_F(SegmentPoolTest, GivesAnOutsizedBlockASegmentOfItsOwn) {
  const Extent extent = pool_.Allocate(5 * kMiB).value();
  EXPECT_EQ(extent.size(), 5 * kMiB);
  extent.bytes().back() = std::byte{1};
  EXPECT_EQ(pool_.Allocate(kMaxBlock + 1).status().code(), Code::kTooLarge);
}

TEST_F(SegmentPoolTest, CutsAFreeSegmentAnewForOtherSizes) {
  { const Extent small = pool_.Allocate(600 * kKiB).value(); }
  const Extent other = pool_.Allocate(900 * kKiB).value();
  EXPECT_LE(pool_.touched_bytes(), kMiB);
}

TEST_F(SegmentPoolTest, UsesNothingOfARetiredSegmentAgain) {
  Extent lent = pool_.Allocate(1000).value();
  Extent other = pool_.Allocate(1000).value();
  const SegmentId id = SegmentOf(lent.tag());
  other.Reset();
  table_->Find(id)->Retire();
  EXPECT_EQ(table_->Find(id), nullptr);
  EXPECT_NE(SegmentOf(pool_.Allocate(1000).value().tag()), id);
  lent.Reset();
  EXPECT_NE(SegmentOf(pool_.Allocate(1000).value().tag()), id);
  EXPECT_EQ(pool_.touched_bytes(), SegmentPool::ChargeOf(1000)) << "the retired one is unmapped";
}

TEST(SegmentPool, IsOutlivedByItsExtents) {
  auto table = std::make_shared<SegmentTable>();
  auto pool = std::make_unique<SegmentPool>(table);
  Extent extent = pool->Allocate(1000).value();
  const SegmentId id = SegmentOf(extent.tag());
  pool.reset();
  extent.bytes()[999] = std::byte{1};
  extent.Reset();
  EXPECT_EQ(table->Find(id), nullptr);
}

TEST(SegmentPool, TakesExtentsHomeFromManyThreads) {
  SegmentPool pool(std::make_shared<SegmentTable>(), kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool] {
      for (int i = 0; i < 2000; ++i) {
        const Extent extent = pool.Allocate(10'000).value();
        extent.bytes()[0] = std::byte{1};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.bytes_out(), 0U);
  EXPECT_LE(pool.touched_bytes(), 4 * SegmentPool::ChargeOf(10'000));
}

class SegmentMapTest : public ::testing::Test {
 protected:
  // What the kernel does when a descriptor goes over a socket.
  static Fd Copy(const Segment& segment) { return Fd(dup(segment.descriptor())); }

  int woken_ = 0;
  std::shared_ptr<SegmentTable> table_ = std::make_shared<SegmentTable>();
  std::shared_ptr<Segment> segment_ = table_->Make(kMiB).value();
  std::unique_ptr<SegmentMap> map_ = std::make_unique<SegmentMap>([this] { ++woken_; });
};

TEST_F(SegmentMapTest, ShowsWhatTheOtherSideWrote) {
  ASSERT_TRUE(map_->Add(segment_->id(), kMiB, Copy(*segment_)).ok());
  segment_->memory()[640] = std::byte{7};
  const Extent extent = map_->Borrow(ExtentTag(segment_->id(), 640), 100).value();
  EXPECT_EQ(extent.bytes()[0], std::byte{7});
  EXPECT_NE(extent.bytes().data(), segment_->memory().data() + 640) << "a mapping of its own";
}

TEST_F(SegmentMapTest, GivesTagsBackInBulkWithOneWake) {
  ASSERT_TRUE(map_->Add(segment_->id(), kMiB, Copy(*segment_)).ok());
  const uint64_t one = ExtentTag(segment_->id(), 0), two = ExtentTag(segment_->id(), 64);
  {
    const Extent a = map_->Borrow(one, 64).value();
    const Extent b = map_->Borrow(two, 64).value();
    EXPECT_EQ(woken_, 0);
  }
  EXPECT_EQ(woken_, 1);
  EXPECT_THAT(map_->TakeReturned().free, UnorderedElementsAre(one, two));
  EXPECT_TRUE(map_->TakeReturned().free.empty());
}

TEST_F(SegmentMapTest, RefusesExtentsOutsideTheirSegment) {
  ASSERT_TRUE(map_->Add(segment_->id(), kMiB, Copy(*segment_)).ok());
  EXPECT_FALSE(map_->Borrow(ExtentTag(segment_->id(), kMiB - 64), 65).ok());
  EXPECT_FALSE(map_->Borrow(ExtentTag(segment_->id(), kMiB + 64), 1).ok());
  EXPECT_FALSE(map_->Borrow(ExtentTag(segment_->id(), 0), ~uint64_t{0}).ok());
  EXPECT_THAT(map_->Borrow(ExtentTag(SegmentId{99}, 0), 1).status().message(), HasSubstr("never announced"));
  EXPECT_TRUE(map_->Borrow(ExtentTag(segment_->id(), kMiB - 64), 64).ok());
}

TEST_F(SegmentMapTest, RefusesSegmentsThatCouldShrinkOrAreOfAnotherSize) {
  Fd open(memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open.get(), 4096), 0);
  EXPECT_THAT(map_->Add(SegmentId{5}, 4096, std::move(open)).message(), HasSubstr("not sealed"));
  EXPECT_FALSE(map_->Add(segment_->id(), 2 * kMiB, Copy(*segment_)).ok());
  EXPECT_FALSE(map_->Add(SegmentId{5}, 4096, Fd(dup(0))).ok());
}

TEST_F(SegmentMapTest, KeepsMemoryThatIsReadAfterTheSessionAndTheWorkerAreGone) {
  ASSERT_TRUE(map_->Add(segment_->id(), kMiB, Copy(*segment_)).ok());
  segment_->memory()[0] = std::byte{7};
  Extent extent = map_->Borrow(ExtentTag(segment_->id(), 0), 64).value();
  map_.reset();
  segment_.reset();
  EXPECT_EQ(extent.bytes()[0], std::byte{7});
  extent.Reset();
  EXPECT_EQ(woken_, 0);
}

TEST_F(SegmentMapTest, SaysWhatAForkedChildMayStillRead) {
  ASSERT_TRUE(map_->Add(segment_->id(), kMiB, Copy(*segment_)).ok());
  Extent before = map_->Borrow(ExtentTag(segment_->id(), 0), 64).value();
  KeepBorrowed();
  Extent after = map_->Borrow(ExtentTag(segment_->id(), 64), 64).value();
  before.Reset();
  after.Reset();
  const ReturnedExtents returned = map_->TakeReturned();
  EXPECT_THAT(returned.kept, UnorderedElementsAre(ExtentTag(segment_->id(), 0)));
  EXPECT_THAT(returned.free, UnorderedElementsAre(ExtentTag(segment_->id(), 64)));
}

TEST_F(SegmentMapTest, DoesNothingInAForkedChild) {
  ASSERT_TRUE(map_->Add(segment_->id(), kMiB, Copy(*segment_)).ok());
  Extent extent = map_->Borrow(ExtentTag(segment_->id(), 0), 64).value();
  const pid_t child = fork();
  if (child == 0) {
    extent.Reset();
    _exit(woken_);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock
