// One consumer of a job as a state machine: no I/O, no threads, no clock (design section 5). reader.cc runs it on real sessions, src/sim under
// a seeded scheduler.
//
// It joins, beats, keeps some granted lanes open on workers and a few grants spare, moves lanes between workers at their cursors, and tells
// the shelf (shelf.h) what to deliver. What was delivered it learns from the shelf's progress. Blocks are handles here: a block is let go of
// by Release alone, and its bytes count until Freed says that the memory is gone (the loop may hold a batch longer).
//
// Memory: blocks that are held, that credit lets come, or that are being copied never take more than the budget together; one block larger than all
// of it may come when there is no other, or beside the last batch that the loop holds while it waits. A worker sends what its credit covers, and says
// how large the next block is where it does not; so credit that covers nothing counts for nothing, and room goes to the lane that is nearest to a
// whole batch. Where all wait for room and none comes back, other lanes give way: they let go of what the loop has not had, and begin again there
// when it has had its batch. A loop that holds so much itself that its next batch does not fit beside it is told so. Strict: a batch larger than all
// of it may come when there is no other. Bytes of an ended lane are credited, too: the worker counts what its consumers keep.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "client/credit.h"
#include "client/events.h"
#include "client/lane_pace.h"
#include "client/recent_rate.h"
#include "client/ring_reader.h"
#include "client/shelf.h"
#include "client/workers.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock {

// Does what an action asks of the shelf; false: the action is not for it.
bool ApplyToShelf(const ClientAction& action, Shelf& shelf);

struct ClientCoreOptions {
  msg::Join join;
  uint64_t memory = 256ULL << 20;  // of blocks: held and on their way
  std::shared_ptr<StreamNumbers> streams = std::make_shared<StreamNumbers>();
  std::string plan{};  // for a dispatcher that has lost the job; "": that is the end
  WireCompression compression = WireCompression::kNone;
};

struct ClientCounts {
  uint64_t lanes_done = 0;
  uint64_t reopened = 0;    // lanes that moved to another worker
  uint64_t hedged = 0;      // …since they were behind their peers
  uint64_t held_bytes = 0;  // of blocks that are not freed
  uint64_t wire_bytes = 0;  // that blocks took on sockets
};

class ClientCore {
 public:
  explicit ClientCore(ClientCoreOptions options);

  // Appends to `out` what has to be done.
  void On(TimePoint now, const ClientEvent& event, ClientActions& out);

  const ClientCounts& counts() const { return counts_; }
  // Of blocks that the shelf has passed and the loop still holds.
  uint64_t kept_bytes() const { return released_bytes_; }
  // Whether the loop is to get copies: it keeps so much that lanes have no credit to go on, or the blocks of one batch, which it holds while it
  // waits for the next, leave no room for another, or what it held has starved it before.
  bool LoopGetsCopies() const;
  // Whether the open stream's worker has credit for a block of so many bytes; strict: was asked for a group, and told of one so large.
  bool Expects(LaneStream stream, uint64_t bytes) const;
  Generation generation() const { return job_.generation; }
  // What follows from the newest events is to come, with Settle: progress can wait for that.
  bool settles_later() const { return settles_later_; }
  // The dispatcher has lost the job, and does not have it back yet.
  bool rebuilding() const { return rebuild_ != RebuildStep::kNone; }
  // What a waiting loop waits for, in words: a worker, a lane, the dispatcher.
  std::string WaitingFor() const;

 private:
  enum class LaneState : uint8_t { kSpare, kConnecting, kOpen, kBackoff, kEnded };
  // Whether it may be read: not while it leaves the shelf to make room, nor before the loop has had a batch since.
  enum class Turn : uint8_t { kReads, kGivesWay, kWaits };
  // The newest block of a lane, or strict: a group, by which two workers' words are compared.
  struct LastBlock {
    Cursor first;
    Cursor end;
    uint64_t digest = 0;
    WorkerId worker{};
  };
  // A second opening of a lane that is behind.
  struct HedgeOut {
    GrantName lane;
    WorkerId worker{};
    LaneStream stream{};
    Cursor from;
    TimePoint opened{};
    TimePoint quiet_since{};  // the lane's, which has not moved since
  };
  struct Lane {
    Seq to = kLaneEnd;        // whole source rows, as workers make them…
    Cursor end{kLaneEnd, 0};  // …and how far they are granted
    WorkerId pinned{};        // replicated: the one worker that may serve it
    LaneState state = LaneState::kSpare;
    WorkerId worker{};    // kConnecting, kOpen
    LaneStream stream{};  // kOpen
    Cursor arrived;       // rows before it are on the shelf or delivered
    Mark mark;
    LaneCredit credit;
    bool lane_ended = false;
    bool opened_before = false;
    Turn turn = Turn::kReads;
    uint64_t waits_since = 0;     // batches that the loop had had: kWaits
    bool shrunk = false;          // its tail was, or is to be, copied out of its block
    uint64_t copy_bytes = 0;      // that the copy takes, where it did not fit
    bool told_waits = false;      // that its loop waits, since its last block
    bool leaving = false;         // off the shelf; its last mark is to come
    bool dropped = false;         // the dispatcher does not list it any more: no Finish
    std::set<WorkerId> tried;     // refused or failed, until the backoff clears them
    std::set<WorkerId> no_hedge;  // refused to be its second, since its worker's last word
    TimePoint retry_at{};
    TimePoint quiet_since{};  // its worker owes a word since
    bool begun = false;       // the open stream has said something
    bool announced = false;   // …the last time, that a block is made
    LastBlock last;
    bool urgent = false;               // as it was opened last: its loop waits for it
    bool waited = false;               // strict: nothing can be delivered before it says more
    Cursor needed;                     // strict: nothing before it is
    Cursor opened_at;                  // strict: its stream tells of groups from here on
    Cursor passed;                     // strict: as the stream was told…
    std::set<Cursor> wanted;           // …and what it was asked for
    uint64_t told_bytes = 0;           // strict: of the largest group that the stream told of
    std::map<Cursor, LastBlock> told;  // strict: groups that may be told of again, and the last before them; by where they begin
    uint32_t attempts = 0;
    Status last_error;
    Status permanent;                // one worker's word; another's makes it true
    std::set<WorkerId> misses_file;  // who said that a file of the lane is not there
  };
  struct BlockOut {
    GrantName grant;
    WorkerId worker{};
    LaneStream stream{};
    uint64_t bytes = 0;
    bool released = false;
  };
  struct FinishOut {
    msg::Finish finish;
    uint64_t carried = 0;     // serial of the first beat that said so; 0: none yet
    bool lease_over = false;  // when it was made
  };
  // What a beat says that is worth saying at once.
  struct News {
    uint32_t want = 0;
    bool idle = false;
    uint64_t tail_rows = 0;
    uint64_t finishes = 0;
    uint64_t mark = 0;  // batches that the loop can have, where others wait for the word
    Epoch epoch{};
    friend bool operator==(const News&, const News&) = default;
  };
  using Lanes = std::map<GrantName, Lane>;

  void Apply(const event::DispatcherUp&);
  void Apply(const event::DispatcherDown& down);
  void Apply(const msg::Joined& joined);
  void Apply(const msg::BeatReply& reply);
  void Apply(const msg::Failed& failed);
  void Apply(const event::WorkerUp& up);
  void Apply(const event::WorkerDown& down);
  void Apply(const event::WorkerDraining& draining);
  void Apply(const event::LaneSays& says);
  void Apply(const event::BlockArrived& arrived);
  void Apply(const event::Freed& freed);
  void Apply(const event::TailCopied& copied);
  void Apply(const Progress& progress);
  void Apply(const event::StartEpoch& start);
  void Apply(const event::Begin&);
  void Apply(const event::Restore& restore);
  void Apply(const event::GiveUpRestore& given_up);
  void Apply(const event::RestoreRefused& refused);
  void Apply(const msg::Registered&);
  void Apply(const event::Close&);
  void SayHowFar();
  void Apply(const event::Settle&) {}
  void Apply(const event::Timer&) {}

  // core.cc: the whole of it
  bool MaySettleLater(const ClientEvent& event) const;
  void Settle();
  void JoinIfDue();
  void FailReader(Status status);
  void SetTimerIfChanged();
  TimePoint NextWake() const;

  // core_grants.cc: what the dispatcher grants, and what becomes of it
  void TakeGrants(const msg::BeatReply& reply);
  void AcknowledgeFinishes(const msg::BeatReply& reply);
  void AddGrant(const msg::Grant& grant);
  Cursor Delivered(const GrantName& grant, Cursor from) const;
  void AnswerRevokes(const msg::BeatReply& reply);
  void RenewLease(const msg::BeatReply& reply);
  void TakeSteps(const msg::BeatReply& reply);
  void RemoveLane(Lanes::iterator lane);
  void ApplyMark(const Mark& mark);
  void Finish(const GrantName& grant, Cursor upto, bool ended);

  // core_beats.cc: what it is told
  uint32_t OpenTarget() const;
  uint32_t SpareTarget() const;
  bool IsPlenty(uint64_t rows) const;
  News CurrentNews() const;
  void BeatIfDue();
  void SendBeat(const News& news);
  msg::Beat MakeBeat(const News& news);
  std::vector<msg::Hold> Holds() const;

  // core_restore.cc: into another generation
  bool Reads() const { return phase_ == Phase::kReading && rebuild_ == RebuildStep::kNone; }
  bool TakeRestored(const msg::Joined& joined);
  void Enter(const msg::Joined& joined);
  void Rebuild();
  void JobLost();
  void RestoreIfDue();

  // core_lanes.cc: the workers' side
  void TakeWorkers(const std::vector<msg::WorkerInfo>& workers, uint64_t version);
  void OpenLanes();
  void Place(Lanes::iterator lane);
  void OpenOn(Lanes::iterator lane, WorkerId worker);
  Cursor ReplayFrom(const Lane& lane) const;
  msg::Open OpenOf(Lanes::iterator lane, Cursor from, uint64_t credit) const;
  void SetStream(Lanes::iterator lane, WorkerId worker, LaneStream stream);
  std::string WordsOf(const GrantName& name, const Lane& lane) const;
  void CloseStream(Lanes::iterator lane, bool tell);
  void CloseStreams();
  void Reopen(Lanes::iterator lane);
  void LaneTrouble(Lanes::iterator lane, Status error);
  void LaneOver(Lanes::iterator lane, const msg::LaneEnded& ended);
  Lanes::iterator ByStream(LaneStream stream);

  // core_hedge.cc: lanes that are behind
  void HedgeIfBehind();
  std::optional<TimePoint> HedgeDue(const Lane& lane) const;
  void Hedge(Lanes::iterator lane);
  void DropHedge(bool tell);
  void TakeHedge();
  void Moved(Lane& lane, bool announced);

  // core_credit.cc: how many bytes may be held and on their way
  uint64_t Committed() const;
  uint64_t NextBlock(const Lane& lane) const;
  uint64_t CreditFor(const Lane& lane, uint64_t committed) const;
  std::vector<Lanes::iterator> OpenByNeed();
  void FeedLanes();
  void GiveCredit(Lane& lane, uint64_t bytes);
  bool LetInBesideHeld(Lane& lane);
  bool FitsWithoutHeld(const Lane& lane) const;
  void FeedStarved(const std::vector<Lanes::iterator>& open);
  bool LacksRoom(const std::vector<Lanes::iterator>& open) const;
  std::set<GrantName> OnShelf() const;
  bool StarvesByItself(bool starved);
  std::optional<TimePoint> StarvesAt() const;
  void FailForHeld();
  bool LetGiveWay(Lanes::const_iterator first);
  void BeginAgain(Lanes::iterator lane, const Mark& mark);
  void TellWaits();
  bool AtLimit() const { return steps_ == kNoLimit && limit_ != kNoLimit && totals_.epoch_batches >= limit_; }
  void ShrinkTails();
  void BlockWaits(Lanes::iterator lane, const msg::Groups& groups);
  bool CameOtherwise(const Lane& lane, const BlockInfo& info) const;
  void FailForReplay(Lanes::iterator lane, const LastBlock& before);
  void LetGo(Handle handle);

  // core_ring.cc: strict
  bool strict() const { return job_.mode == Mode::kStrict; }
  void SetRingStart(const msg::Joined& joined);
  void TakeRingReply(const msg::BeatReply& reply);
  void BeginRing();
  void RestartRing(const msg::Joined& joined);
  void NextRing();
  void FollowRing();
  void KeepRingLanes(const std::vector<RingReader::Need>& needs);
  void PlaceRingLanes(const std::vector<RingReader::Need>& needs);
  void AskForGroups();
  void TellWaits(const std::vector<RingReader::Need>& needs);
  void DeliverWhole();
  void GroupsTold(Lanes::iterator lane, const msg::Groups& groups);
  const LastBlock* ToldOtherwise(Lane& lane, const msg::Group& group);
  static Cursor ToldFrom(const Lane& lane, WorkerId worker);
  void GroupArrived(Lanes::iterator lane, const ShelfBlock& block);
  void RingTrouble(Lanes::iterator lane, Status error);
  GrantName RingLane(LaneId lane) const { return {{epoch_, ReplicaId{}, lane}, {}, Fence{}}; }
  std::string RingPositionText() const;

  template <class A>
  void Do(A action) {
    out_->list.emplace_back(std::move(action));
  }

  const ClientCoreOptions options_;
  TimePoint now_{};
  ClientActions* out_ = nullptr;  // during On
  bool settles_later_ = false;

  enum class Phase : uint8_t { kJoining, kReading, kFailed, kClosed } phase_ = Phase::kJoining;
  Status over_;  // why: kFailed, kClosed
  bool dispatcher_up_ = false;
  std::optional<TimePoint> join_sent_;
  TimePoint join_at_{};
  uint32_t join_attempts_ = 0;
  std::string waiting_for_;

  msg::Joined job_;
  Epoch epoch_{};
  bool epoch_ended_ = false;

  struct PendingRestore {
    std::string state;
    bool rebuild = false;
    TimePoint at{};  // not before
    bool sent = false;
  };
  enum class RebuildStep : uint8_t { kNone, kRegister, kJoin, kRestore };
  bool begun_ = false;  // the loop has asked for a batch
  std::optional<PendingRestore> restore_;
  RebuildStep rebuild_ = RebuildStep::kNone;
  TimePoint restore_sent_{};
  msg::Joined rejoined_;  // while it is rebuilt

  uint64_t serial_ = 0;
  uint64_t answered_ = 0;
  std::map<uint64_t, TimePoint> sent_;  // beats whose answer would renew the lease
  TimePoint lease_until_{};
  TimePoint last_beat_{};
  bool beat_now_ = false;  // a new session: say again what is held
  News said_;
  uint64_t finishes_made_ = 0;

  Lanes lanes_;
  std::map<LaneStream, GrantName> streams_;
  std::map<GrantName, FinishOut> finishes_;
  std::map<GrantName, Cursor> gone_;  // taken away: where to go on if their rows come back
  std::map<Handle, BlockOut> blocks_;
  std::set<GrantName> thin_tails_;         // to be copied, once there is room
  std::map<GrantName, uint64_t> copying_;  // bytes kept free until TailCopied
  WorkerBook workers_;
  uint64_t workers_version_ = 0;    // of the list that it was told last
  std::optional<HedgeOut> hedge_;   // one at a time: where everything is slow, more would make it slower
  LanePace first_words_;            // from opening a lane…
  LanePace next_words_;             // …and from word to word
  std::optional<RingReader> ring_;  // strict, once all consumers have joined
  std::optional<RingPosition> ring_start_;
  uint64_t ring_first_ = 0;  // the batch of step 0
  RingMark ring_mark_;
  uint64_t largest_block_ = 0;
  uint64_t arrived_bytes_ = 0;
  uint64_t released_bytes_ = 0;             // let go of here and not freed yet: the loop holds them
  std::optional<TimePoint> starved_since_;  // the loop waits for room, and nothing was freed
  bool loop_starved_ = false;               // …once, by what it held itself
  ShelfTotals totals_;
  RecentRate loop_pace_;   // rows that the loop takes
  RecentRate lanes_pace_;  // lanes that it comes to the end of
  uint64_t ready_batches_ = 0;
  uint64_t limit_ = kNoLimit;  // of batches, as the last reply had it
  uint64_t steps_ = kNoLimit;
  uint64_t first_tag_ = 0;  // likewise
  bool loop_waits_ = false;
  std::optional<TimePoint> timer_;
  ClientCounts counts_;
};

}  // namespace penstock
