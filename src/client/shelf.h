// The loop's side of a reader: blocks of lanes come in, batches go out (protocol.md 3, engine.md 4).
//
// The shelf decides which rows of which blocks form a batch. It knows blocks by handle only: batcher.h makes bytes of what it decides, and
// the simulator drives this same class with handles alone. Lease, fence and marks are looked at and moved in Next(), under one mutex, at the
// moment of delivery; the core learns of it later, coalesced, by TakeProgress().
//
// Threads: Next, Claimed, BeginEpoch and WaitForNews on the loop's thread, all else on the core's. One mutex, never held across a call out of here.
#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "client/delivery_log.h"
#include "penstock/client.h"
#include "penstock/ids.h"
#include "penstock/layout.h"
#include "penstock/status.h"
#include "plan/ring_position.h"
#include "wire/block.h"
#include "wire/messages.h"

namespace penstock {

using msg::kNoLimit;

enum class Handle : uint64_t {};  // a block in this process: whoever made it up holds the bytes

struct ShelfBlock {
  Handle handle{};
  BlockInfo info;
  std::vector<Cursor> cursors;  // of each row and the end; empty where row i is (first.seq + i, 0)

  Cursor cursor(uint64_t row) const;  // of a row; info.rows gives the end
};

// Consecutive rows of one block, part of a batch.
struct Slice {
  GrantName grant;
  Handle handle{};
  uint64_t row = 0;
  uint64_t rows = 0;
  Cursor first;
  Cursor end;  // after the last; where the lane goes on
};

// A whole batch of a strict job.
struct ShelfBatch {
  uint64_t step = 0;  // in this generation's part of the epoch
  std::vector<Slice> slices;
  std::vector<Handle> passed;                 // no later batch has rows of these
  std::shared_ptr<const RingPosition> after;  // where the job stands when every consumer has this step
};

// Where the loop of a strict job is.
struct RingMark {
  std::shared_ptr<const RingPosition> received;  // after the last batch that it was handed; null: none yet…
  std::shared_ptr<const RingPosition> asked;     // …and it came back for more
  uint64_t batches = 0;                          // of this epoch, handed out
  uint64_t ready = 0;                            // on the shelf
  bool ended = false;                            // the loop was told the epoch's end
};

// Where the loop is in a grant.
struct Mark {
  GrantName grant;
  Cursor received;         // all before was handed to the loop…
  Cursor asked;            // …and it came back for more
  uint64_t left_rows = 0;  // on the shelf, not handed out
  uint64_t ready_groups = 0;
  bool done = false;     // ended, all delivered (or dropped by rule), and asked for more
  bool removed = false;  // not on the shelf any more: the last mark of this grant
};

struct ShelfTotals {
  uint64_t rows = 0;
  uint64_t batches = 0;
  uint64_t epoch_batches = 0;  // of the epoch that is being read
  uint64_t tag = 0;            // of the last batch that the loop came back after
  uint64_t dropped_rows = 0;   // by drop_remainder, or even
  uint64_t repeated = 0;       // batches that the loop got again, to end where the others do (even)
  Duration waited{0};          // by the loop, for a batch
};

// What happened since the last look.
struct Progress {
  Epoch epoch{};                 // that the loop reads
  std::vector<Mark> marks;       // the newest of each grant that moved
  std::vector<Handle> passed;    // no later batch has rows of these: they may be let go of
  bool waiting = false;          // the loop waits for rows, and nothing came since
  std::optional<RingMark> ring;  // strict: where it moved to
  uint64_t ready_batches = 0;    // whole ones that the loop could be handed
  ShelfTotals totals;
};

// What becomes of a closed reader's calls.
Status ReaderClosed();

class Shelf {
 public:
  struct Wait {
    enum class For : uint8_t { kData, kLease } on = For::kData;
    uint64_t seen = 0;  // for WaitForNews
  };
  struct EpochEnd {};
  struct Again {};  // the last batch once more: this loop has fewer than the others
  using Taken = std::variant<std::vector<Slice>, Wait, EpochEnd, Again, Status>;

  // `clock` outlives the shelf. `on_progress` is called when there is progress to take after none, without the mutex, on the loop's thread.
  explicit Shelf(const Clock& clock, std::function<void()> on_progress = {});

  // ---- the core's side
  // `consumers`: declared; 0: not.
  void Configure(const Layout& layout, Epoch epoch, Generation generation = {}, uint32_t consumers = 0);
  // Even: a loop that has fewer batches than the others gets its last one again. From now on marks and tag are those before the last batch until the
  // next one is handed out, or the epoch has ended: one that is started anew in this loop's place has nothing else to repeat.
  void SetPads(bool pads);
  // A new generation: all grants are removed, and nothing was delivered in it yet. `loop_goes_on`: steps are counted on, since ranks that save a
  // position together mean the loop's.
  void Restart(const Layout& layout, Epoch epoch, Generation generation, uint32_t consumers = 0, bool loop_goes_on = false);
  // Another start of this rank came to `tag`: counting goes on there. Not where the loop has had something.
  void CountFrom(uint64_t tag);
  // `reading`: the reader's epoch when it got the grant, which may be of an earlier one (a dead consumer's). Removed at once if the loop has gone on.
  // Rows from `to` on are not of the grant: workers make all that a source row became.
  void Add(const GrantName& grant, Cursor from, Epoch reading, Cursor to = kLaneEndCursor);
  // Whether blocks are on their way. A batch of several lanes waits only for lanes that are open.
  void SetOpen(const GrantName& grant, bool open);
  // Rows below what was put before are skipped. A block of a grant that is not here is passed at once.
  void Put(const GrantName& grant, ShelfBlock block);
  // All rows up to `end` were put; what is left below a full group is the grant's tail. `lane_ended`: the lane itself has no more.
  void End(const GrantName& grant, Cursor end, bool lane_ended = true);
  // The rest of an ended grant, where it is a small part of one block: worth a copy, so that the block's memory can go.
  std::optional<Slice> ThinTail(const GrantName& grant) const;
  // Puts a copy of that rest in its place. False: the loop took of it meanwhile, and the copy is not needed.
  bool ReplaceTail(const Slice& tail, ShelfBlock copy);
  // Strict: batches come whole, in order.
  void PutBatch(ShelfBatch batch);
  // Never delivered from again; its last mark says where it stood.
  void Remove(const GrantName& grant);
  void SetLease(TimePoint deliver_until);
  // Even: the loop may have `limit` batches of the epoch for now, and `steps` in all (kNoLimit: not known yet). What is left then is dropped by
  // rule; what is missing is the short batch and the last one again.
  void SetSteps(Epoch epoch, uint64_t limit, uint64_t steps);
  // END: what is left is the short batch, or dropped by rule. Ignored for another epoch than the shelf's.
  // `dropped_rows`: of this consumer that were never put here (strict).
  void EndEpoch(Epoch epoch, uint64_t dropped_rows = 0);
  // Reaches the loop when no batch is ready any more, and stays.
  void Fail(Status status);
  void Close();  // removes all grants; Next says Cancelled from now on
  Progress TakeProgress();

  // ---- the loop's side
  // Never waits. Blocks of the batch are not passed before Claimed() (or the next Next) says that the loop holds their bytes.
  Taken Next();
  void Claimed();
  // The last batch did not reach the loop whole: its last `rows` rows count as not received (strict: all of it). Only BeginEpoch or Close may follow.
  void Unreceive(uint64_t rows);
  // Reader's.
  void HandsOutRows();
  void HandedOutRow();
  // False: `until` passed without news since `seen`.
  bool WaitForNews(uint64_t seen, TimePoint until);
  // Leaves the epoch: all grants are removed (and given back by the core).
  void BeginEpoch(Epoch epoch);

  // ---- any thread
  ShelfTotals totals() const;
  // What the loop has, now or when it had `tag` elements (DeliveryLog). Of a run whose rows are handed out one by one: as far as they were.
  Result<DeliveryLog::Point> Delivered(std::optional<uint64_t> tag = {}) const;
  BatchTag tag() const;  // of the last batch
  // The loop has the epoch's last batch, and was told so.
  bool Ended() const;

 private:
  struct Entry {
    ShelfBlock block;
    uint64_t next_row = 0;
  };
  struct Lane {
    std::deque<Entry> blocks;
    Cursor to;       // rows from here on are not of it
    Cursor shelved;  // put up to here
    Cursor received;
    Cursor asked;
    std::optional<Cursor> end;
    bool lane_ended = false;
    uint64_t left = 0;
    bool open = false;
  };
  using Lanes = std::map<GrantName, Lane>;
  struct LastTaken {  // rows of one block in a batch
    GrantName grant;
    ShelfBlock block;
    uint64_t row = 0;
    uint64_t rows = 0;
  };

  void ConfigureLocked(const Layout& layout, Epoch epoch, Generation generation, uint32_t consumers);
  Taken NextLocked();
  std::vector<Slice> TakeWhole();
  void EndRing();
  void UnreceiveWhole();
  void AskLocked();
  void KeepLast();
  void LetGoOfLast();
  std::vector<Slice> TryBatch();
  std::vector<Slice> TryRun();
  std::vector<Slice> TryGroups();
  std::vector<Slice> TryTails();
  std::vector<Slice> TakeLoose(uint64_t rows);
  void ToTheBack(Lanes::iterator lane);  // of the rotation
  bool AllEnded() const;
  uint64_t ReadyBatches() const;
  bool AnyReady() const;
  bool StepsDone() const;
  bool Short() const;
  bool AtEnd() const;
  bool Leased() const;
  bool MayDeliver() const;
  void ClaimLocked();
  void Pass(Handle handle);
  void CountWait(bool waits);
  void DropRest();
  void LogBatch(const std::vector<Slice>& batch);
  void TakeRows(Lanes::iterator lane, uint64_t rows, std::vector<Slice>& out);
  void Settle(Lanes::iterator lane);
  void RemoveLocked(Lanes::iterator lane);
  Mark MarkOf(const GrantName& grant, const Lane& lane) const;
  void News();
  bool HasProgress() const;
  void Touched(const GrantName& grant) { dirty_.insert(grant); }

  const Clock& clock_;
  const std::function<void()> on_progress_;

  mutable std::mutex mutex_;
  std::condition_variable news_;
  uint64_t version_ = 0;
  uint64_t batch_ = 0;
  uint64_t group_ = 1;
  uint32_t mix_ = 1;
  bool in_order_ = false;  // grants are ranges: taken one after the other, so that few of them are begun at a time
  bool drop_remainder_ = false;
  bool pads_ = false;
  Epoch epoch_{};
  TimePoint deliver_until_{};
  bool end_ = false;
  uint64_t limit_ = kNoLimit;
  uint64_t steps_ = kNoLimit;
  bool closed_ = false;
  Status failure_;
  ShelfTotals totals_;
  DeliveryLog log_;
  bool hands_out_rows_ = false;
  std::atomic<uint64_t> not_handed_out_{0};  // rows of the last run
  uint64_t asked_tag_ = 0;

  std::deque<ShelfBatch> whole_;  // strict: batches to hand out
  RingMark ring_;
  bool ring_moved_ = false;
  std::optional<std::shared_ptr<const RingPosition>> ring_before_;  // the last batch

  Lanes lanes_;
  std::deque<Lanes::iterator> rotation_;  // lanes that have or may get full groups, the next to take from first
  std::deque<Lanes::iterator> tails_;     // ended with less than a group left, first come first
  std::set<GrantName> unasked_;           // in the last batch
  std::map<GrantName, Cursor> kept_;      // pads: lanes of the last batch that the loop came back after, and their marks before it…
  uint64_t kept_tag_ = 0;                 // …and the tag
  std::vector<LastTaken> last_;           // the last batch
  std::set<GrantName> dirty_;
  std::vector<Mark> last_marks_;  // of removed grants
  std::vector<Handle> passed_;
  std::set<Handle> in_hand_;       // of the last batch, until it is claimed…
  std::vector<Handle> unclaimed_;  // …and those of them that are passed then
  bool waiting_ = false;
  bool waiting_told_ = false;
  std::optional<TimePoint> waits_since_;
};

}  // namespace penstock
