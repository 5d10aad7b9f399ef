#include "client/lent_blocks.h"

#include <algorithm>

namespace penstock {

void LentBlocks::Took(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  largest_batch_ = std::max(largest_batch_, bytes);
}

bool LentBlocks::Lend(Handle handle, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (lent_.contains(handle)) return true;
  if (lent_bytes_ + bytes + largest_batch_ > memory_) return false;
  lent_.emplace(handle, bytes);
  lent_bytes_ += bytes;
  return true;
}

void LentBlocks::Freed(Handle handle) {
  std::lock_guard lock(mutex_);
  const auto lent = lent_.find(handle);
  if (lent == lent_.end()) return;
  lent_bytes_ -= lent->second;
  lent_.erase(lent);
}

}  // namespace penstock
