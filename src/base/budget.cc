#include "base/budget.h"

#include <algorithm>

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
  const auto moves_from_it = [id](const Ticket& ticket) { return ticket.from == id; };
  std::erase_if(must_, moves_from_it);
  std::erase_if(ahead_line_, moves_from_it);
  Holder& holder = found->second;
  holder.closed = true;
  if (--groups_[holder.group].open == 0) --open_groups_;
  Update(id, holder, 0, holder.held);
}

bool Budget::Take(HolderId id, uint64_t bytes, Need need) { return TakeOrWait({id, bytes}, need); }

bool Budget::Move(HolderId from, HolderId to, uint64_t bytes, Need need) { return TakeOrWait({to, bytes, from}, need); }

bool Budget::TakeReserved(HolderId id, uint64_t bytes) {
  const Ticket ticket{id, bytes};
  if (GrowthOf(ticket) > 0) return false;
  Apply(ticket, false);
  return true;
}

bool Budget::MoveReserved(HolderId from, HolderId to, uint64_t bytes) {
  const Ticket ticket{to, bytes, from};
  if (GrowthOf(ticket) > 0) return false;
  Apply(ticket, false);
  return true;
}

bool Budget::TakeOrWait(const Ticket& ticket, Need need) {
  const bool covered = GrowthOf(ticket) <= 0;
  if (!covered) {
    const bool fits = need == Need::kMust ? MustFits(ticket) : AheadFits(ticket);
    if (!fits || !HasTurn(ticket.holder, need)) {
      Enqueue(need == Need::kMust ? must_ : ahead_line_, ticket);
      return false;
    }
  }
  LeaveLine(ticket.holder);
  Apply(ticket, !covered && need == Need::kMust && ticket.bytes <= oversize_ && !ticket.from);
  return true;
}

void Budget::Apply(const Ticket& ticket, bool grows) {
  if (ticket.from) {
    Holder& from = holders_.at(*ticket.from);
    Update(*ticket.from, from, from.reserve, from.held - std::min(ticket.bytes, from.held));
  }
  Holder& holder = holders_.at(ticket.holder);
  const uint64_t held = holder.held + ticket.bytes;
  if (ticket.bytes > oversize_) oversized_ = ticket.holder;
  Update(ticket.holder, holder, grows ? std::max(holder.reserve, held) : holder.reserve, held);
}

void Budget::Give(HolderId id, uint64_t bytes) {
  Holder& holder = holders_.at(id);
  Update(id, holder, holder.reserve, holder.held - std::min(bytes, holder.held));
}

void Budget::Force(HolderId id, uint64_t held) {
  Holder& holder = holders_.at(id);
  Update(id, holder, holder.reserve, held);
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
  const int64_t over = static_cast<int64_t>(committed_) + GrowthOf(must_.front()) - static_cast<int64_t>(capacity_);
  return over > 0 ? static_cast<uint64_t>(over) : 0;
}

uint64_t Budget::Held(HolderId id) const {
  const auto found = holders_.find(id);
  return found == holders_.end() ? 0 : found->second.held;
}

int64_t Budget::GrowthOf(const Ticket& ticket) const {
  const auto committed = [](uint64_t held, uint64_t reserve) { return static_cast<int64_t>(std::max(held, reserve)); };
  const Holder& holder = holders_.at(ticket.holder);
  int64_t growth = committed(holder.held + ticket.bytes, holder.reserve) - committed(holder.held, holder.reserve);
  if (ticket.from) {
    const Holder& from = holders_.at(*ticket.from);
    growth += committed(from.held - std::min(ticket.bytes, from.held), from.reserve) - committed(from.held, from.reserve);
  }
  return growth;
}

bool Budget::OversizeFree(const Ticket& ticket) const {
  return ticket.bytes <= oversize_ || !oversized_ || *oversized_ == ticket.holder || oversized_ == ticket.from;
}

bool Budget::MustFits(const Ticket& ticket) const {
  const int64_t growth = GrowthOf(ticket);
  return (growth <= 0 || Fits(static_cast<uint64_t>(growth))) && OversizeFree(ticket);
}

bool Budget::AheadFits(const Ticket& ticket) const {
  return must_.empty() && MustFits(ticket) && InShare(ticket) && static_cast<int64_t>(ahead_) + GrowthOf(ticket) <= static_cast<int64_t>(capacity_ / 2);
}

bool Budget::InShare(const Ticket& ticket) const {
  const uint64_t share = capacity_ / 2 / std::max<size_t>(open_groups_, 1);
  const uint64_t ahead = groups_.at(holders_.at(ticket.holder).group).ahead;
  return static_cast<int64_t>(ahead) + GrowthOf(ticket) <= static_cast<int64_t>(share);
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
