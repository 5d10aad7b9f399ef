#include "client/ring_reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace penstock {
namespace {

constexpr size_t kStepsAhead = 64;  // of its own, walked and not delivered
constexpr uint32_t kLanesAhead = 2;

uint64_t RowsOf(const std::vector<RingPiece>& pieces) {
  uint64_t rows = 0;
  for (const RingPiece& piece : pieces) rows += piece.rows;
  return rows;
}

}  // namespace

RingReader::RingReader(const RingShape& shape, const RingPart& part, uint64_t first_batch, const RingPosition& start)
    : part_(part),
      epoch_(start.epoch),
      first_batch_(first_batch),
      ring_(shape, start),
      walked_(ring_.position()),
      step_((ring_.next_batch() - first_batch) / part.consumers) {}

Status RingReader::Tell(LaneId lane, const msg::Group& group) {
  msg::Group known = group;
  known.bytes = std::max<uint64_t>(group.bytes, 1);
  if (const auto own = groups_.find({lane, known.first}); own != groups_.end() && own->second.bytes == 0) own->second.bytes = known.bytes;
  for (RingPiece& piece : last_) {
    if (piece.lane == lane && piece.group == known.first) piece.bytes = known.bytes;
  }
  return ring_.Tell(lane, known);
}

// ---- walking

void RingReader::Walk() {
  while (!settled_ && (own_.size() < kStepsAhead || own_.back().after == nullptr)) {
    std::optional<RingBatch> batch = ring_.Next();
    if (!batch && !ring_.over()) break;
    if (batch) Take(std::move(*batch));
    if (ring_.over()) Settle();
    walked_ = ring_.position();  // at once: turns of a batch that is not whole are not walked over
  }
}

void RingReader::Take(RingBatch batch) {
  const bool mine = (batch.g - first_batch_) % part_.consumers == part_.index;
  if (batch.is_short && part_.drop_remainder) {
    if (mine) dropped_rows_ += RowsOf(batch.pieces);
    return;
  }
  if (mine) Add(batch.pieces);
  last_ = std::move(batch.pieces);
  if (++in_step_ == part_.consumers) EndStep(ring_.position());
}

void RingReader::EndStep(RingPosition after) {
  if (!own_.empty() && own_.back().step == step_) own_.back().after = std::make_shared<const RingPosition>(std::move(after));
  ++step_;
  in_step_ = 0;
}

void RingReader::Add(const std::vector<RingPiece>& pieces) {
  own_.push_back({step_, pieces, nullptr});
  for (const RingPiece& piece : pieces) {
    OwnGroup& group = groups_[{piece.lane, piece.group}];
    group.bytes = std::max(group.bytes, piece.bytes);
    group.rows = std::max(group.rows, piece.skip + piece.rows);
    ++group.uses;
  }
}

// The epoch has no more batches: what becomes of a last step in which not every consumer has one.
void RingReader::Settle() {
  settled_ = true;
  if (in_step_ == 0) return;
  const bool mine = !own_.empty() && own_.back().step == step_;
  if (part_.even == Even::kDrop && mine) {
    dropped_rows_ += RowsOf(own_.back().pieces);
    for (const RingPiece& piece : own_.back().pieces) {
      if (const auto block = Use(piece)) discarded_.push_back(block->handle);
    }
    own_.pop_back();
  } else if (part_.even == Even::kPad && !mine) {
    Add(last_);
  }
  EndStep(ring_.position());
}

// ---- asking

void RingReader::Want(uint64_t held, uint64_t memory, bool alone) {
  uint64_t taken = held + outstanding_;
  for (const OwnBatch& batch : own_) {
    const bool must = alone && &batch == &own_.front();
    if (!must && !Told(batch)) return;
    uint64_t more = 0;
    for (const RingPiece& piece : batch.pieces) {
      const OwnGroup& group = groups_.at({piece.lane, piece.group});
      if (!group.wanted) more += group.bytes;
    }
    if (!must && taken + more > memory) return;
    for (const RingPiece& piece : batch.pieces) {
      OwnGroup& group = groups_.at({piece.lane, piece.group});
      if (group.bytes == 0) return;
      if (std::exchange(group.wanted, true)) continue;
      outstanding_ += group.bytes;
      taken += group.bytes;
    }
  }
}

bool RingReader::Told(const OwnBatch& batch) const {
  return std::all_of(batch.pieces.begin(), batch.pieces.end(), [this](const RingPiece& piece) {
    return groups_.at({piece.lane, piece.group}).bytes > 0;
  });
}

bool RingReader::LacksRoom() const {
  if (own_.empty() || !Told(own_.front())) return false;
  const auto& pieces = own_.front().pieces;
  return std::any_of(pieces.begin(), pieces.end(), [this](const RingPiece& piece) { return !groups_.at({piece.lane, piece.group}).wanted; });
}

Result<bool> RingReader::Arrived(LaneId lane, const ShelfBlock& block) {
  const auto at = groups_.find({lane, block.info.first});
  if (at == groups_.end() || !at->second.wanted || at->second.block) return false;
  OwnGroup& group = at->second;
  if (block.info.rows < group.rows) {
    return Status(Code::kInternal, "a group of " + std::to_string(block.info.rows) + " rows came where one of " + std::to_string(group.rows) +
                                       " was told of, at row " + std::to_string(block.info.first.seq));
  }
  outstanding_ -= group.bytes;
  group.block = block;
  return true;
}

// One piece of a batch less lies in its group. Gives the block when that was the last.
std::optional<ShelfBlock> RingReader::Use(const RingPiece& piece) {
  const auto at = groups_.find({piece.lane, piece.group});
  if (--at->second.uses > 0) return std::nullopt;
  if (at->second.wanted && !at->second.block) outstanding_ -= at->second.bytes;
  std::optional<ShelfBlock> block = std::move(at->second.block);
  groups_.erase(at);
  return block;
}

bool RingReader::Whole(const OwnBatch& batch) const {
  return batch.after != nullptr && std::all_of(batch.pieces.begin(), batch.pieces.end(), [this](const RingPiece& piece) {
           return groups_.at({piece.lane, piece.group}).block.has_value();
         });
}

std::optional<ShelfBatch> RingReader::Pop() {
  if (own_.empty() || !Whole(own_.front())) return std::nullopt;
  const OwnBatch batch = std::move(own_.front());
  own_.pop_front();
  ++popped_;
  ShelfBatch out;
  out.step = batch.step;
  out.after = batch.after;
  for (const RingPiece& piece : batch.pieces) {
    const ShelfBlock& block = *groups_.at({piece.lane, piece.group}).block;
    const GrantName name{{epoch_, ReplicaId{}, piece.lane}, {}, Fence{}};
    out.slices.push_back({name, block.handle, piece.skip, piece.rows, block.cursor(piece.skip), block.cursor(piece.skip + piece.rows)});
    if (const auto done = Use(piece)) out.passed.push_back(done->handle);
  }
  return out;
}

std::vector<Handle> RingReader::LetGo() {
  std::vector<Handle> handles = std::exchange(discarded_, {});
  for (const auto& [key, group] : groups_) {
    if (group.block) handles.push_back(group.block->handle);
  }
  groups_.clear();
  own_.clear();
  return handles;
}

// ---- lanes

// How far the lane was walked over.
Cursor RingReader::Passed(LaneId lane) const {
  for (const RingPosition::Place& place : walked_.ring) {
    if (place.lane == lane) return place.cursor;
  }
  for (const RingPosition::Tail& tail : walked_.tails) {
    if (tail.lane == lane) return tail.first;
  }
  return Raw(lane) < walked_.next_lane ? Cursor{kLaneEnd, 0} : Cursor{};
}

std::vector<RingReader::Need> RingReader::Needs() const {
  std::vector<Need> needs;
  std::map<LaneId, size_t> place;
  const auto need = [&](LaneId lane, Cursor from, bool waited) {
    const auto [at, added] = place.try_emplace(lane, needs.size());
    if (added) needs.push_back({lane, from, waited});
    Need& known = needs[at->second];
    known.from = std::min(known.from, from);
    known.waited = known.waited || waited;
  };
  for (const OwnBatch& batch : own_) {
    for (const RingPiece& piece : batch.pieces) {
      if (!groups_.at({piece.lane, piece.group}).block) need(piece.lane, piece.group, &batch == &own_.front());
    }
  }
  if (settled_) return needs;
  const auto waits_for = ring_.waits_for();
  // From where it was walked to, though more was told of: groups on the way there may be its own.
  for (const LaneId lane : ring_.Needs(kLanesAhead)) need(lane, Passed(lane), lane == waits_for);
  // What was taken for a batch that is not whole may be its own, too.
  for (const RingPiece& piece : ring_.pending()) need(piece.lane, piece.group, false);
  // Ended lanes stay open for their tails, which somebody will want soon.
  for (const RingPosition::Tail& tail : walked_.tails) need(tail.lane, tail.first, false);
  std::stable_partition(needs.begin(), needs.end(), [](const Need& n) { return n.waited; });
  return needs;
}

msg::Take RingReader::TakeOf(LaneId lane) const {
  msg::Take take;
  for (auto at = groups_.lower_bound({lane, {}}); at != groups_.end() && at->first.first == lane; ++at) {
    if (at->second.wanted && !at->second.block) take.want.push_back(at->first.second);
  }
  take.passed = Passed(lane);
  for (auto at = groups_.lower_bound({lane, {}}); at != groups_.end() && at->first.first == lane; ++at) {
    if (!at->second.wanted) take.passed = std::min(take.passed, at->first.second);  // it waits for memory
  }
  return take;
}

std::optional<LaneId> RingReader::WaitsFor() const {
  if (!own_.empty()) {
    for (const RingPiece& piece : own_.front().pieces) {
      if (!groups_.at({piece.lane, piece.group}).block) return piece.lane;
    }
  }
  return ring_.waits_for();
}

}  // namespace penstock
