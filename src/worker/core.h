// What a worker decides: which lanes it takes, which of them works next and with how much memory, what is sent to whom. Pure: no I/O, threads
// or clocks; an event goes in, actions come out (engine.md 3 and 4).
//
// Memory. Each open lane holds a reserve of one block (the larger of the target and the largest that its job was seen to need) and its
// operators' state; a lane may always use its reserve, so what is waited for always moves. What is not reserved is read ahead or lent, in the order
// asked, with a cap a job. Who says that it waits comes first. An open that does not fit is Refused with Busy; if its consumer has no other lane
// here, or waits for it, lanes opened ahead give way: they get Refused too, at any time, and are opened again later. So does any other lane to the
// first in line for a block larger than its reserve, where nothing else makes room for it.
//
// Lending. Where memory is shared a block is lent if its consumer's part of the read-ahead has room for it: two blocks for one that was not yet
// seen to let go of any, else an equal part of its job's. Any other block is copied to the socket, and its memory is home once that is done. So
// what a consumer keeps, asleep or not, takes no lane's reserve: it costs the others a copy, never their turn.
//
// Sending. A block goes out if the lane's credit covers it. Where it does not, the consumer is told once how large the block is (Groups, of one):
// it alone knows whether it has room.
//
// Packing. A step is told to pack its block where the lane it is for goes over TCP and its consumer asked for that, or where the link was judged
// (LinkJudged). A block that is packed keeps its charge, its credit and its place; only its bytes on the way are fewer.
//
// Groups (strict). A run of a lane that several follow keeps what it made until it is asked for, or passed by all. Where a loop waits for the next
// and there is no room, what nobody has asked for is let go, and made again for who asks: the group that is waited for always has its reserve.
//
// Ranges. The run of a lane that reached the end of a range is parked, and goes on with the open whose cursor it stands at. An open that a run
// of its lane has yet to reach waits for it, and one that no run is on its way to a moment for an earlier one. When its loop waits too, the range
// before it is made ahead to its end, whether that one's loop reads or not; and where there is no room for it, and the run has not moved for half a
// second, the open gets a run of its own. A run whose consumer leaves within its range is parked where it stands, and goes on with the range behind
// that, or with a later one whose loop has waited half a second: rows between are made and passed over, which is less than to begin anew.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/constants.h"
#include "worker/events.h"

namespace penstock::worker {

struct CoreOptions {
  uint64_t memory = 0;     // the budget, in bytes
  msg::WorkerHello hello;  // who this worker is
  Duration drain_timeout = std::chrono::seconds(30);
  uint64_t block_target = kBlockTarget;
  Duration range_patience = std::chrono::milliseconds(500);  // for a run to reach the range that is asked for
  Duration start_patience = std::chrono::milliseconds(50);   // for the open of an earlier range, before a range gets a run of its own
  Duration room_patience = std::chrono::seconds(1);          // for lanes to give way
  Duration group_patience = std::chrono::milliseconds(100);  // for groups that are kept to be asked for, where a later one is waited for; for a
                                                             // block larger than its reserve to be taken, where another waits to be made
  Duration park_for = std::chrono::seconds(5);
  Duration asleep_after = std::chrono::seconds(10);  // a loop that holds blocks and lets go of none
  uint64_t pack_memory = 0;                          // of the budget, from the first block on that is to be packed
};

struct CoreStats {
  uint32_t lanes = 0;       // open
  uint32_t tasks = 0;       // runs, parked ones included
  uint64_t blocks_out = 0;  // handles not released or freed yet
  uint64_t used = 0;        // bytes of blocks and state
  uint64_t committed = 0;   // used, or reserved and not used: at most the budget
  uint64_t rows = 0;        // sent since the start
  uint64_t bytes = 0;
  bool draining = false;
};

class WorkerCore {
 public:
  explicit WorkerCore(CoreOptions options);
  ~WorkerCore();

  // `out` is appended to; the caller empties it between calls.
  void On(TimePoint now, const Event& event, Actions& out);

  CoreStats stats() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::worker
