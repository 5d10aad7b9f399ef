#include "dispatcher/even.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace penstock::dispatcher {
namespace {

constexpr uint64_t kPieceBatches = 4;

// One round over one epoch.
class Evener {
 public:
  Evener(Job& job, EpochState& state, TimePoint now, Changes& changes) : job_(job), state_(state), now_(now), changes_(changes) {
    for (auto& [id, consumer] : job_.members) {
      if (Counts(consumer)) members_.push_back(&consumer);
    }
  }

  // While lanes are left that nobody had, only this: no loop runs ahead of one that has not come yet, which would find too little left.
  void AwaitAll() {
    if (SomebodyMissing() || SomebodyBehind()) return SetLimit(0);
    if (job_.limits.erase(state_.epoch()) > 0) TellAll();
  }

  // Nothing is left that could come to anybody, so nobody is waited for: also one that is not heard of ends where the one is that came furthest.
  void Close() {
    std::erase_if(members_, [this](const Consumer* consumer) { return consumer->epoch < state_.epoch(); });  // they had none of it
    if (const uint64_t had = Had(); had > 0) SetSteps(had);
  }

  void Run() {
    if (members_.empty()) return;
    std::sort(members_.begin(), members_.end(), [](const Consumer* a, const Consumer* b) { return MarkOf(*a) < MarkOf(*b); });
    const bool awaited = SomebodyMissing() || SomebodyBehind();
    SetLimit(awaited ? 0 : MarkOf(*members_.front()));
    if (awaited || !state_.AllGranted() || Moving()) return;
    job_.deals.erase(state_.epoch());
    if (!Exhausted()) {
      MoveToPoorest();
    } else if (const uint64_t steps = Steps(); !Level(steps) && !JoinTails(steps) && !FeedEmptyHanded(steps)) {
      SetSteps(pads() ? PaddedSteps(steps) : steps);
    }
  }

 private:
  using Grant = EpochState::Holder::value_type;

  // Who has gone on to a later epoch, or is dead and its lanes are with others, does not hold them up.
  bool Counts(const Consumer& consumer) const {
    return !consumer.undecided && consumer.epoch <= state_.epoch() && (!consumer.expired || job_.holds());
  }

  // A declared consumer that never came, or has not begun. Once all were there, one without a seat has left: nobody waits for it.
  bool SomebodyMissing() {
    if (!job_.started) {
      std::set<uint32_t> came(job_.delivered.begin(), job_.delivered.end());
      for (const auto& [id, consumer] : job_.members) {
        if (!consumer.undecided) came.insert(consumer.index);
      }
      if (came.size() < job_.consumers) return true;
    }
    changes_.job = changes_.job || !job_.started;
    job_.started = true;
    return false;
  }

  // One that reads an earlier epoch will come to this one.
  bool SomebodyBehind() const {
    return std::any_of(members_.begin(), members_.end(), [&](const Consumer* consumer) { return consumer->epoch < state_.epoch(); });
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

  uint64_t batch() const { return job_.inputs.layout.batch; }
  bool pads() const { return job_.evens() == Even::kPad; }
  bool drops_remainder() const { return job_.inputs.layout.drop_remainder; }

  // That so many rows make in one place.
  uint64_t BatchesOf(uint64_t rows) const { return drops_remainder() ? rows / batch() : (rows + batch() - 1) / batch(); }

  uint64_t ReadyRows(const Consumer& consumer) const {
    uint64_t rows = 0;
    if (const EpochState::Holder* holder = state_.Find(consumer.id)) {
      for (const auto& [name, held] : *holder) rows += held.ready_rows;
    }
    return rows;
  }

  // That the consumer had, or has ready. No lane of it goes on.
  uint64_t RowsOf(const Consumer& consumer) const { return consumer.came.batches * batch() + ReadyRows(consumer); }

  // What those before it had is not with this start of its loop.
  static bool HadNone(const Consumer& consumer) { return consumer.came.batches == consumer.before.batches; }

  // As many as all rows make, were they dealt evenly: whole ones, or with `pad` the one that is begun, too. What a loop has it has.
  uint64_t Steps() const {
    uint64_t rows = 0;
    for (const Consumer* consumer : members_) rows += RowsOf(*consumer);
    const uint64_t each = members_.size();
    return std::max(Had(), pads() ? (BatchesOf(rows) + each - 1) / each : rows / (batch() * each));
  }

  uint64_t Had() const {
    uint64_t had = 0;
    for (const Consumer* consumer : members_) had = std::max(had, consumer->came.batches);
    return had;
  }

  // One that has no row of the epoch has nothing to repeat. Fewer rows than loops are left, after a restore near the end, or for those who were
  // started anew there: there is no step for all beyond what they had.
  uint64_t PaddedSteps(uint64_t steps) const {
    const uint64_t padded = std::max(steps, StepsOfRichest());
    return EmptyHanded(padded) != nullptr && EmptyHanded(Had()) == nullptr ? Had() : padded;
  }

  // One that has too few batches, and none of its own to repeat; nullptr where each has something.
  const Consumer* EmptyHanded(uint64_t steps) const {
    const auto at = std::find_if(members_.begin(), members_.end(), [&](const Consumer* consumer) {
      return consumer->came.batches < steps && HadNone(*consumer) && ReadyRows(*consumer) < LeastBatch();
    });
    return at == members_.end() ? nullptr : *at;
  }

  // A row is enough to make a batch of, but where short ones are dropped.
  uint64_t LeastBatch() const { return drops_remainder() ? batch() : 1; }

  // What it lacks for a batch comes from one that can repeat what it had, or else from one that keeps a batch of its own. False: nobody lacks any, or
  // nobody has any to give.
  bool FeedEmptyHanded(uint64_t steps) {
    const Consumer* to = EmptyHanded(pads() ? std::max(steps, StepsOfRichest()) : steps);
    if (to == nullptr) return false;
    const uint64_t lacks = LeastBatch() - ReadyRows(*to);
    return GivesTo(*to, lacks, [](const Consumer& from) { return !HadNone(from); }) ||
           GivesTo(*to, lacks, [&](const Consumer& from) { return ReadyRows(from) >= LeastBatch() + lacks; });
  }

  bool GivesTo(const Consumer& to, uint64_t rows, const auto& may) {
    for (Consumer* from : members_) {
      EpochState::Holder* holder = may(*from) ? state_.Find(from->id) : nullptr;
      if (holder == nullptr) continue;
      const auto given = std::find_if(holder->begin(), holder->end(), [](const Grant& grant) { return grant.second.ready_rows > 0; });
      if (given == holder->end()) continue;
      Move(*from, *given, to, HadNone(*from) ? ShareOf(given->second, rows, ReadyRows(*from) - ReadyRows(to)) : Share{.seqs = rows});
      return true;
    }
    return false;
  }

  // One that has no batch to repeat keeps its last row, and `pad` does not lose it.
  uint64_t StepsOfRichest() const {
    uint64_t most = 0;
    for (const Consumer* consumer : members_) most = std::max(most, RowsOf(*consumer));
    return BatchesOf(most);
  }

  // One has more than its steps take and another too few: what is missing there is dealt to it. False: nothing is to be moved.
  bool Level(uint64_t steps) {
    const auto fewer = [this](const Consumer* a, const Consumer* b) { return RowsOf(*a) < RowsOf(*b); };
    const auto [poorest, richest] = std::minmax_element(members_.begin(), members_.end(), fewer);
    const uint64_t least = RowsOf(**poorest);
    const uint64_t most = RowsOf(**richest);
    const uint64_t whole = steps * batch();
    uint64_t rows = least < whole && most > whole ? std::min(whole - least, most - whole) : 0;
    EpochState::Holder* holder = rows > 0 ? state_.Find((*richest)->id) : nullptr;
    if (holder == nullptr) return false;
    Grant* best = nullptr;
    for (Grant& grant : *holder) {
      const Held& held = grant.second;
      const bool all_it_has = HadNone(**richest) && held.ready_rows == ReadyRows(**richest);
      if (held.ready_rows == 0 || (pads() && all_it_has && held.ready_rows == 1)) continue;  // nothing would be left to repeat
      // The smallest that has so many; else the largest.
      const auto rank = [rows](const Held& h) {
        return h.ready_rows >= rows ? std::pair(uint64_t{1}, ~h.ready_rows) : std::pair(uint64_t{0}, h.ready_rows);
      };
      if (best == nullptr || rank(held) > rank(best->second)) best = &grant;
    }
    if (best == nullptr) return false;
    Move(**richest, *best, **poorest, ShareOf(best->second, rows, most - least));
    return true;
  }

  // `pad`: what is less than a batch in several places makes whole ones in fewer, so that one is short in all (or is dropped, where short ones are)
  // and no more are repeated than all rows together make necessary. It goes to the one that can come least far: another's memory may be full, and
  // what goes on there is taken from it (MoveToPoorest). Each time a tail goes, or two are less alike, or what is given is divided: it ends. False:
  // nothing moves.
  bool JoinTails(uint64_t steps) {
    std::vector<Consumer*> tails;
    for (Consumer* consumer : members_) {
      const bool used = RowsOf(*consumer) / batch() < steps;  // beyond the steps it is of no use to anybody
      if (pads() && used && TailOf(*consumer) > 0) tails.push_back(consumer);
    }
    if (tails.size() < 2) return false;
    const auto rank = [this](const Consumer* consumer) {
      return std::tuple(MarkOf(*consumer), !LivesOfTail(*consumer), batch() - TailOf(*consumer));
    };
    const auto to = std::min_element(tails.begin(), tails.end(), [&](const Consumer* a, const Consumer* b) { return rank(a) < rank(b); });
    Consumer* from = nullptr;
    for (Consumer* consumer : tails) {
      if (consumer != *to && SpareOfTail(*consumer) > 0 && (from == nullptr || TailOf(*consumer) < TailOf(*from))) from = consumer;
    }
    if (from == nullptr) return false;
    const uint64_t rows = std::min(SpareOfTail(*from), batch() - TailOf(**to));
    Grant& given = BestOfTail(*from, rows);
    Move(*from, given, **to, given.second.ready_rows <= rows ? Share{} : ShareOf(given.second, rows, 0));
    return true;
  }

  uint64_t TailOf(const Consumer& consumer) const { return RowsOf(consumer) % batch(); }

  // It has no batch but what it keeps of its tail. More rows do not change that before they make a whole one, so who is given some stays the one
  // that is given more.
  bool LivesOfTail(const Consumer& consumer) const { return HadNone(consumer) && ReadyRows(consumer) - TailOf(consumer) < LeastBatch(); }

  // What of it may go to another: one that has no batch to repeat keeps one.
  uint64_t SpareOfTail(const Consumer& consumer) const {
    const uint64_t kept = HadNone(consumer) ? LeastBatch() : 0;
    return std::min(TailOf(consumer), ReadyRows(consumer) - std::min(ReadyRows(consumer), kept));
  }

  // A whole grant, the largest that is not more than that: of those alone it is known how many rows move. Else the smallest, to be divided.
  Grant& BestOfTail(const Consumer& from, uint64_t rows) {
    const auto rank = [rows](const Held& h) { return h.ready_rows <= rows ? std::pair(1, h.ready_rows) : std::pair(0, ~h.ready_rows); };
    Grant* best = nullptr;
    for (Grant& grant : *state_.Find(from.id)) {
      if (grant.second.ready_rows > 0 && (best == nullptr || rank(grant.second) > rank(best->second))) best = &grant;
    }
    return *best;
  }

  // Of so many rows of it. Each source row may have become several, which is known only where it is the last: where all of them would only change
  // who has too much (by `ahead`), fewer source rows move, and in the end some rows of one.
  static Share ShareOf(const Held& held, uint64_t rows, uint64_t ahead) {
    if (SeqsLeft(held) > 1) return {.seqs = held.ready_rows < ahead ? rows : std::min(rows, SeqsLeft(held) - 1)};
    if (held.ready_rows <= rows) return {};
    return {.children = static_cast<uint32_t>(std::min<uint64_t>(rows, std::numeric_limits<uint32_t>::max()))};
  }

  // One that has nothing more to come takes from the one that can go furthest, or the next that has something to give: a lane that goes on may be
  // with another, whose memory is full and who waits for the limit.
  void MoveToPoorest() {
    Consumer& poorest = *members_.front();
    if (state_.LiveHeld(poorest.id) > 0) return;
    for (auto richer = members_.rbegin(); richer != members_.rend(); ++richer) {
      if (MoveFrom(**richer, poorest)) return;
    }
  }

  // Of a lane that goes on, or of batches that are ready. False: nothing that it has would make them more alike.
  bool MoveFrom(Consumer& richest, const Consumer& poorest) {
    const uint64_t ahead = MarkOf(richest) - MarkOf(poorest);
    EpochState::Holder* holder = state_.Find(richest.id);
    if (ahead == 0 || holder == nullptr) return false;
    Grant* best = nullptr;
    Grant* halved = nullptr;
    uint64_t best_left = ahead;
    bool in_pieces = false;
    for (Grant& grant : *holder) {
      const Held& held = grant.second;
      const uint64_t batches = held.ready_rows / batch();
      // More than a piece is dealt in pieces to both; one piece moves only if that makes them more alike, else it would go to and fro.
      const bool dealt = SeqsLeft(held) > EvenPiece(job_) && (held.live() || batches > kPieceBatches);
      const bool small = batches < ahead && (batches > 0 || held.live());
      if (!dealt && !small) {
        if (held.live() && SeqsLeft(held) > 1) halved = &grant;
        continue;
      }
      const uint64_t left = dealt ? 0 : (2 * batches > ahead ? 2 * batches - ahead : ahead - 2 * batches);
      if (best != nullptr && left >= best_left) continue;
      best = &grant;
      best_left = left;
      in_pieces = dealt;
    }
    if (best == nullptr && halved == nullptr) return false;
    Grant& moved = best != nullptr ? *best : *halved;
    const uint64_t seqs = best != nullptr ? SeqsLeft(moved.second) : SeqsLeft(moved.second) / 2;
    if (in_pieces) {
      CallBack(richest, moved);
    } else {
      Move(richest, moved, poorest, {.seqs = seqs});
    }
    return true;
  }

  void Move(Consumer& from, Grant& grant, const Consumer& to, Share share) {
    CallBack(from, grant);
    job_.deals[state_.epoch()] = {.to = to.id, .share = share, .from = from.id, .grant = grant.first};
  }

  static void CallBack(Consumer& holder, Grant& grant) {
    grant.second.revoked = true;
    holder.news = true;
  }

  static uint64_t SeqsLeft(const Held& held) { return held.to - std::min(held.to, std::max(held.from, held.asked).seq); }

  void SetLimit(uint64_t limit) {
    const auto [at, added] = job_.limits.try_emplace(state_.epoch(), limit);
    if (!added && at->second == limit) return;
    at->second = limit;
    TellAll();
  }

  void SetSteps(uint64_t steps) {
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
  std::vector<Consumer*> members_;  // those who read the epoch or will; in Run the one that can come least far first
};

}  // namespace

// One alone has nobody to end with.
bool EndsEvenly(const Job& job) { return job.mode == Mode::kShared && job.evens() != Even::kUneven && job.consumers > 1; }

bool Evening(const Job& job, const EpochState& state) {
  const bool from_here_on = state.AllGranted() || job.shape().range_rows > 0;
  return EndsEvenly(job) && from_here_on && !job.steps.contains(state.epoch());
}

uint64_t EvenPiece(const Job& job) { return kPieceBatches * job.inputs.layout.batch; }

void EvenOut(Job& job, EpochState& state, TimePoint now, Changes& changes) {
  if (!EndsEvenly(job) || job.steps.contains(state.epoch())) return;
  Evener evener(job, state, now, changes);
  if (state.Done()) return evener.Close();
  if (Evening(job, state)) return evener.Run();
  evener.AwaitAll();
}

}  // namespace penstock::dispatcher
