// What a job and a join must agree on, and how it is said when they do not.
#pragma once

#include <string>

#include "dispatcher/state.h"
#include "penstock/status.h"
#include "wire/messages.h"

namespace penstock::dispatcher {

std::string Named(const Job& job);  // "job 'train'"

// Ok where the join asks for what the job is, its dataset aside. The number of consumers is not compared: a restore may change it.
Status CompareTerms(const Job& job, const msg::Join& join);
Status OtherConsumers(const Job& job, uint32_t declared);
Status OtherGeneration(const Job& job, Generation generation);
// `difference` as CoreOptions has it; "": not known.
Status OtherDataset(const Job& job, const std::string& dataset, const std::string& difference);
// `outcome` is that of its tombstone.
Status NotAsRestored(const Job& job);
Status JobFinished(const Job& job, const std::string& outcome);
// Whether a job of that mode can be read over such inputs.
Status CheckLayout(const Job& job);

}  // namespace penstock::dispatcher
