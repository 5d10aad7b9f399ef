// What a job and a join must agree on, and how it is said when they do not.
#pragma once

#include <string>

#include "dispatcher/state.h"
#include "penstock/status.h"
#include "wire/messages.h"

namespace penstock::dispatcher {

std::string Named(const Job& job);  // "job 'train'"

// Ok where the join asks for what the job is. The number of consumers is not compared: a restore may change it.
Status CompareTerms(const Job& job, const msg::Join& join);
Status OtherConsumers(const Job& job, uint32_t declared);
Status OtherGeneration(const Job& job, Generation generation);
Status JobFinished(const std::string& name);
// Whether a job of that mode can be read over such inputs.
Status CheckLayout(const Job& job);

}  // namespace penstock::dispatcher
