// The dispatcher as a pure state machine: datasets, jobs, grants, leases, workers. No I/O, no threads, no clock.
//
// An event goes in, actions come out. The shell commits all of an answer's `persist` in one transaction and only then sends the rest (design
// section 3, invariant 5); if the commit fails it sends nothing and stops. What is not in `persist` (leases, sessions, marks of grants that
// are under way) is rebuilt from the next beats. docs/design/shared.md says how lanes are handed out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "dispatcher/store.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock::dispatcher {

enum class AskId : uint64_t {};

// ---- events
struct PeerMessage {
  SessionId session{};
  RequestId request{};  // 0: the peer waits for no reply
  Message message;
};
struct SessionClosed {
  SessionId session{};
};
struct Answered {  // what became of an Ask
  AskId ask{};
  Result<Message> answer;
};
struct TimerFired {};
using Event = std::variant<PeerMessage, SessionClosed, Answered, TimerFired>;

// ---- actions
struct Send {
  SessionId session{};
  RequestId request{};  // 0: nobody asked
  Message message;
};
struct Ask {  // a request to a worker; exactly one Answered follows
  SessionId session{};
  AskId ask{};
  Message message;
  Duration deadline{};
};
// What happened, for people: the shell logs it, the simulator prints it. docs/howto/see.md lists the events.
struct LogEvent {
  LogLevel level = LogLevel::kInfo;
  std::string_view event;  // "job.start"; a literal, as the fields' names are
  std::vector<LogField> fields;
};
struct Actions {
  std::vector<Write> persist;  // first all of these, in one transaction…
  std::vector<Send> sends;     // …then these, in order
  std::vector<Ask> asks;
  std::optional<TimePoint> timer;  // TimerFired is wanted then; none: the last wish stands
  std::vector<LogEvent> log;
  void Clear();
};

struct CoreOptions {
  std::string cluster;
  Term term{1};
  std::string version;
  // Checks a serialized plan and gives its fingerprint: the only thing the core needs to know about plans.
  std::function<Result<std::string>(std::string_view plan)> check_plan;
  // The fingerprint of what makes its rows: a position is restored over the same rows, in batches of another size too. Not given: the plan's own.
  std::function<Result<std::string>(std::string_view plan)> rows_of = {};
  // How a job's plan and a joining consumer's differ, in words. Not given: their fingerprints are named.
  std::function<std::string(std::string_view job, std::string_view joining)> difference = {};
  Duration worker_deadline = std::chrono::seconds(30);  // a join is answered with Unavailable when no worker came for so long
};

// Since this core was made.
struct CoreCounts {
  uint64_t expired = 0;      // leases of consumers that ran out
  uint64_t redelivered = 0;  // rows that may have been delivered twice
};

// Jobs that are over or that nobody reads, as far as they are known still: those that were over longest ago are forgotten (jobs.cc).
struct JobCounts {
  uint64_t finished = 0;    // read to the end
  uint64_t unfinished = 0;  // left before
};

using Snapshot = std::map<std::string, std::string>;  // key -> value: what the store holds

class DispatcherCore {
 public:
  explicit DispatcherCore(CoreOptions options);
  ~DispatcherCore();

  // Before the first event: takes over what an earlier term stored. All leases count as just renewed. An error names the key.
  Status Restore(TimePoint now, const Snapshot& stored);

  // Applies the event. `out` is cleared first.
  void On(TimePoint now, const Event& event, Actions& out);

  // All that Restore would need, made anew from the state: equal to what was persisted so far.
  Snapshot TakeSnapshot() const;

  const CoreCounts& counts() const;

  std::string JobName(JobId job) const;  // "" where there is no such job

  // There were jobs, and nobody reads one or waits for one now: what --exit-when-done waits for.
  bool Quiet() const;
  JobCounts CountJobs() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::dispatcher
