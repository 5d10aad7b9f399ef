#include "sim/grant_book.h"

#include <algorithm>

#include "base/constants.h"
#include "base/delivered.h"

namespace penstock::sim {
namespace {

std::string Words(const GrantName& name) {
  return ToString(name.lane) + " from row " + CursorText(name.from) + " at fence " + std::to_string(Raw(name.fence));
}

}  // namespace

std::string GrantBook::Given(JobId job, Generation generation, ConsumerId to, const std::vector<msg::Grant>& grants) {
  for (const msg::Grant& grant : grants) {
    const Entry added{{grant.range.lane, grant.range.from, grant.fence}, grant.range.end(), to, grant.range.from};
    std::vector<Entry>& entries = lanes_[{job, generation, grant.range.lane}];
    const auto same = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.name == added.name; });
    if (same != entries.end() && same->consumer != to) return Words(added.name) + " was given to two consumers";
    if (same != entries.end()) continue;
    if (std::string wrong = Add(entries, added); !wrong.empty()) return wrong;
  }
  return "";
}

std::string GrantBook::Add(std::vector<Entry>& entries, const Entry& added) const {
  for (const Entry& entry : entries) {
    const bool apart = entry.to <= added.name.from || added.to <= entry.name.from;
    if (apart) continue;
    if (entry.name.fence >= added.name.fence) return Words(added.name) + " was given out while there was " + Words(entry.name);
    const bool inside = added.name.from >= entry.name.from && added.name.from < entry.to;
    if (inside && added.asked < entry.asked) {
      return Words(added.name) + " was given out though its holder had asked for row " + CursorText(entry.asked);
    }
  }
  entries.push_back(added);
  return "";
}

void GrantBook::Heard(TimePoint now, const msg::Beat& beat) {
  // One that comes after the lease may speak of lanes that were taken from it: its marks come too late.
  const auto before = heard_.find(beat.consumer);
  const bool late = before != heard_.end() && now - before->second > kDispatcherLease - std::chrono::seconds(1);
  heard_[beat.consumer] = now;
  if (late) Lose(beat.consumer);
  for (const msg::Hold& hold : beat.holds) {
    const auto lane = lanes_.find({beat.job, beat.generation, hold.lane});
    if (lane == lanes_.end()) continue;
    const bool taken = std::any_of(lane->second.begin(), lane->second.end(), [&](const Entry& entry) {
      return entry.name.fence > hold.fence && entry.name.from < hold.asked && hold.grant_from < entry.to;
    });
    if (taken) continue;
    for (Entry& entry : lane->second) {
      const bool same = entry.name == GrantName{hold.lane, hold.grant_from, hold.fence} && entry.consumer == beat.consumer;
      if (same && !entry.lost) entry.asked = std::max(entry.asked, hold.asked);
    }
  }
}

void GrantBook::Lose(ConsumerId consumer) {
  for (auto& [key, entries] : lanes_) {
    for (Entry& entry : entries) entry.lost = entry.lost || entry.consumer == consumer;
  }
}

void GrantBook::Forget() {
  for (auto& [key, entries] : lanes_) {
    for (Entry& entry : entries) entry.asked = {};
  }
}

std::string GrantBook::Delivered(JobId job, Generation generation, ConsumerId by, const Slice& slice) const {
  const auto lane = lanes_.find({job, generation, slice.grant.lane});
  bool granted = false;
  if (lane != lanes_.end()) {
    for (const Entry& entry : lane->second) {
      if (entry.name == slice.grant && entry.consumer == by) granted = true;
      const bool touches = entry.name.from < slice.end && slice.first < entry.to;
      if (touches && entry.name.fence > slice.grant.fence) {
        return "rows of " + Words(slice.grant) + " were delivered though there is fence " + std::to_string(Raw(entry.name.fence));
      }
    }
  }
  return granted ? "" : "rows of " + Words(slice.grant) + " were delivered, which was never given to this consumer";
}

}  // namespace penstock::sim
