#include "client/delivery_log.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/guarded.h"
#include "base/planted.h"

namespace penstock {

void DeliveryLog::Restart(Generation generation, Epoch epoch, uint64_t tag) {
  *this = DeliveryLog();
  tag_ = settled_tag_ = tag;
  generation_ = generation;
  epoch_ = settled_epoch_ = epoch;
}

void DeliveryLog::TakeSeat(uint64_t tag) { tag_ = settled_tag_ = seated_at_ = tag; }

void DeliveryLog::BeginEpoch(Epoch epoch) {
  epoch_ = epoch;
  ended_ = false;
}

void DeliveryLog::Close(uint64_t elements, Cut cut) {
  tag_ += elements;
  if (!kGuarded) return open_.clear();
  kept_.push_back({tag_, elements, epoch_, std::exchange(open_, {}), std::move(cut), nullptr});
  if (kept_.size() > kKeptBatches) Settle();
}

void DeliveryLog::Close(std::shared_ptr<const RingPosition> after) {
  kept_.push_back({++tag_, 1, epoch_, {}, nullptr, std::move(after)});
  if (kept_.size() > kKeptBatches) Settle();
}

void DeliveryLog::Settle() {
  const Batch& oldest = kept_.front();
  AddUpTo(oldest, oldest.end, settled_);
  settled_tag_ = oldest.end;
  settled_epoch_ = oldest.epoch;
  settled_ring_ = oldest.ring;
  kept_.pop_front();
  settled_.LeaveBehind(Epoch{Raw(settled_epoch_) - std::min(Raw(settled_epoch_), kKeptEpochs)});
}

void DeliveryLog::AddDropped(const LaneKey& lane, Cursor from, Cursor to) {
  if (kept_.empty()) return settled_.Add(lane, from, to);
  kept_.back().rows.push_back({lane, {from, to}});
}

void DeliveryLog::TakeBack(uint64_t elements) {
  if (kept_.empty()) return;
  Batch& last = kept_.back();
  const uint64_t left = last.elements - std::min(elements, last.elements);
  tag_ = last.end = last.end - last.elements + left;
  if (left == 0) return kept_.pop_back();
  last.rows.front().rows.to = last.cut(left);
  last.elements = left;
}

// A run is rows of one lane, so it may be cut; a batch is taken whole.
void DeliveryLog::AddUpTo(const Batch& batch, uint64_t tag, History& rows) {
  const uint64_t begin = batch.end - batch.elements;
  if (tag <= begin) return;
  if (tag < batch.end) return rows.Add(batch.rows.front().lane, batch.rows.front().rows.from, batch.cut(tag - begin));
  const bool from_start = Planted(Bug::kCursorNotIntervals);
  for (const Rows& part : batch.rows) rows.Add(part.lane, from_start ? Cursor{} : part.rows.from, part.rows.to);
}

Result<DeliveryLog::Point> DeliveryLog::At(uint64_t tag) const {
  if (tag > tag_) {
    return Status(Code::kNotFound, "step " + std::to_string(tag) + " has not come yet: this reader is at step " + std::to_string(tag_));
  }
  if (tag < settled_tag_) {
    return Status(Code::kNotFound, "step " + std::to_string(tag) + " is not kept any more: a reader keeps its last " + std::to_string(kKeptBatches) +
                                       " batches, the first of them ends at step " + std::to_string(settled_tag_));
  }
  Point point{generation_, tag, settled_epoch_, false, seated_at_, settled_, settled_ring_};
  for (const Batch& batch : kept_) {
    const uint64_t asked = Planted(Bug::kPositionAhead) && batch.ring != nullptr ? tag + 1 : tag;
    if (batch.end - batch.elements >= asked) break;
    AddUpTo(batch, tag, point.rows);
    point.epoch = batch.epoch;
    point.ring = batch.ring;
  }
  if (tag == tag_) {
    point.epoch = epoch_;
    point.ended = ended_;
  }
  return point;
}

}  // namespace penstock
