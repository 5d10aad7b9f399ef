#include "dispatcher/settle.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/constants.h"
#include "base/planted.h"
#include "dispatcher/even.h"
#include "dispatcher/readers.h"

namespace penstock::dispatcher {
namespace {

constexpr uint32_t kRangesEach = 2;  // a range past the lane's end costs an open: no more than this ahead
constexpr Duration kQuickRange = std::chrono::milliseconds(50);
constexpr Duration kSlowRange = std::chrono::milliseconds(500);
constexpr uint32_t kMostStretch = 64;

// One round over one job.
class Settler {
 public:
  Settler(Job& job, TimePoint now, Changes& changes) : job_(job), roster_(job), now_(now), changes_(changes) {}

  void Run() {
    OpenEpochs();
    for (auto& [epoch, state] : job_.open) {
      if (!Grantable(epoch)) break;
      DropUnwanted(state);
      Serve(state);
      HandOver(state);
      EvenOut(job_, state, now_, changes_);
      EndReaders(job_, roster_, state, now_, changes_);
    }
    Retire();
  }

 private:
  // ---- epochs
  void OpenEpochs() {
    for (const auto& [epoch, members] : roster_.epochs()) {
      if (epoch < job_.first_open || job_.open.contains(epoch) || !roster_.IsRead(epoch)) continue;
      if (TooFarAhead(epoch) || (job_.epochs != 0 && Raw(epoch) >= job_.epochs)) continue;
      auto& state = job_.open.emplace(epoch, EpochState(epoch, job_.shape())).first->second;
      if (job_.mode != Mode::kReplicated) state.AddReplica(ReplicaId{0}, WorkerId{});
      for (const Replica& replica : job_.replicas) state.AddReplica(replica.replica, replica.worker);
      changes_.epochs.insert(epoch);
    }
  }

  // At most two epochs are read at a time. One that nobody reads any more does not count: what is left of it is with those who have gone on.
  bool TooFarAhead(Epoch epoch) { return ReadEpochsBefore(epoch).size() > 1; }

  std::set<Epoch> ReadEpochsBefore(Epoch epoch) const {
    std::set<Epoch> epochs;
    for (const auto& [read, members] : roster_.epochs()) {
      if (read >= job_.first_open && read < epoch && roster_.IsRead(read)) epochs.insert(read);
    }
    return epochs;
  }

  // Lanes of an epoch are granted when all of those before were. One that every loop has left before it began is not there at all.
  bool Grantable(Epoch epoch) {
    for (auto state = job_.open.begin(); state != job_.open.end() && state->first < epoch; ++state) {
      if (!state->second.AllGranted()) return false;
    }
    const std::set<Epoch> read = ReadEpochsBefore(epoch);
    const bool all_begun = std::all_of(read.begin(), read.end(), [&](Epoch earlier) { return job_.open.contains(earlier); });
    return all_begun && read.size() <= 1;
  }

  void Retire() {
    while (Over(job_.first_open)) {
      const Epoch done = job_.first_open;
      for (auto& [id, consumer] : job_.members) {
        if (consumer.epoch == done) TellEnd(consumer, changes_);
      }
      const bool begun = job_.open.erase(done) > 0;
      job_.first_open = begun ? Epoch{Raw(done) + 1} : NextWanted();
      if (!begun) job_.dropped += uint64_t{job_.shape().lanes} * (Raw(job_.first_open) - Raw(done));
      std::erase_if(job_.limits, [&](const auto& item) { return item.first < job_.first_open; });
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
    return !roster_.IsRead(epoch) && roster_.AnyBeyond(epoch);
  }

  // The first epoch after those that every loop has left before they began.
  Epoch NextWanted() const {
    Epoch next{std::numeric_limits<uint32_t>::max()};
    if (!job_.open.empty()) next = job_.open.begin()->first;
    const auto later = roster_.epochs().upper_bound(job_.first_open);
    return later == roster_.epochs().end() ? next : std::min(next, later->first);
  }

  // ---- grants
  // Each was told how many steps it has, and holds the rows for them: what one gave up now nobody would have a step for.
  bool Evened(const EpochState& state) const { return job_.steps.contains(state.epoch()); }

  // What the last reader left by `break`, and what came back after all were told how many steps they have (even).
  void DropUnwanted(EpochState& state) {
    const Epoch epoch = state.epoch();
    const bool unread = !roster_.IsRead(epoch) && !roster_.AnyBefore(epoch) && roster_.AnyBeyond(epoch);
    const uint64_t dropped = (Evened(state) ? state.DropPool() : 0) + (unread ? state.DropUnwanted() : 0);
    if (dropped == 0) return;
    job_.dropped += dropped;
    changes_.job = true;
    changes_.epochs.insert(state.epoch());
  }

  // Those still in the epoch; if there are none, and none to come, what was orphaned goes to those who have gone on. (One that is still in an
  // earlier epoch will read this one too.)
  Members Takers(EpochState& state) {
    Members takers = roster_.Readers(state.epoch());
    if (takers.empty() && !roster_.AnyBefore(state.epoch())) {
      for (const auto& [epoch, members] : roster_.epochs()) {
        if (epoch <= state.epoch()) continue;
        const Members ahead = roster_.Readers(epoch);
        takers.insert(takers.end(), ahead.begin(), ahead.end());
      }
    }
    std::erase_if(takers, [](const Consumer* consumer) { return consumer->ending; });
    return takers;
  }

  // Those that want something, who has nothing first.
  struct Wish {
    bool busy = false;
    size_t held = 0;
    Consumer* consumer = nullptr;
  };
  std::vector<Wish> Wishes(const Members& takers) const {
    std::vector<Wish> wishes;
    for (Consumer* consumer : takers) {
      const bool idle = Idle(job_, *consumer);
      if (consumer->want > 0 || idle) wishes.push_back({!idle, HeldBy(job_, *consumer), consumer});
    }
    std::sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) {
      return std::make_tuple(a.busy, a.held, Raw(a.consumer->id)) < std::make_tuple(b.busy, b.held, Raw(b.consumer->id));
    });
    return wishes;
  }

  void Serve(EpochState& state) {
    if (state.Available() == 0) return;
    Deal(state);
    while (ServeRound(state)) {
    }
  }

  // False: nobody was given anything.
  bool ServeRound(EpochState& state) {
    const Members takers = Takers(state);
    const std::vector<Wish> wishes = Wishes(takers);
    if (wishes.empty() || state.Available() == 0) return false;
    const uint64_t share = (state.Available() + takers.size() - 1) / takers.size();
    const bool evening = Evening(job_, state);
    const Parts parts = PartsOf(state);
    const uint64_t least = evening ? LeastOf(takers, state.epoch()) : 0;
    bool given = false;
    for (const auto& [busy, held, consumer] : wishes) {
      if (evening && MarkOf(*consumer) > least + EvenPiece(job_) / job_.inputs.layout.batch) continue;
      uint64_t room = std::min<uint64_t>(std::max<uint64_t>(consumer->want, busy ? 0 : 1), share);
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
    if (!EndsEvenly(job_) || Evening(job_, state) || !roster_.IsRead(state.epoch())) return {};
    const Members readers = roster_.Readers(state.epoch());
    uint64_t lanes = state.Available();
    for (const Consumer* reader : readers) lanes += reader->lanes_had;
    return {.each = lanes / std::max<uint64_t>(readers.size(), job_.consumers), .least = LeastOf(readers, state.epoch())};
  }

  // The one that can come least far may always: others may wait for its loop.
  static bool MayHaveMore(const Parts& parts, const Consumer& consumer) {
    return !parts.limited() || consumer.lanes_had < parts.each || MarkOf(consumer) <= parts.least;
  }

  // One that is still in an earlier epoch has come nowhere in this one.
  uint64_t LeastOf(const Members& members, Epoch epoch) const {
    if (roster_.AnyBefore(epoch)) return 0;
    uint64_t least = MarkOf(*members.front());
    for (const Consumer* consumer : members) least = std::min(least, MarkOf(*consumer));
    return least;
  }

  bool Give(EpochState& state, Consumer& consumer) {
    std::optional<msg::Grant> grant = state.TakeFromPool(consumer.id, {.seqs = Evening(job_, state) ? EvenPiece(job_) : 0});
    if (!grant.has_value()) grant = state.TakeLane(consumer.id, Stretch(state, consumer));
    if (!grant.has_value()) return false;
    if (consumer.want > 0) --consumer.want;
    ++consumer.lanes_had;
    Given(state, consumer);
    return true;
  }

  // One that reads alone and is through with a range sooner than a beat and its answer take would wait for each: it gets longer ones. Beside others
  // ranges stay small, since who has the next one waits for all of those before.
  uint32_t Stretch(const EpochState& state, Consumer& consumer) const {
    if (job_.shape().range_rows == 0) return 1;
    const std::optional<TimePoint> last = std::exchange(consumer.ranged_at, now_);
    if (!last || job_.consumers > 1 || roster_.CountReaders(state.epoch()) > 1) return consumer.stretch = 1;
    if (now_ - *last < kQuickRange) consumer.stretch = std::min(2 * consumer.stretch, kMostStretch);
    if (now_ - *last > kSlowRange) consumer.stretch = std::max(consumer.stretch / 2, 1U);
    return consumer.stretch;
  }

  void Given(const EpochState& state, Consumer& consumer) {
    consumer.news = true;
    changes_.members.insert(consumer.id);
    changes_.epochs.insert(state.epoch());
  }

  // What one gave up for another (even): so many rows to that one, the rest back. What else came back meanwhile is nobody's.
  void Deal(EpochState& state) {
    const auto found = job_.deals.find(state.epoch());
    if (found == job_.deals.end()) return;
    const EvenDeal deal = found->second;
    const Members readers = roster_.Readers(state.epoch());
    const auto find = [&](ConsumerId id) {
      const auto at = std::find_if(readers.begin(), readers.end(), [&](const Consumer* consumer) { return consumer->id == id; });
      return at == readers.end() ? nullptr : *at;
    };
    Consumer* to = find(deal.to);
    Consumer* from = find(deal.from);
    const bool off = to == nullptr || from == nullptr;
    if (!off && !state.TakeBack(to->id, deal.grant, deal.share)) return;
    job_.deals.erase(found);
    if (off) return;
    Given(state, *to);
    if (state.TakeBack(from->id, deal.grant)) Given(state, *from);
  }

  // ---- handover
  size_t CountNeedy(const EpochState& state) {
    const Members& members = roster_.In(state.epoch());
    const Parts parts = PartsOf(state);
    return static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](const Consumer* consumer) {
      return !consumer->ended && !consumer->ending && Idle(job_, *consumer) && MayHaveMore(parts, *consumer);
    }));
  }

  // After a restart of its rank an ended lane looks like one that goes on, until its end has come again.
  void HandOver(EpochState& state) {
    if (Evened(state)) return;
    const size_t needy = CountNeedy(state);
    if (needy == 0) return;  // most beats: to count what is on its way is to look at every grant
    RecallFromBeyond(state);
    size_t coming = ComingBack(job_, state);
    while (coming < needy && RevokeFromRichest(state)) ++coming;
  }

  // What was orphaned went to those who had gone on. One who has come into the epoch since reads it instead: they wait for it to end.
  void RecallFromBeyond(EpochState& state) {
    for (auto& [id, consumer] : job_.members) {
      EpochState::Holder* holder = consumer.epoch > state.epoch() && Idle(job_, consumer) ? state.Find(id) : nullptr;
      if (holder == nullptr) continue;
      for (auto& [name, held] : *holder) {
        consumer.news = consumer.news || !held.revoked;
        held.revoked = true;
      }
    }
  }

  bool RevokeFromRichest(EpochState& state) {
    Consumer* richest = nullptr;
    for (Consumer* consumer : roster_.Readers(state.epoch())) {
      if (consumer->ending || Idle(job_, *consumer) || state.LiveHeld(consumer->id) < 2 || Silent(*consumer, now_)) continue;
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

  Job& job_;
  const Roster roster_;
  TimePoint now_;
  Changes& changes_;
};

}  // namespace

void Settle(Job& job, TimePoint now, Changes& changes) {
  if (job.mode == Mode::kStrict) return SettleStrict(job, changes);
  Settler(job, now, changes).Run();
}

}  // namespace penstock::dispatcher
