// What a worker's core is told, and what it answers. The shell (server.h) runs these on sockets and threads, the simulator in one thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "engine/pipeline.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/block.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock::worker {

enum class TaskId : uint64_t {};       // a run of a lane on the pool
enum class BlockHandle : uint64_t {};  // a block that the shell keeps; the core decides when it goes

// A block as the core sees it. `charge` is what its memory takes, size class included: never more than the room that the step was given.
struct BlockToken {
  BlockInfo info;
  BlockHandle handle{};
  uint64_t charge = 0;
};

// ---- events

// A consumer. Each (session, stream) that it opens is one lane.
struct SessionOpened {
  SessionId session{};
  bool shares_memory = false;  // blocks are lent: BlockFreed says that the consumer let go
  bool over_tcp = false;       // blocks may be packed
};
struct LinkJudged {  // from now on: how blocks are packed for who leaves it to the worker (compression=auto)
  SessionId session{};
  PackCodec codec = PackCodec::kNone;
};
struct SessionClosed {  // blocks out on it are told by BlockFreed as ever
  SessionId session{};
};
struct ConsumerSaid {  // Open, Credit, Take, CloseLane; anything else is ignored
  SessionId session{};
  StreamId stream{};
  Message message;
};

// The answer to FetchJob: exactly one of these two.
struct JobKnown {
  JobId job{};
  Generation generation{};
  uint64_t group_rows = 1;
  uint64_t state_bytes = 0;   // Layout::state_bytes
  uint64_t block_target = 0;  // Pipeline::block_target
};
struct JobFailed {
  JobId job{};
  Status error;
};

// The answer to StepLane: exactly one each. Blocked::bytes is what the allocation would take, size class included.
using StepOutcome = std::variant<BlockToken, Blocked, LaneOver, Status>;
struct StepDone {
  TaskId task{};
  StepOutcome outcome;
  uint64_t state_bytes = 0;          // LaneRun::state_bytes
  std::vector<BlockToken> before{};  // by group: made in the same step before that; all together take no more than its room
  std::string where{};               // LaneRun::where(), of one that may turn out to be too large

  const BlockToken* block() const { return std::get_if<BlockToken>(&outcome); }
  std::vector<BlockToken> made() const {
    std::vector<BlockToken> all = before;
    if (block() != nullptr) all.push_back(*block());
    return all;
  }
};

// The memory of a block that was sent is home again: copied to the socket, let go by the consumer, or its session is over.
// Once for each SendBlock, never for ReleaseBlock.
struct BlockFreed {
  BlockHandle handle{};
};

struct DispatcherUp {};
struct DispatcherDown {};
struct DispatcherSaid {  // WorkerWelcome, WorkerBeatReply, ListInputs; anything else is ignored
  RequestId request{};   // of ListInputs
  Message message;
};

struct DrainAsked {};
struct TimerFired {};  // may come late, or though nothing is due

using Event = std::variant<SessionOpened, LinkJudged, SessionClosed, ConsumerSaid, JobKnown, JobFailed, StepDone, BlockFreed, DispatcherUp,
                           DispatcherDown, DispatcherSaid, DrainAsked, TimerFired>;

// ---- actions, to be carried out in order

struct SendToConsumer {  // dropped where the session is gone
  SessionId session{};
  StreamId stream{};
  Message message;
};
struct SendBlock {  // BlockFreed follows, also where the session is gone
  SessionId session{};
  StreamId stream{};
  BlockHandle handle{};
  Handover how = Handover::kLend;
};
struct SendCopy {  // of a block that stays here; its memory is nobody else's
  SessionId session{};
  StreamId stream{};
  BlockHandle handle{};
};
struct ReleaseBlock {  // of a block that was never sent: its memory is free at once
  BlockHandle handle{};
};

struct FetchJob {  // GetJob, then compile the plan
  JobId job{};
};
struct ForgetJob {  // no task of it is left
  JobId job{};
};

struct StartLane {  // makes the task; does no work yet
  TaskId task{};
  JobId job{};
  LaneKey lane;
  Cursor from;
  Seq to = kLaneEnd;
  uint64_t block_target = 0;
  uint64_t block_cap = 0;
  uint64_t state_cap = 0;  // LaneRequest::state_cap
  bool by_group = false;   // each block is one group, cut from `from` on; only the lane's last may be smaller
  bool in_place = false;   // blocks go over a socket: those whose rows lie in memory need not be copied before
};
struct StepLane {
  TaskId task{};
  uint64_t room = 0;                   // the step may allocate so much, size class included
  uint64_t priority = 0;               // lower first
  PackCodec codec = PackCodec::kNone;  // the block is to be packed so, unless that makes it no smaller; its token does not change
};
struct ExtendLane {  // after LaneOver that did not end the lane; StepLane follows
  TaskId task{};
  Seq to = kLaneEnd;
};
struct StopLane {  // no step of it is out; its id is not used again
  TaskId task{};
};

// WorkerHello and WorkerBeat: requests; their replies come back as DispatcherSaid. The shell fills in rss, cpu_ns and wire_bytes of a beat.
struct SendToDispatcher {
  Message message;
};
struct ListJobInputs {  // list on the pool and Reply(request, Inputs or Failed)
  RequestId request{};
  msg::ListInputs ask;
};

struct SetTimer {  // TimerFired then; replaces what was set
  TimePoint at;
};
struct ExitNow {  // what was sent before is still written
};

using Action = std::variant<SendToConsumer, SendBlock, SendCopy, ReleaseBlock, FetchJob, ForgetJob, StartLane, StepLane, ExtendLane, StopLane,
                            SendToDispatcher, ListJobInputs, SetTimer, ExitNow>;
using Actions = std::vector<Action>;

}  // namespace penstock::worker
