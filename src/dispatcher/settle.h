// Who gets what: run after every change of a job. Grants pieces and lanes to those who want them, hands lanes over to those who have none,
// and tells END (docs/design/shared.md, "Tails and END").
#pragma once

#include <set>
#include <string>

#include "base/clock.h"
#include "dispatcher/state.h"

namespace penstock::dispatcher {

// What was changed, for the store and for those who wait.
struct Changes {
  bool job = false;
  std::set<Epoch> epochs;
  std::set<ConsumerId> members;
};

void Settle(Job& job, TimePoint now, Changes& changes);
void SettleStrict(Job& job, Changes& changes);  // of a strict job: Settle's part

// Why this consumer has nothing to read, in words; "" where it has.
std::string WaitingFor(const Job& job, const Consumer& consumer, TimePoint now, bool any_worker);

}  // namespace penstock::dispatcher
