// What a cohort's members bring, made into one position; and a job set to it (docs/design/positions.md, "Restore").
#pragma once

#include <string>
#include <vector>

#include "dispatcher/state.h"
#include "penstock/status.h"
#include "plan/position.h"

namespace penstock::dispatcher {

// Whether a state can be this job's at all. `rows` is the fingerprint of what makes the job's rows. An error names what differs.
Status CheckState(const Job& job, const std::string& rows, const Position& state);

// One position of all that was brought: a whole one, or the parts of every member of the roster that saved them; the job's start where there
// is none. An error names what is missing or mixed. `any_cut`: the members go on from where each is, so their tags differ.
Result<Position> Assemble(const Job& job, const std::string& rows, const std::vector<Position>& states, bool any_cut);

// What is done for certain: everything but what was never granted, waits in the pool or is held.
History DoneIn(const Job& job);

// The job as it was made but for what `position` says was delivered: epochs, generation, base. Members are not touched.
void SetTo(Job& job, const Position& position);

}  // namespace penstock::dispatcher
