// What dispatcher, workers and consumers say to each other, as plain values with typed ids: the language of the pure cores.
// schema/wire.fbs is the same on the wire; codec.h translates, and is the only place that sees FlatBuffers.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "penstock/ids.h"
#include "penstock/layout.h"
#include "penstock/status.h"

namespace penstock::msg {

// [from, to) of a lane's rows; to = kLaneEnd is "to the end". Workers make whole source rows; a grant may end within what its last one became.
struct Range {
  LaneKey lane;
  Cursor from;
  Seq to = kLaneEnd;
  uint32_t last_children = 0;  // of the source row before `to`, that are granted; 0: all of them
  Cursor end() const { return EndOf(to, last_children); }
  friend bool operator==(const Range&, const Range&) = default;
};

// Where a worker can be reached. `unix_socket` is abstract and good only where boot id and network namespace are the same.
struct WorkerInfo {
  WorkerId worker{};
  std::string address;  // host:port
  std::string unix_socket;
  std::string boot_id;
  uint64_t netns = 0;
  bool draining = false;
  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
};

// ---- session
struct Hello {
  uint16_t min_version = 0;
  uint16_t max_version = 0;
  std::string token{};
  std::string role{};  // "consumer" | "worker" | "cli"
  std::string name{};  // host:pid, for people
  std::string boot_id{};
  uint64_t netns = 0;
  uint32_t uid = 0;
  uint32_t pid = 0;
  bool shm = false;  // would take blocks as shared memory
  friend bool operator==(const Hello&, const Hello&) = default;
};
struct HelloReply {
  uint16_t version = 0;
  std::string cluster;  // the dispatcher's cluster id; "" from a worker
  Term term{};
  bool shm = false;  // blocks will come as shared memory
  Status error;
  friend bool operator==(const HelloReply&, const HelloReply&) = default;
};
struct Failed {  // the reply to a request that failed
  Status error;
  friend bool operator==(const Failed&, const Failed&) = default;
};
struct Done {  // the reply to a request that has nothing to say
  friend bool operator==(const Done&, const Done&) = default;
};

// ---- datasets
struct Register {
  std::string plan;  // SerializePlan
  friend bool operator==(const Register&, const Register&) = default;
};
struct Registered {
  std::string dataset;
  friend bool operator==(const Registered&, const Registered&) = default;
};
struct GetDataset {
  std::string dataset;
  friend bool operator==(const GetDataset&, const GetDataset&) = default;
};
struct DatasetReply {
  std::string dataset;
  std::string plan;
  friend bool operator==(const DatasetReply&, const DatasetReply&) = default;
};

// ---- consumers and the dispatcher
struct Join {
  std::string dataset;
  std::string job_name;  // "": anonymous and unique
  Mode mode = Mode::kShared;
  uint64_t seed = 0;
  uint32_t epochs = 1;  // 0: unbounded
  Even even = Even::kAuto;
  uint32_t index = 0;
  uint32_t consumers = 0;    // 0: not declared; then index is not used
  uint64_t incarnation = 0;  // random, of this reader: a repeated join is the same one
  std::string name;
  uint32_t places = 0;   // strict: ring places; 0: as many as consumers
  uint64_t attempt = 0;  // of the launcher: how often it started the ranks anew; a higher one takes an index over at once
  OnRestart on_restart = OnRestart::kError;
  OnDeath on_death = OnDeath::kAuto;
  bool rebuild = false;  // of a loop whose dispatcher has lost the job: what it has delivered follows with a Restore
  friend bool operator==(const Join&, const Join&) = default;
};
struct Joined {
  JobId job{};
  ConsumerId consumer{};
  Generation generation{};
  Epoch epoch{};  // the epoch to begin with
  uint32_t epochs = 1;
  Mode mode = Mode::kShared;
  uint32_t lease_ms = 0;  // the consumer's own, shorter lease
  Layout layout;
  std::string manifest_hash;
  std::vector<WorkerInfo> workers;
  std::string job_name;
  uint32_t index = 0;
  uint32_t consumers = 0;  // declared; 0: not declared
  uint32_t places = 0;     // strict: ring places
  Even even = Even::kUneven;
  bool undecided = false;  // an earlier incarnation delivered rows: nothing is granted until a beat says `begun`, or Restore comes
  std::string base{};      // the position (plan/position.h) that this generation began with; "": the job's start
  std::string position{};  // strict: where this consumer begins; "": at `base`
  uint64_t workers_version = 0;
  friend bool operator==(const Joined&, const Joined&) = default;
};

// A grant as the dispatcher knows it. `worker` is set only where the lane is bound to one (replicated).
struct Grant {
  Range range;
  Fence fence{};
  WorkerId worker{};
  friend bool operator==(const Grant&, const Grant&) = default;
};
// What a consumer holds of a grant. A grant is named by (lane, grant_from, fence).
struct Hold {
  LaneKey lane;
  Cursor grant_from;
  Fence fence{};
  Cursor asked;  // all before was delivered, and the loop came back for more
  bool open = false;
  uint64_t ready_rows = 0;
  bool ended = false;  // no row will come beyond those that are ready
  friend bool operator==(const Hold&, const Hold&) = default;
};
// A grant that is over: delivered up to `upto`. `ended`: the lane has no row at or after `upto`.
// upto before the grant's end and not ended: the rest is given back.
struct Finish {
  LaneKey lane;
  Cursor grant_from;
  Fence fence{};
  Cursor upto;
  bool ended = false;
  friend bool operator==(const Finish&, const Finish&) = default;
};

inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();  // of batches

// Declarative: all that the consumer holds and all that was not acknowledged yet. Lost, repeated and late ones are harmless.
struct Beat {
  JobId job{};
  ConsumerId consumer{};
  Generation generation{};
  uint64_t serial = 0;  // rises; an older one than seen is ignored
  Epoch epoch{};        // the epoch it is reading
  std::vector<Hold> holds;
  std::vector<Finish> finished;
  uint32_t want = 0;       // how many grants more it would take
  bool idle = false;       // all it holds are tails: may be told END
  uint64_t tail_rows = 0;  // rows of ended lanes that wait to be joined; their grants are still in holds
  uint64_t rows = 0;       // since it joined, for status
  uint64_t bytes = 0;
  uint64_t wait_ns = 0;
  bool begun = true;             // false: has not said yet whether it restores (Joined::undecided)
  uint64_t batches = 0;          // of this epoch that the loop has
  uint64_t ready_batches = 0;    // whole ones on the shelf beyond these
  std::string position;          // strict: at the asked mark
  uint64_t tag = 0;              // of the last batch that the loop came back after
  uint64_t workers_version = 0;  // of the list of workers that it knows; 0: none
  uint64_t wire_bytes = 0;       // what `bytes` took on sockets
  friend bool operator==(const Beat&, const Beat&) = default;
};
struct BeatReply {
  uint64_t serial = 0;  // of the beat it answers
  Generation generation{};
  uint32_t lease_ms = 0;
  std::vector<Grant> grants;  // all grants of this consumer: what is not here is not its own any more
  std::vector<Grant> revoke;  // give these back: answer with a Finish at the received mark
  Epoch epoch{};
  bool end = false;                 // END of `epoch` for this consumer; tails it still holds are its to deliver as the short batch
  bool epoch_done = false;          // all lanes of `epoch` were delivered
  std::vector<WorkerInfo> workers;  // none: as before
  std::string waiting_for;          // why there is no grant, in words
  bool started = true;              // strict: all indices have joined
  uint64_t limit = kNoLimit;        // the loop may have so many batches of this epoch, for now…
  uint64_t steps = kNoLimit;        // …and so many in all: what is missing is padded, what is beyond is dropped by rule
  uint64_t first_tag = 0;           // where tags go on, of a rank that was started anew
  uint64_t workers_version = 0;     // of `workers`
  friend bool operator==(const BeatReply&, const BeatReply&) = default;
};
struct Leave {
  JobId job{};
  ConsumerId consumer{};
  std::vector<Hold> holds;
  std::vector<Finish> finished;
  friend bool operator==(const Leave&, const Leave&) = default;
};

// ---- positions (docs/design/positions.md). States travel as the JSON that users see: plan/position.h reads, checks and writes them.
// One member's word in a restore: when every index of the attempt has given its own, and they are a whole position, all get the same Joined.
struct Restore {
  JobId job{};
  ConsumerId consumer{};
  uint32_t consumers = 0;  // of the cohort; 0: this one alone
  uint32_t index = 0;
  uint64_t attempt = 0;
  std::string state;        // a position or a part; "": none of its own, and where nobody has one, the job's start
  bool rebuild = false;     // the dispatcher has lost the job: `state` is the part of a loop that goes on
  Generation generation{};  // of the last Joined: one that the job has left is a repeated word, and gets the same answer
  friend bool operator==(const Restore&, const Restore&) = default;
};
struct SavePosition {  // the whole job's position at a step; the reply is SavedPosition
  JobId job{};
  ConsumerId consumer{};
  Generation generation{};
  uint64_t tag = 0;              // the step
  std::string current;           // the asker's own part, now…
  std::string at_tag;            // …and at the step
  uint64_t timeout_ms = 60'000;  // for the others to come to it
  friend bool operator==(const SavePosition&, const SavePosition&) = default;
};
struct SavedPosition {
  std::string position;
  friend bool operator==(const SavedPosition&, const SavedPosition&) = default;
};
struct PartAsk {  // the dispatcher asks each other member; the answer is PartReply
  JobId job{};
  uint64_t gather = 0;
  uint64_t tag = 0;
  bool now = false;  // what there is, whatever the step: the asker has none in common with the others
  friend bool operator==(const PartAsk&, const PartAsk&) = default;
};
struct PartReply {
  JobId job{};
  ConsumerId consumer{};
  Generation generation{};
  uint64_t gather = 0;
  std::string current;
  std::string at_tag;
  Status error;  // it does not keep that step any more
  friend bool operator==(const PartReply&, const PartReply&) = default;
};

// ---- workers and the dispatcher
struct WorkerHello {
  std::string address;
  std::string unix_socket;
  std::string boot_id;
  uint64_t netns = 0;
  uint64_t incarnation = 0;
  uint64_t memory = 0;
  uint32_t cpus = 0;
  std::string name;
  uint32_t pid = 0;
  friend bool operator==(const WorkerHello&, const WorkerHello&) = default;
};
struct WorkerWelcome {
  WorkerId worker{};
  uint32_t lease_ms = 0;
  friend bool operator==(const WorkerWelcome&, const WorkerWelcome&) = default;
};
struct WorkerBeat {
  WorkerId worker{};
  bool draining = false;
  uint32_t lanes = 0;
  uint64_t used = 0;
  uint64_t budget = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t rss = 0;
  uint64_t cpu_ns = 0;
  std::vector<JobId> jobs{};  // that it knows
  uint64_t wire_bytes = 0;    // what `bytes` took on sockets
  friend bool operator==(const WorkerBeat&, const WorkerBeat&) = default;
};
struct WorkerBeatReply {
  bool known = true;  // false: say WorkerHello again
  bool drain = false;
  std::vector<JobId> forget{};  // of those that the beat listed: finished, or not known here
  friend bool operator==(const WorkerBeatReply&, const WorkerBeatReply&) = default;
};
struct ListInputs {  // the dispatcher asks a worker
  JobId job{};
  std::string plan;
  uint64_t seed = 0;
  std::string name{};      // the job's, and…
  std::string consumer{};  // …who asks for it: for the worker's log
  friend bool operator==(const ListInputs&, const ListInputs&) = default;
};
struct Inputs {
  JobId job{};
  std::string manifest;
  std::string manifest_hash;
  Layout layout;
  friend bool operator==(const Inputs&, const Inputs&) = default;
};
struct GetJob {  // a worker asks the dispatcher
  JobId job{};
  friend bool operator==(const GetJob&, const GetJob&) = default;
};
struct JobReply {
  JobId job{};
  std::string dataset;
  std::string plan;
  std::string manifest;
  uint64_t seed = 0;
  Mode mode = Mode::kShared;
  Generation generation{};
  std::string name{};
  friend bool operator==(const JobReply&, const JobReply&) = default;
};

// ---- lanes: client and worker. The frame's stream number names the open lane on its session.
struct Open {
  JobId job{};
  Generation generation{};
  Range range;
  Fence fence{};
  ConsumerId consumer{};
  uint64_t credit = 0;    // bytes
  bool urgent = false;    // the loop waits for it
  bool by_group = false;  // strict: groups are told of, and sent when taken (docs/design/strict.md); credit is not used
  WireCompression compression = WireCompression::kUnknown;  // unknown, none: it is sent no packed block
  friend bool operator==(const Open&, const Open&) = default;
};
struct Credit {  // a worker sends what it covers, and tells of a block that it does not (Groups); comes for ended lanes, too
  uint64_t bytes = 0;
  std::vector<uint64_t> freed{};  // extents that may be reused: segment << 40 | offset / 64
  bool waits = false;             // the loop waits, and what came of this lane is not enough for it
  std::vector<uint64_t> kept{};   // extents let go of that a forked child may still read: never to be used again
  friend bool operator==(const Credit&, const Credit&) = default;
};
struct Group {
  Cursor first;
  Cursor end;
  uint64_t rows = 0;  // fewer than the layout's group: the lane's tail
  uint64_t bytes = 0;
  uint64_t digest = 0;  // by_group: of its content; whoever makes the group again makes the same
  friend bool operator==(const Group&, const Group&) = default;
};
struct Groups {  // they exist, in order, after those told of before; or, of a lane not by_group, the one block that waits for credit
  std::vector<Group> groups;
  bool ended = false;  // the lane has no row after these
  friend bool operator==(const Groups&, const Groups&) = default;
};
struct Take {                // a lane opened by_group
  std::vector<Cursor> want;  // send the groups that begin here
  Cursor passed;             // all before it that was not wanted never will be
  friend bool operator==(const Take&, const Take&) = default;
};
struct CloseLane {
  friend bool operator==(const CloseLane&, const CloseLane&) = default;
};
struct LaneEnded {
  Cursor end;               // all of the range was sent
  bool lane_ended = false;  // the lane itself has no row at or after `end`
  friend bool operator==(const LaneEnded&, const LaneEnded&) = default;
};
struct LaneFailed {
  Status error;
  friend bool operator==(const LaneFailed&, const LaneFailed&) = default;
};
struct Refused {  // the open: Busy, draining, unknown job
  Status error;
  friend bool operator==(const Refused&, const Refused&) = default;
};
struct SegmentMade {  // its descriptor comes beside this frame
  uint32_t segment = 0;
  uint64_t bytes = 0;
  friend bool operator==(const SegmentMade&, const SegmentMade&) = default;
};
struct SegmentGone {
  uint32_t segment = 0;
  friend bool operator==(const SegmentGone&, const SegmentGone&) = default;
};
struct Draining {  // go elsewhere soon
  friend bool operator==(const Draining&, const Draining&) = default;
};

// ---- people
struct StatusAsk {
  friend bool operator==(const StatusAsk&, const StatusAsk&) = default;
};
struct StatusJob {
  std::string name;
  JobId job{};
  std::string dataset;
  Mode mode = Mode::kShared;
  Epoch epoch{};
  uint32_t lanes = 0;
  uint32_t lanes_done = 0;
  uint32_t lanes_open = 0;
  uint32_t consumers = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t wait_ns = 0;
  std::string state;
  uint64_t redelivered = 0;
  // For a rate: what came of these while this dispatcher had beats of it, and how long that was; 0: there is none to tell of.
  uint64_t watched_ms = 0;
  uint64_t watched_rows = 0;
  uint64_t watched_bytes = 0;
  uint64_t wire_bytes = 0;
  uint64_t watched_wire_bytes = 0;
  friend bool operator==(const StatusJob&, const StatusJob&) = default;
};
struct StatusWorker {
  WorkerId worker{};
  std::string address;
  std::string name;
  uint32_t pid = 0;
  bool draining = false;
  uint32_t lanes = 0;
  uint64_t used = 0;
  uint64_t budget = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  uint64_t rss = 0;
  uint64_t cpu_ns = 0;
  uint64_t silent_ms = 0;
  std::string state;
  uint64_t wire_bytes = 0;
  friend bool operator==(const StatusWorker&, const StatusWorker&) = default;
};
struct StatusReply {
  std::string cluster;
  Term term{};
  std::string version;
  std::vector<StatusJob> jobs;
  std::vector<StatusWorker> workers;
  friend bool operator==(const StatusReply&, const StatusReply&) = default;
};

}  // namespace penstock::msg

namespace penstock {

using Message =
    std::variant<msg::Hello, msg::HelloReply, msg::Failed, msg::Done, msg::Register, msg::Registered, msg::GetDataset, msg::DatasetReply, msg::Join,
                 msg::Joined, msg::Beat, msg::BeatReply, msg::Leave, msg::WorkerHello, msg::WorkerWelcome, msg::WorkerBeat, msg::WorkerBeatReply,
                 msg::ListInputs, msg::Inputs, msg::GetJob, msg::JobReply, msg::Open, msg::Credit, msg::CloseLane, msg::LaneEnded, msg::LaneFailed,
                 msg::Refused, msg::SegmentMade, msg::SegmentGone, msg::Draining, msg::StatusAsk, msg::StatusReply, msg::Restore, msg::SavePosition,
                 msg::SavedPosition, msg::PartAsk, msg::PartReply, msg::Groups, msg::Take>;

}  // namespace penstock
