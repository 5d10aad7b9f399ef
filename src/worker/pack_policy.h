// Whether blocks for one consumer are worth packing (compression=auto). Pure: what the link does and what codecs cost goes in, a codec comes out.
//
// Nothing is spent while the link is not what limits: bytes have to wait for it half of the time. Then a few blocks are packed with each codec, and
// the one is taken that would bring the most bytes of blocks a second, min(link / ratio, speed of one thread), if that is a fifth more than the link
// carries without. Twice a second it looks whether that came true: where the link is not full any more and rows come no faster than before, something
// else limits, and packing ends. While the link stays full, the codecs are tried again every 20 s: data and links change.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/extent.h"
#include "wire/link_use.h"

namespace penstock::worker {

class PackPolicy {
 public:
  static constexpr std::array kCodecs = {PackCodec::kLz4, PackCodec::kZstd};

  PackCodec codec() const { return codec_; }
  // A block of so many bytes went out. `packing`: how it was packed; of codec kNone where that did not make it smaller; null: it was not tried.
  void Sent(uint64_t bytes, const Packing* packing);
  // After Sent. True: codec() is another than before.
  bool Look(TimePoint now, const LinkUse& use);

 private:
  struct Trial {
    uint64_t blocks = 0;
    uint64_t raw = 0;
    uint64_t packed = 0;
    std::chrono::nanoseconds cpu{};
    bool enough() const;
    double BytesPerSecond(double link) const;  // of blocks, over a link of so many
  };
  void Judge(TimePoint now, Duration span, const LinkUse& use);
  void BeginTrials(double link);
  void Decide(TimePoint now);

  PackCodec codec_ = PackCodec::kNone;
  double link_ = 0;               // bytes a second, when it was last full
  std::optional<size_t> trying_;  // which of kCodecs
  std::array<Trial, kCodecs.size()> trials_{};
  TimePoint look_again_{};
  // Since the last judgement.
  std::optional<TimePoint> since_;
  LinkUse use_{};
  uint64_t sent_ = 0;  // bytes of blocks
};

}  // namespace penstock::worker
