// What ClientCore is told, and what it answers (core.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "client/shelf.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/messages.h"
#include "wire/session.h"

namespace penstock {

// One opening of a lane on a worker: unique among the readers that share sessions, never used again.
using LaneStream = StreamId;
struct StreamNumbers {
  uint32_t last = 0;
};

// ---- what happens
namespace event {
struct DispatcherUp {};
struct DispatcherDown {
  Status why;
};
// msg::Joined, msg::BeatReply, msg::Registered and msg::Failed are events as they are. What was said of an earlier generation() is no event.
struct WorkerUp {
  WorkerId worker{};
};
struct WorkerDown {  // broken, closed, or could not be reached
  WorkerId worker{};
  Status why;
};
struct WorkerDraining {
  WorkerId worker{};
};
struct LaneSays {
  LaneStream stream{};
  std::variant<msg::LaneEnded, msg::LaneFailed, msg::Refused, msg::Groups> what;
};
struct BlockArrived {  // checked against the spec
  LaneStream stream{};
  ShelfBlock block;
  uint64_t on_wire = 0;  // bytes that it took on a socket
};
struct Freed {
  Handle handle{};
};
struct TailCopied {  // the answer to a ShrinkTail, before any Progress
  GrantName grant;
  std::optional<Handle> copy;  // none: it was not worth it, or larger than the room…
  uint64_t bytes = 0;          // …that it takes; 0: not to be asked for again
};
// `Progress` of the shelf is an event as it is.
struct StartEpoch {  // after Shelf::BeginEpoch
  Epoch epoch{};
};
struct Begin {};  // the loop asks for its first batch
struct Restore {  // the user's: everything begins again at this state, for all consumers of the job
  std::string state;
};
struct GiveUpRestore {  // the user does not wait for it any longer: RestoreFailed says `why`, unless it was answered before
  Status why;
};
struct RestoreRefused {  // the answer to a SendRestore
  Status why;
};
struct Close {};   // after Shelf::Close and its progress
struct Settle {};  // after a SettleSoon, and what came meanwhile
struct Timer {};
}  // namespace event

using ClientEvent = std::variant<event::DispatcherUp, event::DispatcherDown, msg::Joined, msg::BeatReply, msg::Failed, event::WorkerUp,
                                 event::WorkerDown, event::WorkerDraining, event::LaneSays, event::BlockArrived, event::Freed, event::TailCopied,
                                 Progress, event::StartEpoch, event::Begin, event::Restore, event::GiveUpRestore, event::RestoreRefused,
                                 msg::Registered, event::Close, event::Settle, event::Timer>;

// ---- what to do, in this order
namespace action {
struct SendDispatcher {  // Register, Join, Beat or Leave
  Message message;
};
struct SendRestore {  // where it is a rebuild: with the part that the shelf has now (parts.h)
  msg::Restore restore;
};
struct Restored {  // the shelf begins again
  msg::Joined joined;
  bool rebuilt = false;  // …and the loop, which knows nothing of it, goes on
};
struct RestoreFailed {  // the user's; the reader is as it was
  Status status;
};
struct ConnectWorker {
  msg::WorkerInfo worker;
};
struct CloseWorker {  // this reader has no more use for the session
  WorkerId worker{};
};
struct SendWorker {  // Open, Credit, Take or CloseLane
  WorkerId worker{};
  LaneStream stream{};
  Message message;
};
struct JoinedJob {  // configure the shelf
  msg::Joined joined;
};
struct ShelfAdd {
  GrantName grant;
  Cursor from;
  Epoch reading{};
  Cursor to{kLaneEnd, 0};
};
struct ShelfOpen {
  GrantName grant;
  bool open = false;
};
struct ShelfPut {
  GrantName grant;
  ShelfBlock block;
};
struct ShelfEnd {
  GrantName grant;
  Cursor end;
  bool lane_ended = false;
};
struct ShelfWhole {  // strict
  ShelfBatch batch;
};
struct ShrinkTail {  // copy what is left of the grant out of its block, if that is worth it (Shelf::ThinTail); TailCopied follows
  GrantName grant;
  uint64_t room = 0;  // bytes that the copy may take
};
struct ShelfRemove {
  GrantName grant;
};
struct ShelfLease {
  TimePoint until;
};
struct ShelfCount {  // Shelf::CountFrom
  uint64_t tag = 0;
};
struct ShelfSteps {
  Epoch epoch{};
  uint64_t limit = kNoLimit;
  uint64_t steps = kNoLimit;
};
struct ShelfEndEpoch {
  Epoch epoch{};
  uint64_t dropped_rows = 0;
};
struct Fail {  // the reader: through the shelf, after what is ready
  Status status;
};
struct Release {  // the handle: never named again
  Handle handle{};
};
struct SettleSoon {};  // tell Settle when what is here already was told
struct SetTimer {      // one timer; a later one replaces it
  TimePoint at;
};
}  // namespace action

using ClientAction =
    std::variant<action::SendDispatcher, action::SendRestore, action::Restored, action::RestoreFailed, action::ConnectWorker, action::CloseWorker,
                 action::SendWorker, action::JoinedJob, action::ShelfAdd, action::ShelfOpen, action::ShelfPut, action::ShelfEnd, action::ShelfWhole,
                 action::ShrinkTail, action::ShelfRemove, action::ShelfLease, action::ShelfCount, action::ShelfSteps, action::ShelfEndEpoch,
                 action::Fail, action::Release, action::SettleSoon, action::SetTimer>;

struct ClientActions {
  std::vector<ClientAction> list;
};

}  // namespace penstock
