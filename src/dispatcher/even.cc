#include "dispatcher/even.h"

#include <algorithm>
#include <vector>

namespace penstock::dispatcher {
namespace {

constexpr uint64_t kPieceBatches = 4;
constexpr uint64_t kMostPadded = 8;  // batches that a loop is given twice

// One round over one epoch.
class Evener {
 public:
  Evener(Job& job, EpochState& state, TimePoint now, Changes& changes) : job_(job), state_(state), now_(now), changes_(changes) {
    for (auto& [id, consumer] : job_.members) {
      if (Counts(consumer)) members_.push_back(&consumer);
    }
    std::sort(members_.begin(), members_.end(), [](const Consumer* a, const Consumer* b) { return MarkOf(*a) < MarkOf(*b); });
  }

  void Run() {
    if (members_.empty()) return;
    const bool missing = SomebodyMissing();
    const bool behind = std::any_of(members_.begin(), members_.end(), [&](const Consumer* consumer) { return consumer->epoch < state_.epoch(); });
    SetLimit(missing || behind ? 0 : MarkOf(*members_.front()));
    if (missing || behind || Moving()) return;
    if (MoveToPoorest()) return;
    if (!Exhausted()) return;
    SetSteps();
  }

 private:
  // Who has gone on to a later epoch, or is dead and its lanes are with others, does not hold them up.
  bool Counts(const Consumer& consumer) const {
    return !consumer.undecided && consumer.epoch <= state_.epoch() && (!consumer.expired || job_.holds());
  }

  // A declared consumer that never came. One that delivered and has no seat has left.
  bool SomebodyMissing() {
    for (uint32_t index = 0; index < job_.consumers; ++index) {
      if (job_.Seated(index) == nullptr && !job_.delivered.contains(index)) return true;
    }
    return false;
  }

  // Rows are on their way from one to another, or one is not heard of.
  bool Moving() const {
    if (!state_.pool().empty()) return true;
    for (const auto& [id, holder] : state_.holders()) {
      if (std::any_of(holder.begin(), holder.end(), [](const auto& item) { return item.second.revoked; })) return true;
    }
    return std::any_of(members_.begin(), members_.end(), [&](const Consumer* consumer) {
      return consumer->expired || consumer->serial == 0 || Silent(*consumer, now_) || !state_.AllKnown(consumer->id);
    });
  }

  bool Exhausted() const {
    return std::all_of(members_.begin(), members_.end(), [&](const Consumer* consumer) { return state_.LiveHeld(consumer->id) == 0; });
  }

  // One that has nothing more to come takes from the one that can go furthest: of a lane that goes on, or of batches that are ready.
  bool MoveToPoorest() {
    Consumer& poorest = *members_.front();
    Consumer& richest = *members_.back();
    const uint64_t ahead = MarkOf(richest) - MarkOf(poorest);
    if (ahead < 2 || state_.LiveHeld(poorest.id) > 0) return false;
    EpochState::Holder* holder = state_.Find(richest.id);
    if (holder == nullptr) return false;
    Held* best = nullptr;
    uint64_t best_left = ahead;
    for (auto& [name, held] : *holder) {
      const uint64_t batches = held.ready_rows / job_.inputs.layout.batch;
      // More than a piece is dealt in pieces to both; one piece moves only if that makes them more alike, else it would go to and fro.
      const bool dealt = held.live() || batches > kPieceBatches;
      if (!dealt && (batches == 0 || batches >= ahead)) continue;
      const uint64_t left = dealt ? 0 : (2 * batches > ahead ? 2 * batches - ahead : ahead - 2 * batches);
      if (best != nullptr && left >= best_left) continue;
      best = &held;
      best_left = left;
    }
    if (best == nullptr) return false;
    best->revoked = true;
    richest.news = true;
    return true;
  }

  void SetLimit(uint64_t limit) {
    const auto [at, added] = job_.limits.try_emplace(state_.epoch(), limit);
    if (!added && at->second == limit) return;
    at->second = limit;
    TellAll();
  }

  void SetSteps() {
    const uint64_t least = MarkOf(*members_.front());
    uint64_t steps = job_.evens() == Even::kPad ? std::min(MarkOf(*members_.back()), least + kMostPadded) : least;
    // What a loop has it has: the others are padded up to it.
    for (const Consumer* consumer : members_) steps = std::max(steps, consumer->batches);
    job_.steps[state_.epoch()] = steps;
    job_.limits[state_.epoch()] = steps;
    changes_.job = true;
    TellAll();
  }

  void TellAll() {
    for (Consumer* consumer : members_) consumer->news = true;
  }

  Job& job_;
  EpochState& state_;
  TimePoint now_;
  Changes& changes_;
  std::vector<Consumer*> members_;  // those who read the epoch or will, the one that can come least far first
};

}  // namespace

bool EndsEvenly(const Job& job) { return job.mode == Mode::kShared && job.evens() != Even::kUneven; }

bool Evening(const Job& job, const EpochState& state) { return EndsEvenly(job) && state.AllGranted() && !job.steps.contains(state.epoch()); }

uint64_t EvenPiece(const Job& job) { return kPieceBatches * job.inputs.layout.batch; }

void EvenOut(Job& job, EpochState& state, TimePoint now, Changes& changes) {
  if (Evening(job, state)) Evener(job, state, now, changes).Run();
}

}  // namespace penstock::dispatcher
