// Who was given what, as the dispatcher's words said: no row to two consumers at one fence, none delivered under a fence that is not the
// highest, and none given out again from before what its holder said that it had.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "client/shelf.h"
#include "wire/messages.h"

namespace penstock::sim {

class GrantBook {
 public:
  // The dispatcher says that these are `to`'s. Returns what is wrong with it; "" when all is well.
  std::string Given(JobId job, Generation generation, ConsumerId to, const std::vector<msg::Grant>& grants);
  // A beat reached the dispatcher, at this time by its clock.
  void Heard(TimePoint now, const msg::Beat& beat);
  // It crashed: what it only heard is gone.
  void Forget();
  // Rows of a batch at the moment that a loop gets them.
  std::string Delivered(JobId job, Generation generation, ConsumerId by, const Slice& slice) const;

 private:
  struct Entry {
    GrantName name;
    Cursor to;
    ConsumerId consumer{};
    Cursor asked;
    bool lost = false;  // its holder was not heard of for a lease: it may be another's
  };
  using Key = std::tuple<JobId, Generation, LaneKey>;

  std::string Add(std::vector<Entry>& entries, const Entry& added) const;
  void Lose(ConsumerId consumer);

  std::map<Key, std::vector<Entry>> lanes_;
  std::map<ConsumerId, TimePoint> heard_;
};

}  // namespace penstock::sim
