// Ends the consumers of a shared job at one step (docs/design/shared.md, "Even").
#pragma once

#include "base/clock.h"
#include "dispatcher/settle.h"
#include "dispatcher/state.h"

namespace penstock::dispatcher {

// The job's consumers end an epoch at the same step.
bool EndsEvenly(const Job& job);

// They are told how far they may go in this epoch: from the moment all of its lanes were granted, or from its start where lanes are granted in
// ranges, until `steps` is known.
bool Evening(const Job& job, const EpochState& state);

// How far a consumer can come in its epoch with what it has.
inline uint64_t MarkOf(const Consumer& consumer) { return consumer.came.batches + consumer.ready_batches; }

// Rows that one gets at a time of what is left: small pieces, so that those who are behind catch up.
uint64_t EvenPiece(const Job& job);

// Holds all back until each declared consumer has come. Then moves what is left to whoever is behind, tells the limit, and the number of steps
// once nothing more can become ready anywhere.
void EvenOut(Job& job, EpochState& state, TimePoint now, Changes& changes);

}  // namespace penstock::dispatcher
