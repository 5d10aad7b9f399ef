// The shelf of a strict job: batches come whole and go out in order.
#include <utility>

#include "client/shelf.h"

namespace penstock {

void Shelf::PutBatch(ShelfBatch batch) {
  std::lock_guard lock(mutex_);
  if (closed_ || batch.slices.empty() || batch.slices.front().grant.lane.epoch != epoch_) {
    passed_.insert(passed_.end(), batch.passed.begin(), batch.passed.end());
    return;
  }
  whole_.push_back(std::move(batch));
  ring_.ready = whole_.size();
  News();
}

std::vector<Slice> Shelf::TakeWhole() {
  if (whole_.empty()) return {};
  ShelfBatch batch = std::move(whole_.front());
  whole_.pop_front();
  for (const Slice& slice : batch.slices) in_hand_.insert(slice.handle);
  for (const Handle handle : batch.passed) Pass(handle);
  ring_before_ = std::exchange(ring_.received, std::move(batch.after));
  ++ring_.batches;
  ring_.ready = whole_.size();
  ring_moved_ = true;
  return std::move(batch.slices);
}

// The epoch's last batch goes back: the loop stands before it.
void Shelf::UnreceiveWhole() {
  log_.TakeBack(1);
  ring_.received = *std::exchange(ring_before_, std::nullopt);
  --ring_.batches;
  ring_moved_ = true;
}

// Leaves the epoch: what was not handed out is passed.
void Shelf::EndRing() {
  for (const ShelfBatch& batch : whole_) {
    for (const Handle handle : batch.passed) Pass(handle);
  }
  whole_.clear();
  ring_.batches = ring_.ready = 0;
  ring_.ended = false;
  ring_before_.reset();
}

}  // namespace penstock
