#include "worker/pack_policy.h"

#include <gtest/gtest.h>

#include "base/constants.h"

namespace penstock::worker {
namespace {

using namespace std::chrono_literals;

// A worker that could send `made` bytes of blocks a second over a link that carries `carries`, in turns of 50 ms; its codecs make bytes `ratio` as
// many, at `speed` bytes a second.
struct Link {
  double made = 0;
  double carries = 0;
  struct Codec {
    double ratio = 1;
    double speed = 1e9;
  };
  Codec lz4{0.5, 600e6};
  Codec zstd{0.4, 300e6};

  const Codec& codec(PackCodec which) const { return which == PackCodec::kLz4 ? lz4 : zstd; }

  // Bytes of blocks that went out a second.
  double Run(std::chrono::milliseconds time) {
    double sent = 0;
    for (const TimePoint until = now + time; now < until;) {
      now = now + 50ms;
      const PackCodec codec_now = policy.codec();
      const bool packs = codec_now != PackCodec::kNone;
      const double ratio = packs ? codec(codec_now).ratio : 1;
      const double wanted = packs ? std::min(made, codec(codec_now).speed) : made;
      const double rate = std::min(wanted, carries / ratio);
      const auto bytes = static_cast<uint64_t>(rate * 0.05);
      use.written += static_cast<uint64_t>(rate * ratio * 0.05);
      if (rate < wanted) use.blocked += 45ms;
      Packing packing{.codec = ratio < 1 ? codec_now : PackCodec::kNone, .raw_bytes = bytes, .bytes = static_cast<uint64_t>(rate * ratio * 0.05)};
      if (packs) packing.cpu = std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(bytes) / codec(codec_now).speed * 1e9));
      policy.Sent(bytes, packs ? &packing : nullptr);
      if (policy.Look(now, use)) ++changes;
      if (packs) packed += bytes;
      sent += static_cast<double>(bytes);
    }
    return sent / std::chrono::duration<double>(time).count();
  }

  PackPolicy policy{};
  LinkUse use{};
  TimePoint now{1s};
  int changes = 0;
  uint64_t packed = 0;  // bytes
};

TEST(PackPolicy, SpendsNothingWhereTheLinkIsNotFull) {
  Link link{.made = 100e6, .carries = 125e6};
  link.Run(60s);
  EXPECT_EQ(link.packed, 0U);
  EXPECT_EQ(link.changes, 0);
}

TEST(PackPolicy, TakesTheCodecThatBringsMostOverAFullLink) {
  Link slow{.made = 1e9, .carries = 12e6};
  slow.Run(5s);
  EXPECT_EQ(slow.policy.codec(), PackCodec::kZstd) << "smaller is quicker where codecs have time";
  Link quick{.made = 1e9, .carries = 250e6};
  quick.Run(5s);
  EXPECT_EQ(quick.policy.codec(), PackCodec::kLz4) << "zstd packs 300 MB/s, lz4 brings 500";
  EXPECT_GT(quick.Run(10s), 1.5 * 250e6);
}

TEST(PackPolicy, LeavesALinkAloneThatIsQuickerThanItsCodecs) {
  Link link{.made = 2e9, .carries = 600e6};
  link.Run(5s);
  EXPECT_EQ(link.policy.codec(), PackCodec::kNone);
  link.Run(60s);
  EXPECT_LT(link.packed, uint64_t{2'000'000'000}) << "it tries again, a little";
}

TEST(PackPolicy, LeavesRowsAloneThatGetNoSmaller) {
  Link link{.made = 1e9, .carries = 12e6, .lz4 = {1, 2e9}, .zstd = {0.95, 500e6}};
  link.Run(30s);
  EXPECT_EQ(link.policy.codec(), PackCodec::kNone);
}

TEST(PackPolicy, StopsWhereSomethingElseLimits) {
  Link link{.made = 1e9, .carries = 100e6};
  link.Run(5s);
  ASSERT_NE(link.policy.codec(), PackCodec::kNone);
  link.made = 80e6;  // the loop has become slower than the link
  link.Run(5s);
  EXPECT_EQ(link.policy.codec(), PackCodec::kNone);
  link.made = 1e9;
  link.Run(30s);
  EXPECT_NE(link.policy.codec(), PackCodec::kNone) << "it looks again";
}

TEST(PackPolicy, StopsWhereThereAreNoCoresLeftForIt) {
  Link link{.made = 1e9, .carries = 100e6};
  link.Run(5s);
  ASSERT_NE(link.policy.codec(), PackCodec::kNone);
  link.lz4.speed = link.zstd.speed = 50e6;  // a link that is not full any more, and rows that come more slowly
  link.Run(5s);
  EXPECT_EQ(link.policy.codec(), PackCodec::kNone);
  EXPECT_GT(link.Run(10s), 99e6);
}

TEST(PackPolicy, NoticesThatRowsOrLinksHaveChanged) {
  Link link{.made = 1e9, .carries = 12e6};
  link.Run(5s);
  ASSERT_EQ(link.policy.codec(), PackCodec::kZstd);
  link.lz4.ratio = link.zstd.ratio = 1;
  link.Run(30s);
  EXPECT_EQ(link.policy.codec(), PackCodec::kNone);
  link.lz4.ratio = 0.5;
  link.Run(30s);
  EXPECT_EQ(link.policy.codec(), PackCodec::kLz4);
}

TEST(PackPolicy, DoesNotTakeALoopThatPausesForALinkThatIsFree) {
  Link link{.made = 1e9, .carries = 100e6};
  link.Run(5s);
  const PackCodec codec = link.policy.codec();
  ASSERT_NE(codec, PackCodec::kNone);
  link.now = link.now + 60s;  // a checkpoint
  link.Run(2s);
  EXPECT_EQ(link.policy.codec(), codec);
}

}  // namespace
}  // namespace penstock::worker
