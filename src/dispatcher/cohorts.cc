#include "dispatcher/cohorts.h"

#include <algorithm>
#include <set>

#include "dispatcher/terms.h"

namespace penstock::dispatcher {
namespace {

// Lanes of an endless epoch that were given out and of which nothing was delivered, before one of which something was. Each becomes a piece.
constexpr uint32_t kMostLanesBetween = 1 << 18;

Status Other(const Job& job, const std::string& what, const std::string& state, const std::string& has) {
  return Status(Code::kMismatch, "this state was saved with " + what + " " + state + ", and " + Named(job) + " has " + has +
                                     ": restore it into the job it was saved from, or one over the same rows")
      .With("job", job.name);
}

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

// What names a grant is the source row that it begins with. Holes that share one are granted together, and what was delivered between them comes
// again.
std::vector<Delivered::Piece> Grantable(const std::vector<Delivered::Piece>& holes, uint64_t& repeated) {
  std::vector<Delivered::Piece> pieces;
  for (const Delivered::Piece& hole : holes) {
    const Delivered::Piece* before = pieces.empty() ? nullptr : &pieces.back();
    const bool ends_within = before != nullptr && before->lane == hole.lane && before->rows.to.child > 0;
    if (ends_within && before->rows.to.seq == hole.rows.from.seq) {
      pieces.back().rows.to = hole.rows.to;
      ++repeated;
    } else {
      pieces.push_back(hole);
    }
  }
  return pieces;
}

EpochState StateOf(Epoch epoch, const EpochShape& shape, const Delivered& delivered, uint64_t& repeated) {
  const Delivered::Rest rest = delivered.Complement(shape.lanes);
  EpochState state(epoch, shape);
  ReplicaState replica{.watermark = rest.watermark};
  if (shape.range_rows > 0) {
    replica = {.ranged = std::vector<RangedLane>(shape.lanes)};
    for (uint32_t lane = 0; lane < rest.watermark; ++lane) replica.ranged[lane].ended = true;
  }
  for (const Delivered::Piece& hole : Grantable(rest.pieces, repeated)) {
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
  if (job.mode == Mode::kReplicated) {
    return Status(Code::kInvalid, Named(job) + " is read in mode replicated, which has no position: use mode shared").With("job", job.name);
  }
  if (state.rows != rows) return Other(job, "rows", state.rows, rows);
  if (state.manifest != job.inputs.manifest_hash)
    return Other(job, "manifest (input files, and how counted rows are cut for the batch size)", state.manifest, job.inputs.manifest_hash);
  if (state.mode != job.mode) return Other(job, "mode", std::string(Name(state.mode)), std::string(Name(job.mode)));
  if (state.seed != job.seed) return Other(job, "seed", std::to_string(state.seed), std::to_string(job.seed));
  for (const History* history : {&state.delivered, &state.base}) {
    for (const auto& [epoch, named] : history->epochs) {
      if (named.LanesNamed() > job.inputs.layout.lanes)
        return Other(job, "lanes up to", std::to_string(named.LanesNamed()), std::to_string(job.inputs.layout.lanes));
      if (job.inputs.layout.lanes != kEndlessLanes || named.LanesBetween() <= kMostLanesBetween) continue;
      return Status(Code::kInvalid, "the state names lane " + std::to_string(named.LanesNamed() - 1) + " of epoch " + std::to_string(Raw(epoch)) +
                                        " and leaves out " + std::to_string(named.LanesBetween()) +
                                        " before it: lanes are given out in order, so no state_dict() gave this one")
          .With("job", job.name);
    }
  }
  if (job.mode != Mode::kStrict) return {};
  if (state.batch != job.inputs.layout.batch) return Other(job, "batch", std::to_string(state.batch), std::to_string(job.inputs.layout.batch));
  for (const auto& [id, member] : job.members) {
    if (state.places == 0 || member.places == 0 || member.places == state.places) continue;
    return Other(job, "places", std::to_string(state.places), std::to_string(member.places) + " (as " + member.name + " asks)");
  }
  const Layout& layout = job.inputs.layout;
  return CheckRing(*state.ring, {layout.lanes, std::max<uint64_t>(layout.group_rows(), 1), layout.batch == 0 ? 1 : std::max(layout.mix, 1u),
                                 state.places != 0 ? state.places : job.places});
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

uint64_t SetTo(Job& job, const Position& position) {
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
  uint64_t repeated = 0;
  for (const auto& [epoch, delivered] : base.delivered.epochs) {
    if (epoch < job.first_open || (job.epochs != 0 && Raw(epoch) >= job.epochs)) continue;
    job.open.emplace(epoch, StateOf(epoch, job.shape(), delivered, repeated));
  }
  job.redelivered += repeated;
  job.base = ToJson(base);
  return repeated;
}

}  // namespace penstock::dispatcher
