// The shelf of a loop that ends its epoch at the same step as the others (docs/design/shared.md, "Even").
#include <algorithm>

#include "client/shelf.h"

namespace penstock {

void Shelf::SetSteps(Epoch epoch, uint64_t limit, uint64_t steps) {
  std::lock_guard lock(mutex_);
  if (epoch != epoch_ || (limit == limit_ && steps == steps_)) return;
  limit_ = limit;
  steps_ = steps;
  News();
}

void Shelf::SetPads(bool pads) {
  std::lock_guard lock(mutex_);
  pads_ = pads;
}

// The loop comes back, and may have to get again what it was handed last.
void Shelf::KeepLast() {
  if (unasked_.empty()) return;
  kept_tag_ = asked_tag_;
  for (const GrantName& grant : unasked_) {
    if (const auto lane = lanes_.find(grant); lane != lanes_.end()) kept_.emplace(grant, lane->second.asked);
  }
}

void Shelf::LetGoOfLast() {
  for (const auto& [grant, asked] : kept_) Touched(grant);
  kept_.clear();
}

bool Shelf::StepsDone() const { return steps_ != kNoLimit && totals_.epoch_batches >= steps_; }

// The others have batches that this loop does not get.
bool Shelf::Short() const { return steps_ != kNoLimit && totals_.epoch_batches < steps_ && AllEnded(); }

bool Shelf::AnyReady() const {
  if (!whole_.empty()) return true;
  if (batch_ > 0) return ReadyBatches() > 0;
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& item) { return item.second.left > 0; });
}

// As TryBatch would take them, when lanes that are still open have given their share.
uint64_t Shelf::ReadyBatches() const {
  if (batch_ == 0) return 0;
  uint64_t groups = 0;
  uint64_t loose = 0;
  const bool all_ended = AllEnded();
  for (const Lanes::const_iterator lane : tails_) loose += lane->second.left;
  for (const Lanes::const_iterator lane : rotation_) {
    const uint64_t left = lane->second.left;
    groups += left / group_;
    if (all_ended) loose += left % group_;
  }
  if (all_ended) loose += groups % mix_ * group_;
  return groups / mix_ + loose / batch_;
}

}  // namespace penstock
