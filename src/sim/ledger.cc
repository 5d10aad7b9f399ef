#include "sim/ledger.h"

#include <algorithm>
#include <utility>

namespace penstock::sim {
namespace {

bool Claims(const History& history, const Row& row) {
  if (row.lane.epoch < history.epochs_done) return true;
  const auto epoch = history.epochs.find(row.lane.epoch);
  if (epoch == history.epochs.end()) return false;
  if (epoch->second.Whole(row.lane.lane)) return true;
  const std::vector<Interval> intervals = epoch->second.Of(row.lane.lane);
  return std::any_of(intervals.begin(), intervals.end(), [&](const Interval& i) { return i.from <= row.at && row.at < i.to; });
}

}  // namespace

Ledger::Branch& Ledger::BranchOf(HistoryId id) {
  Branch& branch = branches_[id];
  if (!std::exchange(branch.begun, true)) last_ = id;
  return branch;
}

Ledger::Start& Ledger::StartOf(HistoryId id, const Reader& reader) {
  Start& start = BranchOf(id).starts[reader.consumer];
  start.reader = reader;
  return start;
}

std::string Ledger::Deliver(HistoryId id, const Reader& reader, Epoch epoch, const std::vector<Slice>& batch) {
  std::vector<Row> rows;
  for (const Slice& slice : batch) {
    const auto named = RowsOfSlice(*job_, slice);
    if (!named) {
      return "a batch has " + std::to_string(slice.rows) + " rows from " + std::to_string(slice.first.seq) + " to " + std::to_string(slice.end.seq) +
             " of " + penstock::ToString(slice.grant.lane) + ", which are not rows of it";
    }
    rows.insert(rows.end(), named->begin(), named->end());
  }
  if (rows.empty()) return "an empty batch was delivered";
  const uint64_t whole = job_->layout.batch;
  if (whole > 0 && rows.size() > whole) return "a batch has " + std::to_string(rows.size()) + " rows";
  Branch& branch = BranchOf(id);
  Start& start = StartOf(id, reader);
  bool again = false;
  if (job_->mode == Mode::kStrict) {
    if (std::string wrong = CheckOrder(branch.places, start, epoch, rows, again); !wrong.empty()) return wrong;
  }
  ++start.steps[epoch];
  rows_ += rows.size();
  ++batches_;
  if (again) return start.ends.push_back(start.rows.size()), "";
  if (whole > 0 && rows.size() < whole) ++branch.short_batches[epoch];
  for (const Row& row : rows) {
    start.rows.push_back(row);
    if (whole == 0) start.ends.push_back(start.rows.size());
  }
  if (whole > 0) start.ends.push_back(start.rows.size());
  return Count(branch, reader, rows);
}

std::string Ledger::Count(Branch& branch, const Reader& reader, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (job_->mode != Mode::kReplicated && Has(branch, row)) return ToString(row) + " came again after the restore of a position that has it";
    std::vector<ConsumerId>& who = branch.seen[row];
    // Lanes of an epoch that a loop left early may come back to it in the next one.
    const bool had = !broken_ && std::find(who.begin(), who.end(), reader.consumer) != who.end();
    if (had) return ToString(row) + " came twice to one loop";
    who.push_back(reader.consumer);
  }
  return "";
}

const std::vector<std::vector<Row>>& Ledger::OrderOf(uint32_t places, Epoch epoch) {
  const auto [at, added] = order_.try_emplace({places, epoch});
  if (added) at->second = StrictBatches(*job_, epoch, places);
  return at->second;
}

// Consumer i of M gets batch g0 + t M + i at its step t.
std::string Ledger::CheckOrder(uint32_t places, const Start& start, Epoch epoch, const std::vector<Row>& rows, bool& again) {
  const std::vector<std::vector<Row>>& batches = OrderOf(places, epoch);
  const auto taken = start.steps.find(epoch);
  const uint64_t step = taken == start.steps.end() ? 0 : taken->second;
  const uint64_t first = start.ring.epoch == epoch ? start.ring.turn / job_->layout.mix : 0;
  uint64_t g = first + step * start.reader.consumers + start.reader.index;
  again = g >= batches.size() && job_->even == Even::kPad;
  if (again && !batches.empty()) g = batches.size() - 1;
  if (g < batches.size() && batches[g] == rows) return "";
  return "batch " + std::to_string(g) + " of epoch " + std::to_string(Raw(epoch)) + " is not that of the reference order: it begins with " +
         ToString(rows.front()) + (g < batches.size() ? ", not " + ToString(batches[g].front()) : ", and there is none");
}

void Ledger::Repeat(HistoryId id, const Reader& reader, Epoch epoch) {
  Start& start = StartOf(id, reader);
  ++start.steps[epoch];
  start.ends.push_back(start.rows.size());
}

void Ledger::Ended(HistoryId id, const Reader& reader, Epoch epoch) { StartOf(id, reader).ended.insert(epoch); }

void Ledger::Died(HistoryId id, ConsumerId consumer) { branches_[id].died.insert(consumer); }

bool Ledger::AnyDied(HistoryId id) const {
  const auto branch = branches_.find(id);
  return branch != branches_.end() && !branch->second.died.empty();
}

std::string Ledger::Joined(HistoryId id, const Reader& reader, const msg::Joined& joined) {
  if (job_->mode == Mode::kStrict) {
    if (std::string wrong = CheckPlaces(branches_[id], joined); !wrong.empty()) return wrong;
  }
  if (!joined.base.empty()) {
    if (std::string wrong = Restored(BranchOf(id), joined.base); !wrong.empty()) return wrong;
  }
  if (job_->mode != Mode::kStrict) return "";
  Branch& branch = branches_[id];  // whether it is read is not known yet
  Start& start = branch.starts[reader.consumer];
  start.reader = reader;
  start.ring = branch.ring.value_or(RingPosition{});
  if (joined.position.empty()) return "";
  const Result<Position> position = ParsePosition(joined.position);
  if (!position.ok()) return "the position of consumer " + std::to_string(reader.index) + " cannot be read: " + position.status().ToString();
  start.ring = position->ring.value_or(start.ring);
  return "";
}

// A generation keeps its places, and one that was restored has those of a job that was there: a name that nobody was heard to read makes way for
// another start, whose ranks are the places if it is not restored from a state of the first.
std::string Ledger::CheckPlaces(Branch& branch, const msg::Joined& joined) const {
  const uint32_t places = joined.places == 0 ? joined.consumers : joined.places;
  if (branch.places == places) return "";
  const bool known = std::any_of(branches_.begin(), branches_.end(), [&](const auto& item) { return item.second.places == places; });
  if (branch.places != 0 || (!joined.base.empty() && !known)) return "a ring has " + std::to_string(places) + " places, which are no start's";
  branch.places = places;
  return "";
}

// A generation begins at this state.
std::string Ledger::Restored(Branch& branch, const std::string& base) {
  const Result<Position> position = ParsePosition(base);
  if (!position.ok()) return "the base of a generation is no position: " + position.status().ToString();
  branch.base = position->delivered;
  if (job_->mode != Mode::kStrict || branch.ring) return "";
  if (position->places != 0 && position->places != branch.places) {
    return "a ring of " + std::to_string(branch.places) + " places goes on from a state of " + std::to_string(position->places);
  }
  branch.ring = position->ring.value_or(RingPosition{});
  branch.walked = WalkedBy(branch.places, *branch.ring);
  return "";
}

// Rows of its epoch that a ring has passed.
std::set<Row> Ledger::WalkedBy(uint32_t places, const RingPosition& ring) {
  const bool nothing_left = ring.begun() && ring.ring.empty() && ring.tails.empty() && ring.next_lane >= job_->layout.lanes;
  const auto& batches = OrderOf(places, ring.epoch);
  const uint64_t taken = nothing_left ? batches.size() : std::min<uint64_t>(batches.size(), ring.turn / job_->layout.mix);
  std::set<Row> walked;
  for (uint64_t g = 0; g < taken; ++g) walked.insert(batches[g].begin(), batches[g].end());
  return walked;
}

// Whether a position has the row.
std::function<bool(const Row&)> Ledger::ClaimsOf(uint32_t places, const Position& position) {
  if (job_->mode != Mode::kStrict) return [&position](const Row& row) { return Claims(position.delivered, row); };
  const RingPosition ring = position.ring.value_or(RingPosition{});
  return [ring, walked = WalkedBy(places, ring)](const Row& row) { return row.lane.epoch < ring.epoch || walked.contains(row); };
}

bool Ledger::Has(const Branch& branch, const Row& row) {
  if (Claims(branch.base, row)) return true;
  if (!branch.ring) return false;
  return row.lane.epoch < branch.ring->epoch || branch.walked.contains(row);
}

Ledger::Cut Ledger::CutNow(HistoryId id, Epoch epoch) const {
  Cut cut{epoch, {}};
  const auto branch = branches_.find(id);
  if (branch == branches_.end()) return cut;
  for (const auto& [consumer, start] : branch->second.starts) cut.rows[consumer] = start.rows.size();
  return cut;
}

// All that anybody had of the epoch, and nothing of later ones.
std::string Ledger::SavedAtEnd(const Branch& branch, const Position& position, const std::vector<ConsumerId>& alive, const Cut& cut) {
  const auto claims = ClaimsOf(branch.places, position);
  for (const auto& [consumer, start] : branch.starts) {
    if (std::find(alive.begin(), alive.end(), consumer) == alive.end()) continue;
    const auto had = cut.rows.find(consumer);
    for (size_t i = 0; i < start.rows.size(); ++i) {
      const Row& row = start.rows[i];
      const bool later = row.lane.epoch > cut.epoch;
      if (!later && had != cut.rows.end() && i < had->second && !claims(row)) return "a position of an epoch's END forgets " + ToString(row);
      if (later && branch.seen.at(row).size() == 1 && !broken_ && claims(row)) return "a position of an epoch's END has " + ToString(row);
    }
  }
  return "";
}

std::string Ledger::Saved(HistoryId id, const Position& position, const std::vector<ConsumerId>& alive, const std::optional<Cut>& at_end) {
  const auto found = branches_.find(id);
  if (found == branches_.end()) return "";
  const Branch& branch = found->second;
  if (job_->mode == Mode::kStrict && position.places != branch.places)
    return "the position is of a ring of " + std::to_string(position.places) + " places";
  if (!branch.died.empty()) return "";  // the steps of one that was started anew are others
  if (at_end) return SavedAtEnd(branch, position, alive, *at_end);
  // One that is at its epoch's end before the step answers with that, and goes on.
  if (job_->even == Even::kUneven && job_->epochs > 1) return "";
  std::set<Row> before;  // the cut
  std::set<Row> after;
  for (const auto& [consumer, start] : branch.starts) {
    const bool lives = std::find(alive.begin(), alive.end(), consumer) != alive.end();
    const size_t elements = lives && job_->declared ? std::min<size_t>(position.tag, start.ends.size()) : start.ends.size();
    const size_t cut = elements == 0 ? 0 : start.ends[elements - 1];
    // What a dead one had last, and what others have now, may be in it or not.
    if (lives && job_->declared) before.insert(start.rows.begin(), start.rows.begin() + static_cast<ptrdiff_t>(cut));
    if (!lives || !job_->declared) continue;
    after.insert(start.rows.begin() + static_cast<ptrdiff_t>(cut), start.rows.end());
  }
  const auto claims = ClaimsOf(branch.places, position);
  for (const Row& row : before) {
    if (!claims(row)) return "the position at step " + std::to_string(position.tag) + " forgets " + ToString(row);
  }
  const bool drops = broken_ || (job_->even != Even::kUneven && job_->mode != Mode::kStrict);
  for (const Row& row : after) {
    const std::vector<ConsumerId>& who = branch.seen.at(row);
    if (who.size() == 1 && !drops && claims(row)) {
      return "the position at step " + std::to_string(position.tag) + " has " + ToString(row) + ", which came after it";
    }
  }
  return "";
}

uint64_t Ledger::repeated() const {
  std::set<std::pair<HistoryId, std::pair<LaneKey, Seq>>> rows;
  for (const auto& [id, branch] : branches_) {
    for (const auto& [row, who] : branch.seen) {
      if (who.size() > 1) rows.insert({id, {row.lane, row.at.seq}});
    }
  }
  uint64_t repeated = 0;
  for (const auto& [id, source] : rows) {
    const auto& seen = branches_.at(id).seen;
    uint64_t most = 0;
    for (auto at = seen.lower_bound({source.first, {source.second, 0}}); at != seen.end() && at->first.lane == source.first; ++at) {
      if (at->first.at.seq != source.second) break;
      most = std::max<uint64_t>(most, at->second.size() - 1);
    }
    repeated += most;
  }
  return repeated;
}

std::vector<LaneKey> Ledger::LanesRead(const Branch& branch) const {
  std::set<ReplicaId> replicas;
  for (const auto& [row, who] : branch.seen) replicas.insert(row.lane.replica);
  if (job_->mode != Mode::kReplicated) replicas = {ReplicaId{0}};
  std::vector<LaneKey> lanes;
  for (uint32_t epoch = 0; epoch < job_->epochs; ++epoch) {
    for (ReplicaId replica : replicas) {
      for (uint32_t lane = 0; lane < job_->layout.lanes; ++lane) lanes.push_back({Epoch{epoch}, replica, LaneId{lane}});
    }
  }
  return lanes;
}

// Rows that `even` may drop in one epoch: fewer than a batch a consumer, and one. With `pad` the short batch that `drop_remainder` names, and fewer
// rows (there: batches) than consumers, where these are all that is left of it: some would have nothing to repeat.
uint64_t Ledger::MayMiss(const Branch& branch, Epoch epoch) const {
  if (job_->even == Even::kUneven || (job_->even == Even::kPad && job_->mode == Mode::kStrict)) return 0;
  uint64_t consumers = job_->consumers;
  bool any_steps = false;
  for (const auto& [id, start] : branch.starts) {
    consumers = std::max<uint64_t>(consumers, start.reader.consumers);
    any_steps = any_steps || start.steps.contains(epoch);
  }
  if (job_->even == Even::kDrop) return (consumers + 1) * job_->layout.batch;
  const uint64_t least = job_->layout.drop_remainder ? job_->layout.batch : 1;  // that makes a step
  return any_steps ? least - 1 : consumers * least - 1;
}

void Ledger::CheckCoverage(const Branch& branch, const Outcome& outcome, std::vector<std::string>& wrong) const {
  const std::vector<LaneKey> lanes = LanesRead(branch);
  const size_t replicas = job_->layout.lanes == 0 ? 0 : lanes.size() / job_->layout.lanes / job_->epochs;
  if (job_->mode == Mode::kReplicated && replicas != outcome.workers && !branch.seen.empty()) {
    wrong.push_back(std::to_string(replicas) + " replicas were read of " + std::to_string(outcome.workers) + " workers");
  }
  std::map<Epoch, uint64_t> missing;
  for (const LaneKey& lane : lanes) {
    const uint64_t may_miss = MayMiss(branch, lane.epoch);
    for (const Row& row : RowsOfLane(*job_, lane)) {
      const bool there = branch.seen.contains(row) || (job_->mode != Mode::kReplicated && Has(branch, row));
      if (!there && ++missing[lane.epoch] > may_miss) return wrong.push_back(ToString(row) + " was never delivered");
    }
  }
}

// All starts of a rank together. One that was started anew alone got again what was not heard of before it died: it has no fewer steps than the
// others.
void Ledger::CheckEven(const Branch& branch, const Outcome& outcome, std::vector<std::string>& wrong) const {
  const bool again = job_->mode == Mode::kStrict && (outcome.unheard || !branch.died.empty());  // a rank may have read an epoch twice
  if (again || job_->even == Even::kUneven) return;
  struct Rank {
    uint64_t steps = 0;
    bool ended = false;
    bool died = false;
  };
  for (Epoch epoch{0}; Raw(epoch) < job_->epochs; epoch = Epoch{Raw(epoch) + 1}) {
    std::map<uint32_t, Rank> ranks;
    for (const auto& [id, start] : branch.starts) {
      Rank& rank = ranks[start.reader.index];
      const auto taken = start.steps.find(epoch);
      rank.steps += taken == start.steps.end() ? 0 : taken->second;
      rank.ended = rank.ended || start.ended.contains(epoch);
      rank.died = rank.died || branch.died.contains(id);
    }
    std::erase_if(ranks, [](const auto& item) { return !item.second.ended; });
    const auto one = std::find_if(ranks.begin(), ranks.end(), [](const auto& item) { return !item.second.died; });
    if (one == ranks.end()) continue;
    const uint64_t steps = one->second.steps;
    for (const auto& [index, rank] : ranks) {
      if (rank.died ? rank.steps >= steps : rank.steps == steps) continue;
      wrong.push_back("epoch " + std::to_string(Raw(epoch)) + " ended at step " + std::to_string(steps) + " for consumer " +
                      std::to_string(one->first) + " and at step " + std::to_string(rank.steps) + " for consumer " + std::to_string(index));
      break;
    }
  }
}

// Where loops are in step `pad` gives no more than one short batch, and fewer steps that repeat one than there are consumers. Where all rows make
// fewer batches than there are consumers, some would have none to repeat: each gets rows of its own.
void Ledger::CheckPadding(const Branch& branch, std::vector<std::string>& wrong) const {
  for (Epoch epoch{0}; Raw(epoch) < job_->epochs; epoch = Epoch{Raw(epoch) + 1}) {
    uint64_t steps = 0;
    std::set<uint32_t> ranks;
    for (const auto& [id, start] : branch.starts) {
      const auto taken = start.steps.find(epoch);
      if (taken == start.steps.end() || !start.ended.contains(epoch)) continue;
      steps += taken->second;
      ranks.insert(start.reader.index);
    }
    uint64_t rows = 0;
    for (const auto& [row, who] : branch.seen) rows += row.lane.epoch == epoch ? 1 : 0;
    const uint64_t batches = (rows + job_->layout.batch - 1) / job_->layout.batch;
    const auto shorter = branch.short_batches.find(epoch);
    const uint64_t short_batches = shorter == branch.short_batches.end() ? 0 : shorter->second;
    if (ranks.size() != branch.starts.size()) continue;
    const uint64_t may_be_short = job_->layout.drop_remainder ? 0 : batches < ranks.size() ? ranks.size() : 1;
    if (steps < batches + ranks.size() && short_batches <= may_be_short) continue;
    wrong.push_back("epoch " + std::to_string(Raw(epoch)) + " of " + std::to_string(rows) + " rows was padded to " + std::to_string(steps) +
                    " steps of " + std::to_string(ranks.size()) + " consumers, with " + std::to_string(short_batches) + " short batches");
  }
}

// In strict only a rank that is started anew gets again what it had, if its last words were not heard: its batches are nobody else's.
void Ledger::CheckRepeats(const Outcome& outcome, std::vector<std::string>& wrong) const {
  // Of a source row that became several the dispatcher counts whole ones.
  const bool countable = job_->multiplied == 0 || outcome.redelivered == 0;
  if (job_->mode != Mode::kStrict && countable && repeated() > outcome.redelivered) {
    wrong.push_back(std::to_string(repeated()) + " rows were delivered twice, and the dispatcher counted " + std::to_string(outcome.redelivered));
  }
  if (job_->mode != Mode::kStrict) return;
  for (const auto& [id, branch] : branches_) {
    for (const auto& [row, who] : branch.seen) {
      const auto lived = std::count_if(who.begin(), who.end(), [&](ConsumerId consumer) { return !branch.died.contains(consumer); });
      const uint32_t index = branch.starts.at(who.front()).reader.index;
      const bool others = std::any_of(who.begin(), who.end(), [&](ConsumerId consumer) { return branch.starts.at(consumer).reader.index != index; });
      if ((lived > 1 && !outcome.unheard) || others) return wrong.push_back(ToString(row) + " was delivered twice");
    }
  }
}

std::vector<std::string> Ledger::Check(const Outcome& outcome) const {
  std::vector<std::string> wrong;
  CheckRepeats(outcome, wrong);
  if (!branches_.contains(last_)) {
    if (!outcome.lost && !broken_) CheckCoverage({}, outcome, wrong);
    return wrong;
  }
  const Branch& last = branches_.at(last_);
  if (!broken_ && !outcome.lost) CheckCoverage(last, outcome, wrong);
  for (const auto& [id, branch] : branches_) CheckEven(branch, outcome, wrong);
  const bool padded = job_->even == Even::kPad && job_->mode == Mode::kShared && job_->lockstep;
  if (padded && !outcome.expired && last.died.empty()) CheckPadding(last, wrong);
  const bool again = job_->mode == Mode::kStrict && (!last.died.empty() || outcome.unheard);
  if (broken_ || outcome.expired || again || job_->even != Even::kUneven) return wrong;
  for (const auto& [epoch, count] : last.short_batches) {
    if (count > 1) wrong.push_back(std::to_string(count) + " short batches in epoch " + std::to_string(Raw(epoch)));
  }
  return wrong;
}

}  // namespace penstock::sim
