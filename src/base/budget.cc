#include "base/budget.h"

#include <algorithm>
#include <utility>

namespace penstock {

bool Budget::Open(HolderId id, GroupId group, uint64_t reserve) {
  if (!Fits(reserve)) return false;
  holders_.emplace(id, Holder{.group = group, .reserve = reserve});
  committed_ += reserve;
  Group& g = groups_[group];
  ++g.holders;
  if (++g.open == 1) ++open_groups_;
  return true;
}

void Budget::Close(HolderId id) {
  const auto found = holders_.find(id);
  if (found == holders_.end() || found->second.closed) return;
  LeaveLine(id);
  Holder& holder = found->second;
  holder.closed = true;
  if (--groups_[holder.group].open == 0) --open_groups_;
  Update(id, holder, 0, holder.held);
}

bool Budget::Take(HolderId id, uint64_t bytes, Need need) {
  Holder& holder = holders_.at(id);
  if (TakeReserved(id, bytes)) {
    LeaveLine(id);
    return true;
  }
  const Ticket ticket{id, bytes};
  Line& line = need == Need::kMust ? must_ : ahead_line_;
  const bool fits = need == Need::kMust ? MustFits(ticket) : AheadFits(ticket);
  if (!fits || !HasTurn(id, need)) {
    Enqueue(line, ticket);
    return false;
  }
  LeaveLine(id);
  const uint64_t held = holder.held + bytes;
  if (bytes > oversize_) oversized_ = id;
  const bool grows = need == Need::kMust && bytes <= oversize_;
  Update(id, holder, grows ? std::max(holder.reserve, held) : holder.reserve, held);
  return true;
}

bool Budget::TakeReserved(HolderId id, uint64_t bytes) {
  Holder& holder = holders_.at(id);
  if (GrowthOf(holder, bytes) > 0) return false;
  Update(id, holder, holder.reserve, holder.held + bytes);
  return true;
}

void Budget::Give(HolderId id, uint64_t bytes) {
  Holder& holder = holders_.at(id);
  Update(id, holder, holder.reserve, holder.held - std::min(bytes, holder.held));
}

bool Budget::MoveAhead(HolderId from, HolderId to, uint64_t bytes) {
  if (bytes > oversize_) return false;
  Holder& giver = holders_.at(from);
  Holder& taker = holders_.at(to);
  const bool closed = std::exchange(giver.closed, false);  // it must not go while the bytes may come back
  Update(from, giver, giver.reserve, giver.held - bytes);
  const bool fits = AheadFits({to, bytes});
  Holder& holder = fits ? taker : giver;
  Update(fits ? to : from, holder, holder.reserve, holder.held + bytes);
  giver.closed = closed;
  Update(from, giver, giver.reserve, giver.held);
  return fits;
}

void Budget::Force(HolderId id, uint64_t held) {
  Holder& holder = holders_.at(id);
  Update(id, holder, holder.reserve, held);
}

void Budget::Lower(HolderId id, uint64_t reserve) {
  Holder& holder = holders_.at(id);
  Update(id, holder, std::min(holder.reserve, std::max(reserve, holder.held)), holder.held);
}

void Budget::LeaveLine(HolderId id) {
  const auto is_its = [id](const Ticket& ticket) { return ticket.holder == id; };
  std::erase_if(must_, is_its);
  std::erase_if(ahead_line_, is_its);
}

std::optional<HolderId> Budget::Next() const {
  if (!must_.empty()) {
    if (MustFits(must_.front())) return must_.front().holder;
    return std::nullopt;
  }
  for (const Ticket& ticket : ahead_line_) {
    if (HasTurn(ticket.holder, Need::kAhead) && AheadFits(ticket)) return ticket.holder;
  }
  return std::nullopt;
}

uint64_t Budget::ShortOf() const {
  if (must_.empty()) return 0;
  const Ticket& first = must_.front();
  const uint64_t wanted = committed_ + GrowthOf(holders_.at(first.holder), first.bytes);
  return wanted > capacity_ ? wanted - capacity_ : 0;
}

std::optional<HolderId> Budget::InTheWay() const {
  if (must_.empty() || OversizeFree(must_.front().holder, must_.front().bytes)) return std::nullopt;
  return oversized_;
}

uint64_t Budget::Held(HolderId id) const {
  const auto found = holders_.find(id);
  return found == holders_.end() ? 0 : found->second.held;
}

uint64_t Budget::Reserved(HolderId id) const {
  const auto found = holders_.find(id);
  return found == holders_.end() ? 0 : found->second.reserve;
}

uint64_t Budget::GrowthOf(const Holder& holder, uint64_t bytes) const {
  return std::max(holder.held + bytes, holder.reserve) - std::max(holder.held, holder.reserve);
}

bool Budget::OversizeFree(HolderId id, uint64_t bytes) const { return bytes <= oversize_ || !oversized_ || *oversized_ == id; }

bool Budget::MustFits(const Ticket& ticket) const {
  return Fits(GrowthOf(holders_.at(ticket.holder), ticket.bytes)) && OversizeFree(ticket.holder, ticket.bytes);
}

bool Budget::AheadFits(const Ticket& ticket) const {
  const uint64_t growth = GrowthOf(holders_.at(ticket.holder), ticket.bytes);
  return must_.empty() && MustFits(ticket) && InShare(ticket) && ahead_ + growth <= ahead_cap();
}

bool Budget::InShare(const Ticket& ticket) const {
  const Holder& holder = holders_.at(ticket.holder);
  return groups_.at(holder.group).ahead + GrowthOf(holder, ticket.bytes) <= ahead_share();
}

// Earlier ones are overtaken only if their group's share is used up, and never by their own group.
bool Budget::HasTurn(HolderId id, Need need) const {
  if (need == Need::kMust) return must_.empty() || must_.front().holder == id;
  const GroupId group = holders_.at(id).group;
  for (const Ticket& ticket : ahead_line_) {
    if (ticket.holder == id) return true;
    if (holders_.at(ticket.holder).group == group || InShare(ticket)) return false;
  }
  return true;
}

void Budget::Update(HolderId id, Holder& holder, uint64_t reserve, uint64_t held) {
  const auto beyond = [](uint64_t h, uint64_t r) { return h > r ? h - r : 0; };
  Group& group = groups_.at(holder.group);
  const uint64_t ahead_before = beyond(holder.held, holder.reserve);
  const uint64_t ahead_after = beyond(held, reserve);
  committed_ += std::max(reserve, held);
  committed_ -= std::max(holder.reserve, holder.held);
  used_ += held;
  used_ -= holder.held;
  ahead_ += ahead_after;
  ahead_ -= ahead_before;
  group.ahead += ahead_after;
  group.ahead -= ahead_before;
  holder.reserve = reserve;
  holder.held = held;
  if (oversized_ == id && held <= oversize_) oversized_.reset();
  if (!holder.closed || held > 0) return;
  if (--group.holders == 0) groups_.erase(holder.group);
  holders_.erase(id);
}

void Budget::Enqueue(Line& line, Ticket ticket) {
  // A holder that changed its mind about how urgent or how large keeps its place only in the same line.
  Line& other = &line == &must_ ? ahead_line_ : must_;
  std::erase_if(other, [&](const Ticket& t) { return t.holder == ticket.holder; });
  for (Ticket& waiting : line) {
    if (waiting.holder != ticket.holder) continue;
    waiting.bytes = ticket.bytes;
    return;
  }
  line.push_back(ticket);
}

}  // namespace penstock
