// Who reads an epoch, and what they hold: what the parts of Settle ask of a job.
#pragma once

#include <cstddef>
#include <vector>

#include "dispatcher/settle.h"

namespace penstock::dispatcher {

using Members = std::vector<Consumer*>;

// Those who are alive, in the epoch, and not told its END.
Members ReadersOf(Job& job, Epoch epoch);

// It has nothing to do. Its word counts only if it knew of all its grants when it gave it.
bool Idle(const Job& job, const Consumer& consumer);

size_t HeldBy(const Job& job, const Consumer& consumer);

// Grants of the epoch that are on their way back from those who still read.
size_t ComingBack(const Job& job, const EpochState& state);

void TellEnd(Consumer& consumer, Changes& changes);

// Tells END to those for whom nothing is left, and takes the tails of those who are to go. One round over one epoch.
void EndReaders(Job& job, EpochState& state, TimePoint now, Changes& changes);

}  // namespace penstock::dispatcher
