#include "dispatcher/settle.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/constants.h"
#include "base/planted.h"
#include "dispatcher/even.h"

namespace penstock::dispatcher {
namespace {

constexpr uint32_t kRangesEach = 2;  // a range past the lane's end costs an open: no more than this ahead

// One round over one job.
class Settler {
 public:
  Settler(Job& job, TimePoint now, Changes& changes) : job_(job), now_(now), changes_(changes) {}

  void Run() {
    OpenEpochs();
    for (auto& [epoch, state] : job_.open) {
      if (!Grantable(epoch)) break;
      DropUnwanted(state);
      Serve(state);
      HandOver(state);
      EvenOut(job_, state, now_, changes_);
      End(state);
    }
    Retire();
  }

 private:
  using Members = std::vector<Consumer*>;

  // ---- epochs
  void OpenEpochs() {
    for (const auto& [id, consumer] : job_.members) {
      if (!consumer.reads() || consumer.ended || consumer.epoch < job_.first_open || job_.open.contains(consumer.epoch)) continue;
      if (TooFarAhead(consumer.epoch) || (job_.epochs != 0 && Raw(consumer.epoch) >= job_.epochs)) continue;
      auto& state = job_.open.emplace(consumer.epoch, EpochState(consumer.epoch, job_.shape())).first->second;
      if (job_.mode != Mode::kReplicated) state.AddReplica(ReplicaId{0}, WorkerId{});
      for (const Replica& replica : job_.replicas) state.AddReplica(replica.replica, replica.worker);
      changes_.epochs.insert(consumer.epoch);
    }
  }

  // At most two epochs are read at a time. One that nobody reads any more does not count: what is left of it is with those who have gone on.
  bool TooFarAhead(Epoch epoch) {
    size_t behind = 0;
    for (uint32_t e = Raw(job_.first_open); e < Raw(epoch); ++e) behind += Readers(Epoch{e}).empty() ? 0 : 1;
    return behind > 1;
  }

  // Lanes of an epoch are granted when all of those before were. One that every loop has left before it began is not there at all.
  bool Grantable(Epoch epoch) {
    for (uint32_t e = Raw(job_.first_open); e < Raw(epoch); ++e) {
      auto it = job_.open.find(Epoch{e});
      if (it == job_.open.end() ? !Readers(Epoch{e}).empty() : !it->second.AllGranted()) return false;
    }
    return !TooFarAhead(epoch);
  }

  void Retire() {
    while (Over(job_.first_open)) {
      const Epoch done = job_.first_open;
      for (auto& [id, consumer] : job_.members) {
        if (consumer.epoch == done) Finished(consumer);
      }
      if (job_.open.erase(done) == 0) job_.dropped += job_.shape().lanes;
      job_.first_open = Epoch{Raw(done) + 1};
      job_.limits.erase(done);
      changes_.epochs.insert(done);
      changes_.job = true;
      OpenEpochs();
    }
    ForgetSteps();
  }

  // Of epochs that nobody reads any more.
  void ForgetSteps() {
    const size_t forgotten = std::erase_if(job_.steps, [&](const auto& item) {
      return item.first < job_.first_open &&
             std::none_of(job_.members.begin(), job_.members.end(), [&](const auto& member) { return member.second.epoch <= item.first; });
    });
    changes_.job = changes_.job || forgotten > 0;
  }

  bool Over(Epoch epoch) {
    if (auto state = job_.open.find(epoch); state != job_.open.end()) return state->second.Done();
    return Readers(epoch).empty() && SomebodyBeyond(epoch);
  }

  bool SomebodyBeyond(Epoch epoch) const {
    return std::any_of(job_.members.begin(), job_.members.end(), [&](const auto& item) { return item.second.reads() && item.second.epoch > epoch; });
  }

  void Finished(Consumer& consumer) {
    consumer.news = true;
    if (consumer.ended) return;
    consumer.ended = true;
    consumer.ending = false;
    changes_.members.insert(consumer.id);
  }

  // ---- who is there
  Members Readers(Epoch epoch) {
    Members readers;
    for (auto& [id, consumer] : job_.members) {
      if (consumer.reads() && !consumer.ended && consumer.epoch == epoch) readers.push_back(&consumer);
    }
    return readers;
  }

  // Its word that it is idle counts only if it knew of all its grants when it gave it.
  bool Idle(const Consumer& consumer) const {
    if (!consumer.idle) return false;
    return std::all_of(job_.open.begin(), job_.open.end(), [&](const auto& item) { return item.second.AllKnown(consumer.id); });
  }

  size_t HeldBy(const Consumer& consumer) const {
    size_t count = 0;
    for (const auto& [epoch, state] : job_.open) {
      if (const EpochState::Holder* holder = state.Find(consumer.id)) count += holder->size();
    }
    return count;
  }

  // ---- grants
  // One that is still in an earlier epoch will read this one too.
  bool AnyBehind(Epoch epoch) const {
    return std::any_of(job_.members.begin(), job_.members.end(), [&](const auto& item) { return item.second.reads() && item.second.epoch < epoch; });
  }

  // What the last reader left by `break`, and what came back after all were told how many steps they have (even).
  void DropUnwanted(EpochState& state) {
    const bool unread = Readers(state.epoch()).empty() && !AnyBehind(state.epoch()) && SomebodyBeyond(state.epoch());
    const bool evened = job_.steps.contains(state.epoch());
    const uint64_t dropped = (evened ? state.DropPool() : 0) + (unread ? state.DropUnwanted() : 0);
    if (dropped == 0) return;
    job_.dropped += dropped;
    changes_.job = true;
    changes_.epochs.insert(state.epoch());
  }

  // Those still in the epoch; if there are none, and none to come, what was orphaned goes to those who have gone on.
  Members Takers(EpochState& state) {
    Members takers = Readers(state.epoch());
    if (takers.empty() && !AnyBehind(state.epoch())) {
      for (auto& [id, consumer] : job_.members) {
        if (consumer.reads() && !consumer.ended && consumer.epoch > state.epoch()) takers.push_back(&consumer);
      }
    }
    std::erase_if(takers, [](const Consumer* consumer) { return consumer->ending; });
    std::sort(takers.begin(), takers.end(), [&](const Consumer* a, const Consumer* b) {
      return std::make_tuple(!Idle(*a), HeldBy(*a), Raw(a->id)) < std::make_tuple(!Idle(*b), HeldBy(*b), Raw(b->id));
    });
    return takers;
  }

  void Serve(EpochState& state) {
    if (state.Available() == 0 || Deal(state)) return;
    while (ServeRound(state)) {
    }
  }

  // False: nobody was given anything.
  bool ServeRound(EpochState& state) {
    const Members takers = Takers(state);
    if (takers.empty() || state.Available() == 0) return false;
    const uint64_t share = (state.Available() + takers.size() - 1) / takers.size();
    const bool evening = Evening(job_, state);
    const Parts parts = PartsOf(state);
    bool given = false;
    for (Consumer* consumer : takers) {
      if (evening && MarkOf(*consumer) > Least(takers) + EvenPiece(job_) / job_.inputs.layout.batch) continue;
      uint64_t room = std::min<uint64_t>(std::max<uint64_t>(consumer->want, Idle(*consumer) ? 1 : 0), share);
      if (evening || job_.shape().range_rows > 0)
        room = std::min<uint64_t>(room, kRangesEach - std::min<size_t>(kRangesEach, state.LiveHeld(consumer->id)));
      while (room-- > 0 && MayHaveMore(parts, *consumer) && Give(state, *consumer)) given = true;
    }
    return given && parts.limited();
  }

  // Even: how many lanes each consumer is to have.
  struct Parts {
    uint64_t each = msg::kNoLimit;
    uint64_t least = 0;  // mark of all
    bool limited() const { return each != msg::kNoLimit; }
  };

  // All end at one step, so whoever is quick gains nothing by more than its part: the others would be short of it. In the evening rows are dealt one
  // by one instead.
  Parts PartsOf(const EpochState& state) {
    const Members readers = Readers(state.epoch());
    if (!EndsEvenly(job_) || Evening(job_, state) || readers.empty()) return {};
    uint64_t lanes = state.Available();
    for (const Consumer* reader : readers) lanes += reader->lanes_had;
    return {.each = lanes / std::max<uint64_t>(readers.size(), job_.consumers), .least = Least(readers)};
  }

  // The one that can come least far may always: others may wait for its loop.
  static bool MayHaveMore(const Parts& parts, const Consumer& consumer) {
    return !parts.limited() || consumer.lanes_had < parts.each || MarkOf(consumer) <= parts.least;
  }

  static uint64_t Least(const Members& members) {
    uint64_t least = MarkOf(*members.front());
    for (const Consumer* consumer : members) least = std::min(least, MarkOf(*consumer));
    return least;
  }

  bool Give(EpochState& state, Consumer& consumer) {
    std::optional<msg::Grant> grant = state.TakeFromPool(consumer.id, Evening(job_, state) ? EvenPiece(job_) : 0);
    if (!grant.has_value()) grant = state.TakeLane(consumer.id);
    if (!grant.has_value()) return false;
    if (consumer.want > 0) --consumer.want;
    ++consumer.lanes_had;
    Given(state, consumer);
    return true;
  }

  void Given(const EpochState& state, Consumer& consumer) {
    consumer.news = true;
    changes_.members.insert(consumer.id);
    changes_.epochs.insert(state.epoch());
  }

  // What one gave up for another (even): so many rows to that one, the rest back. False: there is no such deal.
  bool Deal(EpochState& state) {
    const auto deal = job_.deals.find(state.epoch());
    if (deal == job_.deals.end()) return false;
    const Members readers = Readers(state.epoch());
    const auto find = [&](ConsumerId id) {
      const auto at = std::find_if(readers.begin(), readers.end(), [&](const Consumer* consumer) { return consumer->id == id; });
      return at == readers.end() ? nullptr : *at;
    };
    Consumer* to = find(deal->second.to);
    Consumer* from = find(deal->second.from);
    if (to == nullptr || from == nullptr) return job_.deals.erase(deal), false;
    while (!state.pool().empty()) {
      uint64_t& rows = deal->second.rows;
      Consumer& taker = rows > 0 ? *to : *from;
      const auto grant = state.TakeFromPool(taker.id, rows);
      rows -= std::min(rows, grant->range.to - grant->range.from.seq);
      Given(state, taker);
    }
    return true;
  }

  // ---- handover
  Members Needy(const EpochState& state) {
    Members needy = Readers(state.epoch());
    const Parts parts = PartsOf(state);
    std::erase_if(needy, [&](const Consumer* consumer) { return consumer->ending || !Idle(*consumer) || !MayHaveMore(parts, *consumer); });
    return needy;
  }

  void HandOver(EpochState& state) {
    const size_t needy = Needy(state).size();
    if (needy > 0) RecallFromBeyond(state);
    size_t coming = Coming(state);
    while (coming < needy && RevokeFromRichest(state)) ++coming;
  }

  // What was orphaned went to those who had gone on. One who has come into the epoch since reads it instead: they wait for it to end.
  void RecallFromBeyond(EpochState& state) {
    for (auto& [id, consumer] : job_.members) {
      EpochState::Holder* holder = consumer.epoch > state.epoch() && Idle(consumer) ? state.Find(id) : nullptr;
      if (holder == nullptr) continue;
      for (auto& [name, held] : *holder) {
        consumer.news = consumer.news || !held.revoked;
        held.revoked = true;
      }
    }
  }

  // Grants that are on their way back from those who still read.
  size_t Coming(const EpochState& state) const {
    size_t coming = 0;
    for (const auto& [id, holder] : state.holders()) {
      auto member = job_.members.find(id);
      if (member == job_.members.end() || member->second.ending) continue;
      for (const auto& [name, held] : holder) coming += held.revoked && !held.broken ? 1 : 0;
    }
    return coming;
  }

  bool RevokeFromRichest(EpochState& state) {
    Consumer* richest = nullptr;
    for (Consumer* consumer : Readers(state.epoch())) {
      if (consumer->ending || Idle(*consumer) || state.LiveHeld(consumer->id) < 2 || Silent(*consumer, now_)) continue;
      if (richest == nullptr || state.LiveHeld(consumer->id) > state.LiveHeld(richest->id)) richest = consumer;
    }
    if (richest == nullptr) return false;
    Held* best = nullptr;
    for (auto& [name, held] : *state.Find(richest->id)) {
      // A spare first; then the open lane with the fewest rows ready, which would be thrown away.
      if (!held.live()) continue;
      if (best == nullptr || std::make_pair(held.open, held.ready_rows) <= std::make_pair(best->open, best->ready_rows)) best = &held;
    }
    best->revoked = true;
    richest->news = true;
    if (Planted(Bug::kRevokeUnanswered)) state.GiveBackAll(richest->id, false);
    return true;
  }

  // ---- END
  void End(EpochState& state) {
    Members readers = Readers(state.epoch());
    if (readers.empty() || !state.AllGranted() || SomebodySilent(state) || Evening(job_, state)) return;
    if (job_.steps.contains(state.epoch())) return EndEvened(readers);
    Members staying = readers;
    std::erase_if(staying, [](const Consumer* consumer) { return consumer->ending; });
    if (staying.empty()) {  // those that were to stay are gone: choose again
      for (Consumer* consumer : readers) consumer->ending = false;
      staying = readers;
    }
    const bool nothing_left = PoolsEmpty(state.epoch());
    if (nothing_left && Coming(state) == 0) ChooseEnding(staying);
    for (Consumer* consumer : readers) {
      if (consumer->ending) TakeTails(*consumer);
    }
    if (nothing_left) TellKeeper(state, staying);
  }

  // Each drops its own tails at the last step: none go to another.
  void EndEvened(const Members& readers) {
    for (Consumer* consumer : readers) {
      if (Idle(*consumer) && HeldBy(*consumer) == 0) Finished(*consumer);
    }
  }

  bool PoolsEmpty(Epoch upto) const {
    return std::all_of(job_.open.begin(), job_.open.end(), [&](const auto& item) { return item.first > upto || item.second.pool().empty(); });
  }

  // The grants of one that may be dead come back when its lease ends: until then nobody is sent away.
  bool SomebodySilent(const EpochState& state) const {
    return std::any_of(state.holders().begin(), state.holders().end(), [&](const auto& item) {
      auto member = job_.members.find(item.first);
      return member != job_.members.end() && Silent(member->second, now_);
    });
  }

  // While others are at work every idle one goes; when all are idle, all but the one with most tail rows.
  void ChooseEnding(const Members& staying) {
    const bool at_work = std::any_of(staying.begin(), staying.end(), [&](const Consumer* consumer) { return !Idle(*consumer); });
    const Consumer* keeper = nullptr;
    if (!at_work) {
      keeper = *std::max_element(staying.begin(), staying.end(), [](const Consumer* a, const Consumer* b) { return a->tail_rows < b->tail_rows; });
    }
    for (Consumer* consumer : staying) {
      if (consumer != keeper && Idle(*consumer)) consumer->ending = true;
    }
  }

  void TakeTails(Consumer& consumer) {
    bool holds = false;
    for (auto& [epoch, state] : job_.open) {
      EpochState::Holder* holder = epoch > consumer.epoch ? nullptr : state.Find(consumer.id);
      if (holder == nullptr) continue;
      holds = true;
      for (auto& [name, held] : *holder) {
        consumer.news = consumer.news || !held.revoked;
        held.revoked = true;
      }
    }
    if (!holds) Finished(consumer);
  }

  // What it holds of this epoch and those before goes into the batches of its own, which waits for this one to end.
  bool GoneBeyond(ConsumerId id, Epoch epoch) const {
    const auto member = job_.members.find(id);
    return member != job_.members.end() && member->second.epoch > epoch;
  }

  // The last reader gets END with its tails: it delivers the one short batch.
  void TellKeeper(const EpochState& state, const Members& staying) {
    if (staying.size() != 1 || staying[0]->ending || !Idle(*staying[0]) || Readers(state.epoch()).size() != 1) return;
    for (const auto& [epoch, other] : job_.open) {
      if (epoch > state.epoch()) continue;
      for (const auto& [id, holder] : other.holders()) {
        if (id != staying[0]->id && GoneBeyond(id, state.epoch())) continue;
        if (id != staying[0]->id) return;
        if (std::any_of(holder.begin(), holder.end(), [](const auto& item) { return item.second.revoked; })) return;
      }
    }
    Finished(*staying[0]);
  }

  Job& job_;
  TimePoint now_;
  Changes& changes_;
};

}  // namespace

void Settle(Job& job, TimePoint now, Changes& changes) {
  if (job.mode == Mode::kStrict) return SettleStrict(job, changes);
  Settler(job, now, changes).Run();
}

}  // namespace penstock::dispatcher
