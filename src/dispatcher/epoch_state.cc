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
  std::map<std::pair<LaneKey, Cursor>, Seq> rows;  // that wait, up to where
  for (const auto& [at, piece] : pool_) {
    if (piece.doubts > 0) return false;
    rows[at] = piece.to;
  }
  for (const auto& [consumer, holder] : holders_) {
    for (const auto& [name, held] : holder) {
      if (held.doubts > 0 || held.ended || held.asked > held.from) return false;
      rows[{name.lane, held.from}] = held.to;
    }
  }
  std::map<LaneKey, Seq> reach;  // without a gap from a lane's first row
  for (const auto& [at, to] : rows) {
    Seq& upto = reach[at.first];
    if (at.second != Cursor{upto, 0}) return false;
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
  const GrantName name{piece.lane, piece.from.seq, piece.fence};
  Held held{.from = piece.from, .to = piece.to, .doubts = piece.doubts, .last_children = piece.last_children, .asked = piece.from};
  if (const ReplicaState* replica = FindReplica(piece.lane.replica)) held.worker = replica->worker;
  holders_[consumer][name] = held;
  return ToGrant(name, held);
}

std::optional<msg::Grant> EpochState::TakeFromPool(ConsumerId consumer, uint64_t rows) {
  if (pool_.empty()) return std::nullopt;
  return TakePiece(consumer, pool_.begin(), rows);
}

std::optional<msg::Grant> EpochState::TakeBack(ConsumerId consumer, const GrantName& grant, uint64_t rows) {
  const auto at = pool_.lower_bound({grant.lane, {grant.from, 0}});
  if (at == pool_.end() || at->second.lane != grant.lane || at->second.fence != Next(grant.fence)) return std::nullopt;
  return TakePiece(consumer, at, rows);
}

msg::Grant EpochState::TakePiece(ConsumerId consumer, Pool::iterator at, uint64_t rows) {
  Piece piece = at->second;
  pool_.erase(at);
  if (rows != 0 && piece.to - piece.from.seq > rows) {
    Piece rest = piece;
    piece.to = piece.from.seq + rows;
    piece.last_children = 0;
    rest.from = {piece.to, 0};
    RestorePiece(rest);
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
  piece.to = lane->next + ranges * shape_.range_rows;
  lane->next = piece.to;
  return Hand(consumer, piece);
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
bool EpochState::Unread(const ReplicaState& state, const std::map<LaneKey, Seq>& reach) const {
  if (state.dropped) return false;
  const uint32_t lanes = Ranged() ? static_cast<uint32_t>(state.ranged.size()) : state.watermark;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const auto waits = reach.find({epoch_, state.replica, LaneId{lane}});
    const Seq upto = waits == reach.end() ? 0 : waits->second;
    const bool whole = Ranged() ? !state.ranged[lane].ended && upto == state.ranged[lane].next : upto == kLaneEnd;
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
