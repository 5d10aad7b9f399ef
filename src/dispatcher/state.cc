#include "dispatcher/state.h"

#include "plan/ranges.h"

namespace penstock::dispatcher {

EpochShape Job::shape() const {
  const Layout& layout = inputs.layout;
  EpochShape shape{.lanes = layout.lanes, .group_rows = layout.group_rows()};
  if (GrantedInRanges(layout, consumers)) {
    constexpr uint64_t kGroupsARange = 16;
    shape.range_rows = layout.serial_range != 0 ? layout.serial_range : kGroupsARange * layout.group_rows();
  }
  return shape;
}

Even Job::evens() const {
  if (even != Even::kAuto) return even;
  const bool counts = mode == Mode::kStrict || (mode == Mode::kShared && inputs.layout.batch > 0);
  return counts && consumers > 1 && holds() ? Even::kDrop : Even::kUneven;  // who goes on without a dead one has no common step
}

bool Job::holds() const {
  if (mode == Mode::kStrict) return true;
  return on_death == OnDeath::kAuto ? consumers > 0 : on_death == OnDeath::kHold;
}

Consumer* Job::Seated(uint32_t index) {
  for (auto& [consumer, member] : members) {
    if (!member.undecided && member.index == index) return &member;
  }
  return nullptr;
}

}  // namespace penstock::dispatcher
