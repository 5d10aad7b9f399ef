#include "worker/pack_policy.h"

#include <algorithm>
#include <limits>

#include "base/constants.h"

namespace penstock::worker {
namespace {

constexpr Duration kWindow = std::chrono::milliseconds(500);
constexpr Duration kPause = 4 * kWindow;  // a loop that did something else meanwhile says nothing about the link
constexpr Duration kLookAgain = std::chrono::seconds(20);
constexpr double kFull = 0.5;       // of the time
constexpr double kWorthIt = 1.2;    // times what the link carries as it is
constexpr double kCameTrue = 1.05;  // the same, once it is done
constexpr uint64_t kTrialBytes = 256 * kKiB;
constexpr uint64_t kTrialBlocks = 8;

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

bool PackPolicy::Trial::enough() const { return raw >= kTrialBytes || blocks >= kTrialBlocks; }

double PackPolicy::Trial::BytesPerSecond(double link) const {
  const double speed = cpu.count() == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(raw) / Seconds(cpu);
  return std::min(link * static_cast<double>(raw) / static_cast<double>(packed), speed);
}

void PackPolicy::Sent(uint64_t bytes, const Packing* packing) {
  sent_ += bytes;
  if (packing == nullptr || !trying_) return;
  if (packing->codec != PackCodec::kNone && packing->codec != kCodecs[*trying_]) return;  // of the trial before
  Trial& trial = trials_[*trying_];
  ++trial.blocks;
  trial.raw += bytes;
  trial.packed += packing->bytes;
  trial.cpu += packing->cpu;
}

bool PackPolicy::Look(TimePoint now, const LinkUse& use) {
  const PackCodec before = codec_;
  if (trying_ && trials_[*trying_].enough()) {
    if (++*trying_ == kCodecs.size()) {
      Decide(now);
    } else {
      codec_ = kCodecs[*trying_];
    }
  }
  const Duration span = since_ ? now - *since_ : kPause;
  if (span < kWindow) return codec_ != before;
  if (span < kPause) Judge(now, span, use);
  since_ = now;
  use_ = use;
  sent_ = 0;
  return codec_ != before;
}

void PackPolicy::Judge(TimePoint now, Duration span, const LinkUse& use) {
  if (trying_) return;
  const bool full = Seconds(use.blocked - use_.blocked) >= kFull * Seconds(span);
  if (full) {
    if (now >= look_again_) BeginTrials(static_cast<double>(use.written - use_.written) / Seconds(span));
    return;
  }
  if (codec_ == PackCodec::kNone || static_cast<double>(sent_) / Seconds(span) >= kCameTrue * link_) return;
  codec_ = PackCodec::kNone;
  look_again_ = now + kLookAgain;
}

void PackPolicy::BeginTrials(double link) {
  link_ = link;
  trials_ = {};
  trying_ = 0;
  codec_ = kCodecs.front();
}

void PackPolicy::Decide(TimePoint now) {
  trying_.reset();
  codec_ = PackCodec::kNone;
  look_again_ = now + kLookAgain;
  double best = kWorthIt * link_;
  for (size_t i = 0; i < kCodecs.size(); ++i) {
    const double rate = trials_[i].BytesPerSecond(link_);
    if (rate <= best) continue;
    best = rate;
    codec_ = kCodecs[i];
  }
}

}  // namespace penstock::worker
