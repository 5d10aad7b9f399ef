// A byte budget without deadlock (engine.md 3).
//
// A holder has a reserve that it may use whenever it likes; beyond it, it takes from what nobody reserved. At all times
//     committed = sum over holders of max(reserve, held) <= capacity
// so a reserve can always be used, whatever the others hold. Who asks for more than there is waits in line:
//   kMust   it cannot go on otherwise: before everybody who reads ahead, in the order asked, without caps. Its reserve grows to what it took.
//   kAhead  it reads ahead: in the order asked, all together at most half of the capacity, a group (a job) at most its share of that.
// One take larger than `oversize` may be out at a time, and does not grow a reserve.
//
// Pure accounting: no memory, no threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

namespace penstock {

enum class HolderId : uint64_t {};
enum class GroupId : uint64_t {};

class Budget {
 public:
  enum class Need : uint8_t { kMust, kAhead };

  Budget(uint64_t capacity, uint64_t oversize) : capacity_(capacity), oversize_(oversize) {}

  // A new holder. False, and nothing has changed, where its reserve does not fit now.
  bool Open(HolderId holder, GroupId group, uint64_t reserve);
  // Gives its reserve and its place in line up. What it holds stays counted until it is given back.
  void Close(HolderId holder);

  // True: taken. False: it has a place in line; call again when Next() names it.
  bool Take(HolderId holder, uint64_t bytes, Need need);
  // Takes only what the reserve covers; never waits.
  bool TakeReserved(HolderId holder, uint64_t bytes);
  void Give(HolderId holder, uint64_t bytes);
  // What `from` holds becomes what `to` has read ahead, if there is room for that now; never waits, and never for one larger than `oversize`.
  bool MoveAhead(HolderId from, HolderId to, uint64_t bytes);
  // Counts memory that is already there and cannot be refused: state that a holder did not declare. May commit more than the capacity.
  void Force(HolderId holder, uint64_t held);
  // Of its reserve it keeps so much, and what it holds.
  void Lower(HolderId holder, uint64_t reserve);
  void LeaveLine(HolderId holder);
  // So many bytes are used for something else from now on. What is committed stays so, also where it is more than what is left.
  void Shrink(uint64_t bytes) { capacity_ -= std::min(bytes, capacity_); }

  // Who is in line and could take what it asked for now.
  std::optional<HolderId> Next() const;
  // How many bytes the first kMust in line lacks, and who it is; 0: nobody waits so.
  uint64_t ShortOf() const;
  std::optional<HolderId> FirstMust() const { return must_.empty() ? std::nullopt : std::optional(must_.front().holder); }

  // Who has the one oversize take that may be out, where the first kMust in line waits for it.
  std::optional<HolderId> InTheWay() const;

  bool Fits(uint64_t more) const { return committed_ + more <= capacity_; }
  uint64_t Held(HolderId holder) const;
  uint64_t Reserved(HolderId holder) const;
  uint64_t capacity() const { return capacity_; }
  uint64_t committed() const { return committed_; }
  uint64_t used() const { return used_; }
  uint64_t ahead() const { return ahead_; }
  uint64_t ahead_cap() const { return capacity_ / 2; }
  // Of what may be read ahead, a group's.
  uint64_t ahead_share() const { return ahead_cap() / (open_groups_ == 0 ? 1 : open_groups_); }

 private:
  struct Holder {
    GroupId group{};
    uint64_t reserve = 0;
    uint64_t held = 0;
    bool closed = false;
  };
  struct Group {
    size_t open = 0;     // holders
    size_t holders = 0;  // closed ones included
    uint64_t ahead = 0;
  };
  struct Ticket {
    HolderId holder{};
    uint64_t bytes = 0;
  };
  using Line = std::deque<Ticket>;

  uint64_t GrowthOf(const Holder& holder, uint64_t bytes) const;
  bool OversizeFree(HolderId holder, uint64_t bytes) const;
  bool MustFits(const Ticket& ticket) const;
  bool AheadFits(const Ticket& ticket) const;
  bool InShare(const Ticket& ticket) const;
  bool HasTurn(HolderId holder, Need need) const;
  void Update(HolderId id, Holder& holder, uint64_t reserve, uint64_t held);
  void Enqueue(Line& line, Ticket ticket);

  uint64_t capacity_;
  uint64_t oversize_;
  uint64_t committed_ = 0;
  uint64_t used_ = 0;
  uint64_t ahead_ = 0;
  size_t open_groups_ = 0;
  std::optional<HolderId> oversized_;
  std::unordered_map<HolderId, Holder> holders_;
  std::unordered_map<GroupId, Group> groups_;
  Line must_;
  Line ahead_line_;
};

}  // namespace penstock
