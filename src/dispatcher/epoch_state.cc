#include "dispatcher/epoch_state.h"

#include <algorithm>
#include <utility>

namespace penstock::dispatcher {
namespace {

Fence Next(Fence fence) { return Fence{Raw(fence) + 1}; }

uint8_t OneMore(uint8_t doubts) { return doubts < 255 ? static_cast<uint8_t>(doubts + 1) : doubts; }

bool Granted(const ReplicaState& replica, uint32_t lanes, bool ranged) {
  if (replica.dropped) return true;
  if (!ranged) return replica.watermark == lanes;
  return std::all_of(replica.ranged.begin(), replica.ranged.end(), [](const RangedLane& lane) { return lane.ended; });
}

uint64_t LanesLeft(const ReplicaState& replica, uint32_t lanes, bool ranged) {
  if (replica.dropped) return 0;
  if (!ranged) return lanes - replica.watermark;
  return static_cast<uint64_t>(std::count_if(replica.ranged.begin(), replica.ranged.end(), [](const RangedLane& lane) { return !lane.ended; }));
}

// Where a share of it ends, or its own end.
Cursor CutOf(const Piece& piece, Share share) {
  if (share.children > 0) return {piece.from.seq, piece.from.child + share.children};
  if (share.seqs > 0 && piece.to - piece.from.seq > share.seqs) return {piece.from.seq + share.seqs, 0};
  return EndOf(piece.to, piece.last_children);
}

}  // namespace

msg::Grant ToGrant(const GrantName& name, const Held& held) {
  const msg::Range range{.lane = name.lane, .from = held.from, .to = held.to, .last_children = held.last_children};
  return {.range = range, .fence = name.fence, .worker = held.worker};
}

void EpochState::AddReplica(ReplicaId replica, WorkerId worker) {
  ReplicaState state{.replica = replica, .worker = worker};
  if (Ranged()) state.ranged.resize(shape_.lanes);
  replicas_.push_back(std::move(state));
}

std::set<ConsumerId> EpochState::DropReplica(ReplicaId replica) {
  std::set<ConsumerId> touched;
  ReplicaState* state = FindReplica(replica);
  if (state == nullptr || state->dropped) return touched;
  state->dropped = true;
  std::erase_if(pool_, [&](const auto& item) { return item.first.first.replica == replica; });
  for (auto& [consumer, holder] : holders_) {
    for (auto it = holder.begin(); it != holder.end();) {
      if (it->first.lane.replica != replica) {
        ++it;
        continue;
      }
      touched.insert(consumer);
      it->second.revoked = true;
      it = it->second.doubts > 0 ? std::next(it) : holder.erase(it);
    }
  }
  std::erase_if(holders_, [](const auto& item) { return item.second.empty(); });
  return touched;
}

bool EpochState::AllGranted() const {
  return !replicas_.empty() &&
         std::all_of(replicas_.begin(), replicas_.end(), [&](const ReplicaState& r) { return Granted(r, shape_.lanes, Ranged()); });
}

bool EpochState::Done() const { return AllGranted() && pool_.empty() && holders_.empty(); }

bool EpochState::Untouched() const {
  std::map<std::pair<LaneKey, Cursor>, Cursor> rows;  // that wait, up to where
  for (const auto& [at, piece] : pool_) {
    if (piece.doubts > 0) return false;
    rows[at] = EndOf(piece.to, piece.last_children);
  }
  for (const auto& [consumer, holder] : holders_) {
    for (const auto& [name, held] : holder) {
      if (held.doubts > 0 || held.ended || held.asked > held.from) return false;
      rows[{name.lane, held.from}] = held.end();
    }
  }
  std::map<LaneKey, Cursor> reach;  // without a gap from a lane's first row
  for (const auto& [at, to] : rows) {
    Cursor& upto = reach[at.first];
    if (at.second != upto) return false;
    upto = to;
  }
  return std::all_of(replicas_.begin(), replicas_.end(), [&](const ReplicaState& state) { return Unread(state, reach); });
}

uint64_t EpochState::Available() const {
  uint64_t count = pool_.size();
  for (const ReplicaState& replica : replicas_) count += LanesLeft(replica, shape_.lanes, Ranged());
  return count;
}

uint64_t EpochState::LanesDone() const {
  uint64_t started = 0;
  for (const ReplicaState& replica : replicas_) started += shape_.lanes - LanesLeft(replica, shape_.lanes, Ranged());
  std::set<LaneKey> open;
  for (const auto& [place, piece] : pool_) open.insert(place.first);
  for (const auto& [consumer, holder] : holders_) {
    for (const auto& [name, held] : holder) open.insert(name.lane);
  }
  return started - std::min<uint64_t>(started, open.size());
}

msg::Grant EpochState::Hand(ConsumerId consumer, const Piece& piece) {
  const GrantName name{piece.lane, piece.from, piece.fence};
  Held held{.from = piece.from, .to = piece.to, .doubts = piece.doubts, .last_children = piece.last_children, .asked = piece.from};
  if (const ReplicaState* replica = FindReplica(piece.lane.replica)) held.worker = replica->worker;
  holders_[consumer][name] = held;
  return ToGrant(name, held);
}

std::optional<msg::Grant> EpochState::TakeFromPool(ConsumerId consumer, Share share) {
  if (pool_.empty()) return std::nullopt;
  return TakePiece(consumer, pool_.begin(), share);
}

std::optional<msg::Grant> EpochState::TakeBack(ConsumerId consumer, const GrantName& grant, Share share) {
  const auto at = pool_.lower_bound({grant.lane, grant.from});
  if (at == pool_.end() || at->second.lane != grant.lane || at->second.fence != Next(grant.fence)) return std::nullopt;
  return TakePiece(consumer, at, share);
}

msg::Grant EpochState::TakePiece(ConsumerId consumer, Pool::iterator at, Share share) {
  Piece piece = at->second;
  pool_.erase(at);
  const Cursor cut = CutOf(piece, share);
  if (cut < EndOf(piece.to, piece.last_children)) {
    Piece rest = piece;
    rest.from = cut;
    RestorePiece(rest);
    piece.to = cut.seq + (cut.child > 0 ? 1 : 0);
    piece.last_children = cut.child;
  }
  return Hand(consumer, piece);
}

std::optional<msg::Grant> EpochState::TakeLane(ConsumerId consumer, uint32_t ranges) {
  // From the replica that is behind, so that the consumers draw from all of them.
  ReplicaState* best = nullptr;
  for (ReplicaState& replica : replicas_) {
    if (LanesLeft(replica, shape_.lanes, Ranged()) == 0) continue;
    if (best == nullptr || LanesLeft(replica, shape_.lanes, Ranged()) > LanesLeft(*best, shape_.lanes, Ranged())) best = &replica;
  }
  if (best == nullptr) return std::nullopt;
  Piece piece{.lane = {epoch_, best->replica, LaneId{best->watermark}}, .fence = Fence{1}};
  if (!Ranged()) {
    ++best->watermark;
    return Hand(consumer, piece);
  }
  auto lane = best->ranged.end();
  for (auto it = best->ranged.begin(); it != best->ranged.end(); ++it) {
    if (!it->ended && (lane == best->ranged.end() || it->next < lane->next)) lane = it;
  }
  piece.lane.lane = LaneId{static_cast<uint32_t>(lane - best->ranged.begin())};
  piece.from = {lane->next, 0};
  piece.to = lane->next + std::min(ranges * shape_.range_rows, LongestRangeAt(lane->next));
  lane->next = piece.to;
  return Hand(consumer, piece);
}

// How many rows a lane has nobody knows before its end: were the first ranges long, a small one would all be with whoever asked first.
uint64_t EpochState::LongestRangeAt(Seq next) const {
  constexpr uint64_t kFirstGroups = 16;
  return std::max(kFirstGroups, next / 2 / shape_.group_rows) * shape_.group_rows;
}

EpochState::Holder* EpochState::Find(ConsumerId consumer) {
  auto it = holders_.find(consumer);
  return it == holders_.end() ? nullptr : &it->second;
}

const EpochState::Holder* EpochState::Find(ConsumerId consumer) const { return const_cast<EpochState*>(this)->Find(consumer); }

size_t EpochState::LiveHeld(ConsumerId consumer) const {
  const Holder* holder = Find(consumer);
  if (holder == nullptr) return 0;
  return static_cast<size_t>(std::count_if(holder->begin(), holder->end(), [](const auto& item) { return item.second.live(); }));
}

bool EpochState::AllKnown(ConsumerId consumer) const {
  const Holder* holder = Find(consumer);
  return holder == nullptr || std::all_of(holder->begin(), holder->end(), [](const auto& item) { return item.second.known; });
}

std::optional<uint64_t> EpochState::Finish(ConsumerId consumer, const msg::Finish& finish) {
  Holder* holder = Find(consumer);
  if (holder == nullptr) return std::nullopt;
  const GrantName name{finish.lane, finish.grant_from, finish.fence};
  auto it = holder->find(name);
  if (it == holder->end()) return std::nullopt;
  const Held held = it->second;
  holder->erase(it);
  if (holder->empty()) holders_.erase(consumer);

  const Cursor upto = std::max(finish.upto, held.from);
  if (finish.ended) {
    EndLane(finish.lane, upto.seq);
  } else if (upto < held.end() && !Dropped(finish.lane.replica)) {
    RestorePiece({.lane = finish.lane,
                  .from = upto,
                  .to = held.to,
                  .fence = Next(name.fence),
                  .origin = held.broken ? Origin::kBroken : Origin::kKept,
                  .doubts = held.doubts,
                  .last_children = held.last_children});
  }
  return held.doubts * (upto.seq - held.from.seq);
}

void EpochState::NoteStored(ConsumerId consumer) {
  Holder* holder = Find(consumer);
  if (holder == nullptr) return;
  for (auto& [name, held] : *holder) held.stored = held.asked;
}

std::optional<uint64_t> EpochState::GiveBackAll(ConsumerId consumer, bool doubtful) {
  auto it = holders_.find(consumer);
  if (it == holders_.end()) return std::nullopt;
  uint64_t repeated = 0;
  for (const auto& [name, held] : it->second) {
    const Cursor from = std::clamp(held.asked, held.from, held.end());
    repeated += held.doubts * (from.seq - held.from.seq);
    if (from == held.end() || Dropped(name.lane.replica)) continue;
    RestorePiece({.lane = name.lane,
                  .from = from,
                  .to = held.to,
                  .fence = Next(name.fence),
                  .origin = held.broken ? Origin::kBroken : Origin::kKept,
                  .doubts = doubtful ? OneMore(held.doubts) : held.doubts,
                  .last_children = held.last_children});
  }
  holders_.erase(it);
  return repeated;
}

std::optional<uint64_t> EpochState::MoveAll(ConsumerId from, ConsumerId to) {
  const Pool pool = std::exchange(pool_, {});
  const std::optional<uint64_t> repeated = GiveBackAll(from, true);
  for (const auto& [place, piece] : std::exchange(pool_, pool)) Hand(to, piece);
  return repeated;
}

uint64_t EpochState::DropUnwanted() {
  uint64_t dropped = std::erase_if(pool_, [](const auto& item) { return item.second.origin == Origin::kBroken; });
  for (ReplicaState& replica : replicas_) {
    if (replica.dropped) continue;
    dropped += LanesLeft(replica, shape_.lanes, Ranged());
    if (!Ranged()) replica.watermark = shape_.lanes;
    for (RangedLane& lane : replica.ranged) lane.ended = true;
  }
  return dropped;
}

uint64_t EpochState::DropPool() { return std::exchange(pool_, {}).size(); }

void EpochState::RestoreGrant(ConsumerId consumer, const GrantName& name, Held held) {
  held.revoked = held.revoked || Dropped(name.lane.replica);
  holders_[consumer][name] = held;
}

// What was granted of each lane waits again, as `reach` says.
bool EpochState::Unread(const ReplicaState& state, const std::map<LaneKey, Cursor>& reach) const {
  if (state.dropped) return false;
  const uint32_t lanes = Ranged() ? static_cast<uint32_t>(state.ranged.size()) : state.watermark;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const auto waits = reach.find({epoch_, state.replica, LaneId{lane}});
    const Cursor upto = waits == reach.end() ? Cursor{} : waits->second;
    const bool whole = Ranged() ? !state.ranged[lane].ended && upto == Cursor{state.ranged[lane].next, 0} : upto.seq == kLaneEnd;
    if (!whole) return false;
  }
  return true;
}

bool EpochState::Dropped(ReplicaId replica) const {
  return std::any_of(replicas_.begin(), replicas_.end(), [&](const ReplicaState& state) { return state.replica == replica && state.dropped; });
}

ReplicaState* EpochState::FindReplica(ReplicaId replica) {
  for (ReplicaState& state : replicas_) {
    if (state.replica == replica) return &state;
  }
  return nullptr;
}

// Nothing is left of what was to be granted beyond its end.
void EpochState::EndLane(LaneKey lane, Seq end) {
  ReplicaState* replica = FindReplica(lane.replica);
  if (replica != nullptr && Raw(lane.lane) < replica->ranged.size()) replica->ranged[Raw(lane.lane)].ended = true;
  std::erase_if(pool_, [&](const auto& item) { return item.first.first == lane && item.first.second.seq >= end; });
}

}  // namespace penstock::dispatcher
