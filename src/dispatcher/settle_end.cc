// When the consumers of an epoch are told its END (docs/design/shared.md, "Tails and END").
#include <algorithm>

#include "dispatcher/even.h"
#include "dispatcher/readers.h"

namespace penstock::dispatcher {
namespace {

class Ender {
 public:
  Ender(Job& job, const Roster& roster, TimePoint now, Changes& changes) : job_(job), roster_(roster), now_(now), changes_(changes) {}

  void Run(EpochState& state) {
    if (!state.AllGranted()) return CallOffEnding(roster_.In(state.epoch()));  // a worker has come since: its replica is for them to read
    const Members readers = roster_.Readers(state.epoch());
    if (readers.empty() || SomebodySilent(state) || Evening(job_, state)) return;
    if (job_.steps.contains(state.epoch())) return EndEvened(readers);
    Members staying = readers;
    std::erase_if(staying, [](const Consumer* consumer) { return consumer->ending; });
    if (staying.empty()) {  // those that were to stay are gone: choose again
      CallOffEnding(readers);
      staying = readers;
    }
    const bool nothing_left = PoolsEmpty(state.epoch());
    if (nothing_left && ComingBack(job_, state) == 0) ChooseEnding(staying);
    for (Consumer* consumer : readers) {
      if (consumer->ending) TakeTails(*consumer);
    }
    if (nothing_left) TellKeeper(state, staying);
  }

 private:
  static void CallOffEnding(const Members& readers) {
    for (Consumer* consumer : readers) consumer->ending = false;
  }

  // Each drops its own tails at the last step: none go to another.
  void EndEvened(const Members& readers) {
    for (Consumer* consumer : readers) {
      if (Idle(job_, *consumer) && HeldBy(job_, *consumer) == 0) TellEnd(*consumer, changes_);
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
    const bool at_work = std::any_of(staying.begin(), staying.end(), [&](const Consumer* consumer) { return !Idle(job_, *consumer); });
    const Consumer* keeper = nullptr;
    if (!at_work) {
      keeper = *std::max_element(staying.begin(), staying.end(), [](const Consumer* a, const Consumer* b) { return a->tail_rows < b->tail_rows; });
    }
    for (Consumer* consumer : staying) {
      if (consumer != keeper && Idle(job_, *consumer)) consumer->ending = true;
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
    if (!holds) TellEnd(consumer, changes_);
  }

  // What it holds of this epoch and those before goes into the batches of its own, which waits for this one to end.
  bool GoneBeyond(ConsumerId id, Epoch epoch) const {
    const auto member = job_.members.find(id);
    return member != job_.members.end() && member->second.epoch > epoch;
  }

  // The last reader gets END with its tails: it delivers the one short batch.
  void TellKeeper(const EpochState& state, const Members& staying) {
    if (staying.size() != 1 || staying[0]->ending || !Idle(job_, *staying[0]) || roster_.CountReaders(state.epoch()) != 1) return;
    for (const auto& [epoch, other] : job_.open) {
      if (epoch > state.epoch()) continue;
      for (const auto& [id, holder] : other.holders()) {
        if (id != staying[0]->id && GoneBeyond(id, state.epoch())) continue;
        if (id != staying[0]->id) return;
        if (std::any_of(holder.begin(), holder.end(), [](const auto& item) { return item.second.revoked; })) return;
      }
    }
    TellEnd(*staying[0], changes_);
  }

  Job& job_;
  const Roster& roster_;
  TimePoint now_;
  Changes& changes_;
};

}  // namespace

void EndReaders(Job& job, const Roster& roster, EpochState& state, TimePoint now, Changes& changes) { Ender(job, roster, now, changes).Run(state); }

}  // namespace penstock::dispatcher
