#include "client/ring.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/planted.h"

namespace penstock {
namespace {

std::string Where(LaneId lane, Cursor at) { return "lane " + std::to_string(Raw(lane)) + " at row " + std::to_string(at.seq); }

}  // namespace

Ring::Ring(const RingShape& shape, RingPosition start)
    : shape_(shape), epoch_(start.epoch), turn_(start.turn), place_(start.place), next_lane_(start.next_lane), ring_(std::move(start.ring)) {
  for (const RingPosition::Tail& tail : start.tails) {
    tails_.push_back({tail, 0});
    tail_rows_ += tail.rows;
  }
  const bool begun = turn_ > 0 || next_lane_ > 0 || !ring_.empty();
  while (!begun && ring_.size() < shape_.places && next_lane_ < shape_.lanes) ring_.push_back({LaneId{next_lane_++}, {}});
}

// ---- words

Ring::Words& Ring::Of(LaneId lane) {
  const auto [at, added] = words_.try_emplace(lane);
  if (added) at->second.told = Told(lane);
  return at->second;
}

Cursor Ring::Told(LaneId lane) const {
  if (const auto at = words_.find(lane); at != words_.end() && (at->second.ended || !at->second.groups.empty())) return at->second.told;
  const auto place = std::find_if(ring_.begin(), ring_.end(), [&](const auto& p) { return p.lane == lane; });
  return place == ring_.end() ? Cursor{} : place->cursor;
}

Status Ring::Tell(LaneId lane, const msg::Group& group) {
  const bool placed = std::any_of(ring_.begin(), ring_.end(), [&](const auto& p) { return p.lane == lane; });
  if (!placed && Raw(lane) < next_lane_) return TellTail(lane, group), Status();  // it has left the ring
  Words& words = Of(lane);
  if (group.end <= words.told && group.first < words.told) return {};
  if (words.ended || group.first != words.told || group.end <= group.first || group.rows == 0 || group.rows > shape_.group_rows ||
      (!words.groups.empty() && words.groups.back().rows < shape_.group_rows)) {
    return Status(Code::kInternal, Where(lane, group.first) + ": a group of " + std::to_string(group.rows) + " rows was told of where row " +
                                       std::to_string(words.told.seq) + (words.ended ? " is the end" : " is next"));
  }
  words.groups.push_back(group);
  words.told = group.end;
  return {};
}

// A position names a tail's rows, not its bytes.
void Ring::TellTail(LaneId lane, const msg::Group& group) {
  for (Tail& tail : tails_) {
    if (tail.at.lane == lane && tail.at.first == group.first) tail.bytes = group.bytes;
  }
  for (RingPiece& piece : pieces_) {
    if (piece.lane == lane && piece.group == group.first) piece.bytes = group.bytes;
  }
}

Status Ring::TellEnd(LaneId lane, Cursor end) {
  const bool placed = std::any_of(ring_.begin(), ring_.end(), [&](const auto& p) { return p.lane == lane; });
  if (!placed && Raw(lane) < next_lane_) return {};
  Words& words = Of(lane);
  if (end != words.told) {
    return Status(Code::kInternal, Where(lane, end) + " was said to end, and it was told of up to row " + std::to_string(words.told.seq));
  }
  words.ended = true;
  return {};
}

// ---- turns

// Whose group the turn may get.
LaneId Ring::Candidate() const { return passed_over_ == 0 ? ring_[place_].lane : LaneId{next_lane_ + passed_over_ - 1}; }

Ring::Can Ring::State(LaneId lane) const {
  const auto words = words_.find(lane);
  if (words == words_.end()) return Can::kUnknown;
  if (!words->second.groups.empty() && words->second.groups.front().rows == shape_.group_rows) return Can::kGive;
  return words->second.ended || Planted(Bug::kRingPlaceReused) ? Can::kNot : Can::kUnknown;
}

uint64_t Ring::TailRows(LaneId lane) const {
  const auto& groups = words_.at(lane).groups;
  return groups.empty() ? 0 : groups.front().rows;
}

std::optional<RingBatch> Ring::Next() {
  waits_for_.reset();
  if (over_) return std::nullopt;
  while (turns_in_batch_ < shape_.mix && Turn()) ++turns_in_batch_;
  const bool whole = turns_in_batch_ == shape_.mix;
  if (!whole && waits_for_) return std::nullopt;
  RingBatch batch;
  batch.g = (turn_ - turns_in_batch_) / shape_.mix;
  if (!whole) {
    over_ = true;
    if (tail_rows_ > 0) TakeTails(tail_rows_);
    if (pieces_.empty()) return std::nullopt;
    batch.is_short = true;
    turn_ = (batch.g + 1) * shape_.mix;
  }
  batch.pieces = std::exchange(pieces_, {});
  turns_in_batch_ = 0;
  return batch;
}

// One group: the next place's, or one joined from tails as soon as they are enough.
bool Ring::Turn() {
  if (tail_rows_ >= shape_.group_rows) return TakeTails(shape_.group_rows);  // only where a state says so
  while (!ring_.empty()) {
    place_ %= static_cast<uint32_t>(ring_.size());
    const LaneId lane = Candidate();
    const Can can = State(lane);
    if (can == Can::kUnknown) {
      waits_for_ = lane;
      return false;
    }
    if (can == Can::kGive) return TakeGroup();
    ++passed_over_;
    passed_rows_ += TailRows(lane);
    const bool joined = tail_rows_ + passed_rows_ >= shape_.group_rows;
    const bool more = next_lane_ + passed_over_ - 1 < shape_.lanes;
    if (!joined && more) continue;
    RetirePassedOver();
    if (joined) return TakeTails(shape_.group_rows);
  }
  return false;
}

// The place is the next lane's, or goes where there is none.
void Ring::RetirePassedOver() {
  for (; passed_over_ > 0; --passed_over_) {
    Retire(ring_[place_].lane);
    if (next_lane_ < shape_.lanes) {
      ring_[place_] = {LaneId{next_lane_++}, {}};
    } else {
      ring_.erase(ring_.begin() + place_);
    }
  }
  passed_rows_ = 0;
}

bool Ring::TakeGroup() {
  RetirePassedOver();
  RingPosition::Place& place = ring_[place_];
  Words& words = words_.at(place.lane);
  const msg::Group group = words.groups.front();
  words.groups.pop_front();
  pieces_.push_back({place.lane, group.first, 0, group.rows, group.bytes, false});
  place.cursor = group.end;
  ++place_;
  ++turn_;
  return true;
}

// The lane has no full group left: what it has goes to the tails.
void Ring::Retire(LaneId lane) {
  const auto words = words_.find(lane);
  if (!words->second.groups.empty()) {
    const msg::Group& rest = words->second.groups.front();
    tails_.push_back({{lane, rest.first, 0, rest.rows}, rest.bytes});
    tail_rows_ += rest.rows;
  }
  words_.erase(words);
}

bool Ring::TakeTails(uint64_t rows) {
  tail_rows_ -= rows;
  while (rows > 0) {
    RingPosition::Tail& tail = tails_.front().at;
    const uint64_t taken = std::min(rows, tail.rows);
    pieces_.push_back({tail.lane, tail.first, tail.skipped, taken, tails_.front().bytes, true});
    tail.skipped += taken;
    tail.rows -= taken;
    rows -= taken;
    if (tail.rows == 0) tails_.pop_front();
  }
  ++turn_;
  return true;
}

// ---- what others ask

RingPosition Ring::position() const {
  RingPosition position;
  position.epoch = epoch_;
  position.turn = turn_;
  position.place = ring_.empty() ? 0 : place_ % static_cast<uint32_t>(ring_.size());
  position.next_lane = next_lane_;
  position.ring = ring_;
  for (const Tail& tail : tails_) position.tails.push_back(tail.at);
  return position;
}

std::vector<LaneId> Ring::Needs(uint32_t ahead) const {
  std::vector<LaneId> needs;
  // An ended lane is needed, too, while it has groups that were not walked over: they will be asked for.
  const auto wanted = [&](LaneId lane) {
    const auto words = words_.find(lane);
    return words == words_.end() || !words->second.ended || !words->second.groups.empty();
  };
  for (size_t i = 0; i < ring_.size(); ++i) {
    const LaneId lane = ring_[(place_ + i) % ring_.size()].lane;
    if (wanted(lane)) needs.push_back(lane);
  }
  uint32_t found = 0;
  uint64_t joined = 0;
  for (uint32_t lane = next_lane_; lane < shape_.lanes && found < ahead && joined < shape_.group_rows; ++lane) {
    if (wanted(LaneId{lane})) needs.push_back(LaneId{lane});
    if (State(LaneId{lane}) != Can::kNot) {
      ++found;
    } else if (lane >= next_lane_ + passed_over_) {
      joined += TailRows(LaneId{lane});
    }
  }
  // The one that the turn waits for comes first.
  if (waits_for_) std::stable_partition(needs.begin(), needs.end(), [&](LaneId lane) { return lane == *waits_for_; });
  return needs;
}

}  // namespace penstock
