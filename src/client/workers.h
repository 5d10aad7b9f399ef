// The workers that a consumer knows of, and in which order a lane tries them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "penstock/ids.h"
#include "wire/messages.h"

namespace penstock {

class WorkerBook {
 public:
  enum class Link : uint8_t { kNone, kConnecting, kUp };
  struct Entry {
    msg::WorkerInfo info;
    Link link = Link::kNone;
    bool listed = true;     // in the dispatcher's newest list
    TimePoint retry_at{};   // could not be reached: not before
    uint32_t failures = 0;  // in a row
  };

  // The dispatcher's newest list. A worker that left it takes no new lane; it is forgotten when its link is gone.
  void Update(const std::vector<msg::WorkerInfo>& workers);
  void SetLink(WorkerId worker, Link link);
  void SetDraining(WorkerId worker);
  // The link broke or could not be made. Tried again after a pause that doubles from 50 ms to 2 s.
  void Lost(WorkerId worker, TimePoint now);

  const Entry* Find(WorkerId worker) const;
  std::string Name(WorkerId worker) const;  // its address, for people
  // Those that may take the lane now, by rendezvous hash of (job, lane, worker): every consumer finds the same order, and a worker that
  // comes or goes moves only its own lanes. `pinned` alone where the lane is bound to one.
  std::vector<WorkerId> Order(JobId job, const LaneKey& lane, WorkerId pinned, TimePoint now) const;
  std::optional<TimePoint> NextRetry(TimePoint now) const;
  // Listed, not draining and, if `pinned`, that one: whether there is anybody to wait for.
  bool Any(WorkerId pinned) const;
  // All with a link; at close.
  std::vector<WorkerId> Linked() const;

 private:
  bool Takes(const Entry& entry, WorkerId pinned) const;
  std::map<WorkerId, Entry> workers_;
};

}  // namespace penstock
