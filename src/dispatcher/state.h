// What the dispatcher knows: jobs with their consumers and epochs, workers, tombstones. Plain data; core.cc and its neighbours change it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "dispatcher/epoch_state.h"
#include "penstock/ids.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock::dispatcher {

struct Consumer {
  ConsumerId id{};
  uint32_t index = 0;
  std::string name;
  Epoch epoch{};         // the one it reads
  bool ended = false;    // it was told END of that
  bool expired = false;  // its lease ran out; a beat revives it

  // Not stored.
  SessionId session{};
  TimePoint heard;
  uint64_t serial = 0;
  uint32_t want = 0;
  bool idle = false;
  uint64_t tail_rows = 0;
  bool ending = false;  // it gives back its tails and gets END
  bool news = false;    // its next reply differs from the last
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t wait_ns = 0;
};

struct Replica {
  ReplicaId replica{};
  WorkerId worker{};
  friend bool operator==(const Replica&, const Replica&) = default;
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
  msg::Inputs inputs;
  std::map<Epoch, EpochState> open;
  std::map<ConsumerId, Consumer> members;

  // Not stored.
  TimePoint since;

  bool finished() const { return epochs != 0 && Raw(first_open) >= epochs; }
  EpochShape shape() const;
};

// What is left of a finished job.
struct Tombstone {
  uint64_t ordinal = 0;
  JobId job{};
  std::string name;  // "" for an anonymous one
  std::string dataset;
  std::string outcome;
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
