// The memory of ClientCore: blocks come, are let go of and freed, and credit says how many bytes more may come.
#include <algorithm>
#include <chrono>
#include <utility>

#include "client/core.h"

namespace penstock {
namespace {

constexpr Duration kComesHome = std::chrono::milliseconds(100);  // what was let go of, and the loop does not hold
constexpr Duration kLoopLetsGo = std::chrono::seconds(30);       // of batches that another thread of it holds, at the latest

}  // namespace

// ---- blocks

void ClientCore::Apply(const event::BlockArrived& arrived) {
  const BlockInfo& info = arrived.block.info;
  const auto at = ByStream(arrived.stream);
  if (at == lanes_.end()) return Do(action::Release{arrived.block.handle});  // sent before the worker knew that the stream is closed
  Lane& lane = at->second;
  const bool covered = Expects(arrived.stream, info.bytes);
  const uint64_t credit = lane.credit.outstanding;
  blocks_[arrived.block.handle] = {at->first, lane.worker, arrived.stream, info.bytes, false};
  counts_.held_bytes += info.bytes;
  arrived_bytes_ += info.bytes;
  counts_.wire_bytes += arrived.on_wire;
  largest_block_ = std::max(largest_block_, info.bytes);
  if (strict()) return GroupArrived(at, arrived.block);
  lane.credit.outstanding -= std::min(lane.credit.outstanding, info.bytes);
  lane.credit.held += info.bytes;
  const bool follows = info.first <= lane.arrived && info.end.seq <= lane.to;
  if (!covered || !follows) {
    LetGo(arrived.block.handle);
    CloseStream(at, true);
    const std::string what = follows ? std::to_string(info.bytes) + " bytes, and had credit for " + std::to_string(credit)
                                     : "rows " + std::to_string(info.first.seq) + " to " + std::to_string(info.end.seq) + " where row " +
                                           std::to_string(lane.arrived.seq) + " was next";
    return LaneTrouble(at, Status(Code::kInternal, ToString(at->first.lane) + " came with " + what));
  }
  lane.attempts = 0;
  lane.tried.clear();
  Moved(lane, false);
  if (CameOtherwise(lane, info)) return FailForReplay(at, lane.last);
  if (info.end <= lane.arrived) return LetGo(arrived.block.handle);
  lane.last = {info.first, info.end, info.digest, lane.worker};
  lane.arrived = info.end;
  lane.told_waits = false;
  loop_waits_ = false;  // it will say so again if this was not enough
  Do(action::ShelfPut{at->first, arrived.block});
}

// The same rows again, and they differ.
bool ClientCore::CameOtherwise(const Lane& lane, const BlockInfo& info) const {
  return info.first == lane.last.first && info.end == lane.last.end && info.digest != lane.last.digest && job_.layout.purity == Purity::kPure;
}

void ClientCore::FailForReplay(Lanes::iterator at, const LastBlock& before) {
  FailReader(Status(Code::kNotDeterministic, ToString(at->first.lane) + ", rows " + std::to_string(before.first.seq) + " to " +
                                                 std::to_string(before.end.seq) + ": " + workers_.Name(at->second.worker) + " makes others than " +
                                                 workers_.Name(before.worker) +
                                                 " did, so going on would lose rows or repeat them; make the dataset's code give the same rows each "
                                                 "time it runs (docs/howto/code.md), or read it with mode 'replicated'"));
}

void ClientCore::LetGo(Handle handle) {
  const auto block = blocks_.find(handle);
  if (block == blocks_.end() || std::exchange(block->second.released, true)) return;
  released_bytes_ += block->second.bytes;
  Do(action::Release{handle});
}

void ClientCore::Apply(const event::Freed& freed) {
  const auto block = blocks_.find(freed.handle);
  if (block == blocks_.end()) return;
  const BlockOut out = block->second;
  blocks_.erase(block);
  starved_since_.reset();
  counts_.held_bytes -= out.bytes;
  if (out.released) released_bytes_ -= out.bytes;
  if (strict()) return;
  const auto lane = lanes_.find(out.grant);
  // A grant that went and came back does not hold what came before.
  if (lane != lanes_.end()) lane->second.credit.held -= std::min(lane->second.credit.held, out.bytes);
  if (lane != lanes_.end() && lane->second.state == LaneState::kOpen && lane->second.stream == out.stream) {
    lane->second.credit.unreturned += out.bytes;
    return;
  }
  const WorkerBook::Entry* worker = workers_.Find(out.worker);
  if (worker != nullptr && worker->link == WorkerBook::Link::kUp) Do(action::SendWorker{out.worker, out.stream, msg::Credit{out.bytes, {}}});
}

bool ClientCore::Expects(LaneStream stream, uint64_t bytes) const {
  const auto name = streams_.find(stream);
  if (name == streams_.end()) return false;
  const Lane& lane = lanes_.at(name->second);
  return strict() ? !lane.wanted.empty() && bytes <= lane.told_bytes : lane.credit.covers(bytes);
}

// ---- tails

// Before credit is given: a copy frees more than it takes.
void ClientCore::ShrinkTails() {
  for (auto at = thin_tails_.begin(); at != thin_tails_.end();) {
    const auto lane = lanes_.find(*at);
    if (lane == lanes_.end() || lane->second.state != LaneState::kEnded) {
      at = thin_tails_.erase(at);
      continue;
    }
    const uint64_t left = options_.memory - std::min(options_.memory, Committed());
    const uint64_t room = std::min(left, lane->second.credit.held);
    if (room == 0 || room < lane->second.copy_bytes) {
      ++at;
      continue;
    }
    copying_[*at] = room;
    Do(action::ShrinkTail{*at, room});
    at = thin_tails_.erase(at);
  }
}

void ClientCore::Apply(const event::TailCopied& copied) {
  copying_.erase(copied.grant);
  const auto lane = lanes_.find(copied.grant);
  if (copied.copy) {
    blocks_[*copied.copy] = {copied.grant, {}, {}, copied.bytes, false};
    counts_.held_bytes += copied.bytes;
    if (lane != lanes_.end()) lane->second.credit.held += copied.bytes;
  } else if (copied.bytes > 0 && lane != lanes_.end()) {
    lane->second.copy_bytes = copied.bytes;
    thin_tails_.insert(copied.grant);
  }
}

// ---- credit

bool ClientCore::LoopGetsCopies() const {
  const uint64_t in_flight = OpenTarget() * CreditWindow(options_.memory, OpenTarget(), largest_block_);
  const uint64_t in_hand = std::max(job_.layout.mix, 1u) * largest_block_;
  return loop_starved_ || released_bytes_ * 2 > in_flight || in_hand + largest_block_ > options_.memory;
}

uint64_t ClientCore::Committed() const {
  uint64_t bytes = counts_.held_bytes;
  for (const auto& [stream, name] : streams_) bytes += lanes_.at(name).credit.promised();
  for (const auto& [grant, room] : copying_) bytes += room;
  return bytes;
}

uint64_t ClientCore::NextBlock(const Lane& lane) const { return lane.credit.needs > 0 ? lane.credit.needs : std::max<uint64_t>(largest_block_, 1); }

// Up to its window; where the loop waits and its worker has a block, that block, whatever the window. Where it stands at the limit of an epoch that
// ends evenly, too: how far it could come decides how far all go.
uint64_t ClientCore::CreditFor(const Lane& lane, uint64_t committed) const {
  const uint64_t next = NextBlock(lane);
  uint64_t due = CreditDue(lane.credit, CreditWindow(options_.memory, OpenTarget(), largest_block_), next);
  if ((loop_waits_ || AtLimit()) && lane.credit.needs > 0) due = std::max(due, next - std::min(next, lane.credit.outstanding));
  // One block may be larger than the budget, if there is no other.
  const uint64_t most = committed == 0 ? std::max(options_.memory, lane.credit.needs) : options_.memory;
  return CreditWithin(lane.credit, due, most - std::min(most, committed), next);
}

// Those that the loop waits for first: of them the one with most rows of a batch.
std::vector<ClientCore::Lanes::iterator> ClientCore::OpenByNeed() {
  std::vector<Lanes::iterator> open;
  for (const auto& [stream, name] : streams_) open.push_back(lanes_.find(name));
  if (!loop_waits_) return open;
  std::stable_sort(open.begin(), open.end(), [](const auto& a, const auto& b) {
    const Mark& x = a->second.mark;
    const Mark& y = b->second.mark;
    return std::pair(x.ready_groups > 0, y.left_rows) < std::pair(y.ready_groups > 0, x.left_rows);
  });
  return open;
}

void ClientCore::FeedLanes() {
  const std::vector<Lanes::iterator> open = OpenByNeed();
  uint64_t committed = Committed();
  for (const auto& at : open) {
    LaneCredit& credit = at->second.credit;
    const uint64_t bytes = CreditFor(at->second, committed);
    if (bytes == 0) continue;
    committed -= credit.promised();
    GiveCredit(at->second, bytes);
    committed += credit.promised();
  }
  FeedStarved(open);
}

void ClientCore::GiveCredit(Lane& lane, uint64_t bytes) {
  lane.credit.outstanding += bytes;
  if (std::exchange(lane.credit.needs, 0) > 0) lane.quiet_since = now_;
  lane.credit.unreturned -= std::min(bytes, lane.credit.unreturned);
  Do(action::SendWorker{lane.worker, lane.stream, msg::Credit{bytes, {}}});
}

// No room comes back by itself: lanes give way, or the batch does not fit.
void ClientCore::FeedStarved(const std::vector<Lanes::iterator>& open) {
  if (!StarvesByItself(LacksRoom(open)) || LetGiveWay(open.front())) return;
  if (LetInBesideHeld(open.front()->second)) return;
  if (released_bytes_ > 0 && FitsWithoutHeld(open.front()->second)) return FailForHeld();
  const std::string what = job_.layout.batch == 0 ? "a row" : "a batch of " + std::to_string(job_.layout.batch) + " rows";
  FailReader(Status(Code::kTooLarge, what + " does not fit this reader's memory of " + std::to_string(options_.memory) + " bytes (" +
                                         std::to_string(counts_.held_bytes) + " are held, " + std::to_string(open.front()->second.credit.needs) +
                                         " more are to come, and it is not whole); raise memory, or make the batch smaller"));
}

// A `for` holds its last batch while it waits for the next, and that may be the view of a block that came before anybody knew how large the next one
// is. What the loop holds is in no one's power here, so the one block that may be larger than the budget comes beside it: not at once, since it may
// be on its way home; not where another block of ours is in the way, since those give way; and not where the loop holds more than the block that it
// waits for, since such a loop keeps batches, and is told so. The budget is exceeded by no more than what the loop holds now, and that does not grow:
// from here on the loop gets copies (LoopGetsCopies). To have workers cut blocks to the readers' memory would be stricter, but blocks are made for
// all who read them.
bool ClientCore::LetInBesideHeld(Lane& lane) {
  const uint64_t needs = lane.credit.needs;
  const uint64_t others = Committed() - released_bytes_;
  if (released_bytes_ == 0 || released_bytes_ > needs || (others > 0 && others + needs > options_.memory)) return false;
  GiveCredit(lane, needs - std::min(needs, lane.credit.outstanding));
  return true;
}

// Once the loop lets go. Else there is too much of this batch itself, and nobody is to wait for what changes nothing.
bool ClientCore::FitsWithoutHeld(const Lane& lane) const {
  const uint64_t others = Committed() - released_bytes_;
  return others == 0 || others + lane.credit.needs <= options_.memory;
}

// The loop waits, and each open lane has a block that there is no room for.
bool ClientCore::LacksRoom(const std::vector<Lanes::iterator>& open) const {
  if (!loop_waits_ || open.empty() || !copying_.empty()) return false;
  const auto needs = [](const auto& at) { return at->second.credit.needs > 0; };
  const auto moves = [](const auto& item) {
    const Lane& lane = item.second;
    return lane.state == LaneState::kConnecting || lane.state == LaneState::kBackoff || lane.leaving || lane.turn == Turn::kGivesWay;
  };
  return std::all_of(open.begin(), open.end(), needs) && std::none_of(lanes_.begin(), lanes_.end(), moves);
}

// Whether nothing that was let go of will end it: there is none, or it did not come home, since the loop holds it while it waits.
bool ClientCore::StarvesByItself(bool starved) {
  if (!starved) {
    starved_since_.reset();
    return false;
  }
  if (released_bytes_ == 0) return true;
  if (!starved_since_) starved_since_ = now_;
  if (now_ < *starved_since_ + kComesHome) return false;
  loop_starved_ = true;
  return true;
}

std::optional<TimePoint> ClientCore::StarvesAt() const {
  if (!starved_since_ || now_ >= *starved_since_ + kComesHome) return std::nullopt;
  return *starved_since_ + kComesHome;
}

void ClientCore::FailForHeld() {
  if (!starved_since_ || now_ < *starved_since_ + kLoopLetsGo) return;
  FailReader(Status(Code::kTooLarge, "your loop holds batches of " + std::to_string(released_bytes_) + " bytes while it waits for the next one, " +
                                         "which does not fit beside them in this reader's memory of " + std::to_string(options_.memory) +
                                         " bytes; let go of batches sooner, keep copies of them, or raise memory"));
}

// Grants with blocks that wait for the loop.
std::set<GrantName> ClientCore::OnShelf() const {
  std::set<GrantName> grants;
  for (const auto& [handle, block] : blocks_) {
    if (!block.released) grants.insert(block.grant);
  }
  return grants;
}

// The lane that is furthest from a whole batch lets go of what it has, if it is not `first`.
bool ClientCore::LetGiveWay(Lanes::const_iterator first) {
  auto last = lanes_.end();
  const std::set<GrantName> on_shelf = OnShelf();
  for (auto at = lanes_.begin(); at != lanes_.end(); ++at) {
    if (at->first == first->first || !on_shelf.contains(at->first)) continue;
    if (last == lanes_.end() || at->second.mark.left_rows < last->second.mark.left_rows) last = at;
  }
  if (last == lanes_.end()) return false;
  CloseStream(last, true);
  last->second.turn = Turn::kGivesWay;
  Do(action::ShelfRemove{last->first});
  return true;
}

void ClientCore::BeginAgain(Lanes::iterator at, const Mark& mark) {
  Lane& lane = at->second;
  lane.state = LaneState::kSpare;
  lane.turn = Turn::kWaits;
  lane.waits_since = totals_.batches;
  lane.arrived = mark.received;
  lane.lane_ended = lane.shrunk = false;
  lane.copy_bytes = 0;
  lane.mark = {.grant = at->first, .received = mark.received, .asked = mark.asked};
  Do(action::ShelfAdd{at->first, mark.received, epoch_, lane.end});
}

// Its worker has a block that credit does not cover. Credit that is on its way to it may.
void ClientCore::BlockWaits(Lanes::iterator at, const msg::Groups& groups) {
  if (groups.groups.empty()) return;
  const uint64_t bytes = groups.groups.front().bytes;
  largest_block_ = std::max(largest_block_, bytes);
  if (!at->second.credit.covers(bytes)) at->second.credit.needs = bytes;
  Moved(at->second, true);
}

// A worker that lends its memory reads ahead only for loops that it saw reading; but a loop that has rows of each lane and a batch of none lets
// go of nothing. And a range that was opened ahead may wait for another consumer's loop, which the worker need not. One that stands at the limit
// with a batch ready waits for others, who may need the memory that it would borrow; but the last source row of a range cannot go to them, so its
// rows are made all the same.
void ClientCore::TellWaits() {
  if (!loop_waits_ && !AtLimit()) return;
  for (auto& [name, lane] : lanes_) {
    const bool has_blocks = lane.credit.held + lane.credit.unreturned > 0;
    const bool opened_ahead = lane.to != kLaneEnd && !lane.urgent;
    const bool last_row = lane.arrived.seq + 1 >= lane.to;
    if (!loop_waits_ && ready_batches_ > 0 && !last_row) continue;
    if (lane.state != LaneState::kOpen || !(has_blocks || opened_ahead) || std::exchange(lane.told_waits, true)) continue;
    Do(action::SendWorker{lane.worker, lane.stream, msg::Credit{.bytes = 0, .waits = true}});
  }
}

}  // namespace penstock
