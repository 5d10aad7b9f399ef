#include "dispatcher/cohorts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dispatcher/terms.h"
#include "plan/state_check.h"

namespace penstock::dispatcher {
namespace {

Status Mixed(const Job& job, const std::string& what, const std::string& one, const std::string& another) {
  return Status(Code::kMismatch, "the consumers that restore " + Named(job) + " bring states of " + what + " " + one + " and " + another +
                                     ": give all of them what was saved at one step")
      .With("job", job.name);
}

Status CheckAlike(const Job& job, const std::vector<Position>& states, bool any_cut) {
  const Position& first = states.front();
  for (const Position& state : states) {
    if (state.job != first.job) return Mixed(job, "jobs", first.job, state.job);
    if (state.generation != first.generation) {
      return Mixed(job, "generations", std::to_string(Raw(first.generation)), std::to_string(Raw(state.generation)));
    }
    if (!any_cut && state.tag != first.tag) return Mixed(job, "steps", std::to_string(first.tag), std::to_string(state.tag));
    if (state.consumers != first.consumers) return Mixed(job, "rosters of", std::to_string(first.consumers), std::to_string(state.consumers));
  }
  return {};
}

// Whether there is a part of everybody who delivered anything.
Status CheckSavedByAll(const Job& job, const std::vector<Position>& parts) {
  constexpr auto kInstead = ": bring one whole position (state_dict() with its default scope)";
  if (parts.front().consumers == 0) {
    return Status(Code::kMismatch,
                  "the consumers of the job that this part was saved from were not declared, so what others of them delivered is "
                  "not known to " +
                      Named(job) + kInstead)
        .With("job", job.name);
  }
  for (const Position& part : parts) {
    if (part.seated_at == 0) continue;
    return Status(Code::kMismatch, "consumer " + std::to_string(part.index) + " was started anew at step " + std::to_string(part.seated_at) +
                                       ", and what the one before it delivered is in no part that " + Named(job) + " gets" + kInstead)
        .With("job", job.name);
  }
  return {};
}

Status CheckCovered(const Job& job, const std::vector<Position>& parts) {
  std::set<uint32_t> covered;
  for (const Position& part : parts) covered.insert(part.index);
  for (uint32_t index = 0; index < parts.front().consumers; ++index) {
    if (covered.contains(index)) continue;
    return Status(Code::kMismatch, "the part of consumer " + std::to_string(index) + " of " + std::to_string(parts.front().consumers) +
                                       " is missing, so what it delivered is not known to " + Named(job) +
                                       ": bring every consumer's part, or one whole position (state_dict() with its default scope)")
        .With("job", job.name);
  }
  return {};
}

// A part says nothing of epochs that were long gone for its consumer: none of the others may be there yet.
Status CheckNear(const Job& job, const std::vector<Position>& parts) {
  const auto by_done = [](const Position& a, const Position& b) { return a.delivered.epochs_done < b.delivered.epochs_done; };
  const Position& ahead = *std::max_element(parts.begin(), parts.end(), by_done);
  for (const Position& part : parts) {
    if (part.epoch < ahead.delivered.epochs_done) return Mixed(job, "epochs", std::to_string(Raw(part.epoch)), std::to_string(Raw(ahead.epoch)));
  }
  return {};
}

// Strict, each in its own place: the others' steps begin where the last of them stands, as all are at a step's end.
const Position& Hindmost(const std::vector<Position>& states) {
  const auto place = [](const Position& state) {
    const RingPosition ring = state.ring.value_or(RingPosition{});
    return std::pair(ring.epoch, ring.turn);
  };
  return *std::min_element(states.begin(), states.end(), [&](const Position& a, const Position& b) { return place(a) < place(b); });
}

EpochState StateOf(Epoch epoch, const EpochShape& shape, const Delivered& delivered) {
  const Delivered::Rest rest = delivered.Complement(shape.lanes);
  EpochState state(epoch, shape);
  ReplicaState replica{.watermark = rest.watermark};
  if (shape.range_rows > 0) {
    replica = {.ranged = std::vector<RangedLane>(shape.lanes)};
    for (uint32_t lane = 0; lane < rest.watermark; ++lane) replica.ranged[lane].ended = true;
  }
  for (const Delivered::Piece& hole : rest.pieces) {
    Piece piece{.lane = {epoch, ReplicaId{0}, hole.lane}, .from = hole.rows.from, .to = hole.rows.to.seq, .fence = Fence{1}};
    if (hole.rows.to.child > 0) {
      ++piece.to;
      piece.last_children = hole.rows.to.child;
    }
    if (shape.range_rows > 0 && hole.rows.to == kLaneEndCursor) {
      // The lane goes on from here, in ranges; they begin with whole source rows.
      RangedLane& lane = replica.ranged[Raw(hole.lane)];
      lane.ended = false;
      lane.next = hole.rows.from.seq + (hole.rows.from.child > 0 ? 1 : 0);
      piece.to = lane.next;
      if (piece.from.seq == piece.to) continue;
    }
    state.RestorePiece(piece);
  }
  state.RestoreReplica(std::move(replica));
  return state;
}

}  // namespace

Status CheckState(const Job& job, const std::string& rows, const Position& state) {
  StateTerms terms{.name = Named(job),
                   .rows = rows,
                   .manifest = job.inputs.manifest_hash,
                   .mode = job.mode,
                   .seed = job.seed,
                   .layout = job.inputs.layout,
                   .places = job.places,
                   .asked = {}};
  for (const auto& [id, member] : job.members) terms.asked.push_back({member.places, " (as " + member.name + " asks)"});
  Status status = penstock::CheckState(terms, state);
  return status.ok() ? status : std::move(status).With("job", job.name);
}

Result<Position> Assemble(const Job& job, const std::string& rows, const std::vector<Position>& states, bool any_cut) {
  if (states.empty()) {
    Position start;
    start.job = job.name;
    start.dataset = job.dataset;
    start.rows = rows;
    start.manifest = job.inputs.manifest_hash;
    start.mode = job.mode;
    start.seed = job.seed;
    start.places = job.places;
    start.batch = job.inputs.layout.batch;
    if (job.mode == Mode::kStrict) start.ring.emplace();
    return start;
  }
  PENSTOCK_TRY(CheckAlike(job, states, any_cut));
  const auto whole = std::find_if(states.begin(), states.end(), [](const Position& state) { return state.kind == Position::Kind::kPosition; });
  if (whole != states.end()) return *whole;
  Position position = job.mode == Mode::kStrict ? Hindmost(states) : states.front();
  position.kind = Position::Kind::kPosition;
  position.index = 0;
  if (job.mode == Mode::kStrict) return position;
  PENSTOCK_TRY(CheckCovered(job, states));
  if (!any_cut) {
    PENSTOCK_TRY(CheckSavedByAll(job, states));
    PENSTOCK_TRY(CheckNear(job, states));
  }
  position.ended = false;
  position.seated_at = 0;
  position.delivered = position.base;
  position.base = {};
  for (const Position& part : states) {
    position.epoch = std::min(position.epoch, part.epoch);
    position.delivered.MergePart(part.delivered);
  }
  // Live loops each go on in their own epoch; what is left of those before belongs to them all.
  if (!any_cut) position.delivered.LeaveBehind(position.epoch);
  return position;
}

History DoneIn(const Job& job) {
  History done{.epochs_done = job.first_open, .epochs = {}};
  for (const auto& [epoch, state] : job.open) {
    Delivered rows;
    for (const ReplicaState& replica : state.replicas()) {
      rows.AddLanes({0, replica.watermark});
      for (uint32_t lane = 0; lane < replica.ranged.size(); ++lane) {
        const RangedLane& ranged = replica.ranged[lane];
        rows.Add(LaneId{lane}, {}, ranged.ended ? kLaneEndCursor : Cursor{ranged.next, 0});
      }
    }
    Delivered open;
    for (const auto& [place, piece] : state.pool()) open.Add(piece.lane.lane, piece.from, EndOf(piece.to, piece.last_children));
    for (const auto& [consumer, holder] : state.holders()) {
      for (const auto& [name, held] : holder) open.Add(name.lane.lane, held.from, held.end());
    }
    rows.Subtract(open);
    if (!rows.empty()) done.epochs[epoch] = std::move(rows);
  }
  return done;
}

void SetTo(Job& job, const Position& position) {
  Position base = position;
  base.delivered.Settle(job.inputs.layout.lanes);
  job.generation = Generation{std::max(Raw(job.generation), Raw(base.generation)) + 1};
  job.first_open = base.delivered.epochs_done;
  job.started = false;
  job.delivered.clear();
  job.seated.clear();
  job.vacated.clear();
  job.steps.clear();
  job.limits.clear();
  job.deals.clear();
  job.open.clear();
  if (job.mode == Mode::kStrict && base.places != 0) job.places = base.places;
  for (const auto& [epoch, delivered] : base.delivered.epochs) {
    if (epoch < job.first_open || (job.epochs != 0 && Raw(epoch) >= job.epochs)) continue;
    job.open.emplace(epoch, StateOf(epoch, job.shape(), delivered));
  }
  job.base = ToJson(base);
}

}  // namespace penstock::dispatcher
