// What the dispatcher knows: jobs with their consumers and epochs, workers, tombstones. Plain data; core.cc and its neighbours change it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/constants.h"
#include "dispatcher/epoch_state.h"
#include "penstock/ids.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock::dispatcher {

// How far the loops of a seat came.
struct Steps {
  uint64_t batches = 0;  // of its epoch that a loop has
  uint64_t tag = 0;      // of the last that it came back after (client/delivery_log.h)…
  uint64_t began = 0;    // …and when its epoch began
  // Batches of its epoch that a loop came back after: the next comes again to who is started anew.
  uint64_t asked() const { return std::min(batches, tag - std::min(tag, began)); }
};

// What loops have had, as their beats say.
struct Figures {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t wire_bytes = 0;
  uint64_t wait_ns = 0;
  void Add(const Figures& other) {
    rows += other.rows;
    bytes += other.bytes;
    wire_bytes += other.wire_bytes;
    wait_ns += other.wait_ns;
  }
  Figures Since(const Figures& earlier) const {
    return {rows - std::min(rows, earlier.rows), bytes - std::min(bytes, earlier.bytes), wire_bytes - std::min(wire_bytes, earlier.wire_bytes),
            wait_ns - std::min(wait_ns, earlier.wait_ns)};
  }
};

struct Consumer {
  ConsumerId id{};
  uint32_t index = 0;
  std::string name;
  Epoch epoch{};           // the one it reads
  bool ended = false;      // it was told END of that; strict: it said so
  bool expired = false;    // its lease ran out; a beat revives it
  bool undecided = false;  // it has no seat yet: it may restore, or begin (docs/design/positions.md, "A rank that is started anew")
  uint32_t declared = 0;   // the number of consumers that it declared
  uint64_t attempt = 0;
  uint32_t places = 0;  // that it asked for; 0: whatever the job has
  OnRestart on_restart = OnRestart::kError;
  std::string position{};  // strict: at its asked mark; of an undecided one: at that of the one before it
  Steps before{};          // those who sat here before it: its own beats do not count their batches
  Steps stored{};          // `came`, when it was stored last

  // Not stored.
  SessionId session{};
  TimePoint heard;
  uint64_t serial = 0;
  uint32_t want = 0;
  bool idle = false;
  uint64_t tail_rows = 0;
  bool ending = false;                    // it gives back its tails and gets END
  bool news = false;                      // its next reply differs from the last
  uint64_t knows_workers = 0;             // which list of workers it has, as its last beat said
  std::pair<SessionId, uint64_t> told{};  // which one it was sent, and on which session…
  TimePoint told_at{};                    // …when…
  uint64_t told_serial = 0;               // …and in answer to which beat
  Figures had{};                          // since it was opened…
  std::optional<Figures> had_before{};    // …and when it beat first since the dispatcher started
  bool begun = false;                     // undecided, and it reads without a restore: it waits for its seat
  Steps came{};                           // that its loop has, and those before it had…
  uint64_t ready_batches = 0;             // …and whole batches beyond these
  std::optional<TimePoint> ranged_at{};   // when it was last given a range of a lane…
  uint32_t stretch = 1;                   // …and how many ranges' rows that had
  uint64_t lanes_had = 0;                 // of its epoch, since the dispatcher knows it; those that it gave back unread do not count

  bool reads() const { return !expired && !undecided; }
  Figures watched() const { return had_before ? had.Since(*had_before) : Figures{}; }
};

// It may be dead: not heard of for a while, or its connection ended and it has not come back.
inline bool Silent(const Consumer& consumer, TimePoint now) { return now - consumer.heard > kSilence || consumer.session == SessionId{}; }

// How far one of the declared consumers came that has left: whoever is started anew at its index counts on from there. Strict: nobody takes over its
// batches.
struct VacantSeat {
  std::string name;  // of the one that left
  Epoch epoch{};
  bool ended = false;
  std::string position;  // strict
  Steps came{};
  ConsumerId left{};  // which that was: it does not come back
};

// Strict: has that one (a Consumer, or who left a VacantSeat) come to the end of the epoch?
template <class Seat>
bool Through(const Seat& seat, Epoch epoch) {
  return seat.epoch > epoch || (seat.epoch == epoch && seat.ended);
}

struct Dataset {
  std::string plan;
  TimePoint used;  // registered, asked for, or read by a job. Not stored: after a restart all count as just used
};

struct Replica {
  ReplicaId replica{};
  WorkerId worker{};
  friend bool operator==(const Replica&, const Replica&) = default;
};

// Even: rows that one gives up so that another comes as far.
struct EvenDeal {
  ConsumerId to{};
  Share share{};  // to be given; what is left after it goes back
  ConsumerId from{};
  GrantName grant{};  // that is called back for it
};

struct Job {
  JobId id{};
  std::string name;
  bool anonymous = false;
  std::string dataset;
  Mode mode = Mode::kShared;
  uint64_t seed = 0;
  uint32_t epochs = 1;     // 0: unbounded
  uint32_t consumers = 0;  // declared; 0: not declared
  Generation generation{};
  Epoch first_open{};             // all epochs before are done
  std::vector<Replica> replicas;  // the live ones; `replicated` only
  uint32_t next_replica = 0;
  uint64_t redelivered = 0;  // rows that may have been delivered twice
  uint64_t dropped = 0;      // lanes and pieces left by `break` that nobody wanted
  Even even = Even::kAuto;   // as asked for: what it means follows the number of consumers
  OnDeath on_death = OnDeath::kAuto;
  uint32_t places = 0;           // strict: of the ring
  bool started = false;          // strict, even: all indices have joined, in this generation
  std::set<uint32_t> delivered;  // indices that delivered rows in this generation
  std::set<uint32_t> seated;     // declared indices that have had a seat in this generation
  std::string base;              // the position that this generation began with; "": the job's start
  msg::Inputs inputs;
  std::map<Epoch, EpochState> open;
  std::map<ConsumerId, Consumer> members;
  std::map<uint32_t, VacantSeat> vacated;  // by index: of those who left, and nobody came in their place
  std::map<Epoch, uint64_t> steps;         // even: how many batches each consumer has of an epoch, once it is known

  // Not stored.
  std::map<Epoch, uint64_t> limits;         // even: so many batches a consumer may have for now…
  std::map<Epoch, EvenDeal> deals;          // …and what is on its way from one to another
  Figures gone{};                           // of those who are no members any more: what they had…
  Figures gone_watched{};                   // …and what of it while the dispatcher heard of it
  std::optional<TimePoint> watched_from{};  // its first beat since the dispatcher started…
  TimePoint watched_to{};                   // …and its last
  TimePoint read;                           // when it last had a consumer with a lease

  bool finished() const { return epochs != 0 && Raw(first_open) >= epochs; }
  EpochShape shape() const;
  Even evens() const;  // what `even` means here: never kAuto
  bool holds() const;  // what a dead consumer had to read waits for it; in strict always
  // Who has that seat among the declared consumers; nullptr where nobody has.
  Consumer* Seated(uint32_t index);
};

inline constexpr auto kForgetExpired = 10 * kDispatcherLease;  // a consumer that is silent for so long is not waited for

inline constexpr const char* kOutcomeFinished = "finished";
inline constexpr const char* kOutcomeLeft = "was left by all its consumers";

// What is left of a job that is over.
struct Tombstone {
  uint64_t ordinal = 0;
  JobId job{};
  std::string name;  // "" for an anonymous one
  std::string dataset;
  std::string outcome;  // one of the above
};

// Not stored, but for the replicas that name it.
struct Worker {
  msg::WorkerInfo info;
  bool awaited = false;  // known from the store; it has not said hello to this term yet
  SessionId session{};
  TimePoint heard;
  std::string name;
  uint32_t pid = 0;
  msg::WorkerBeat last;
};

}  // namespace penstock::dispatcher
