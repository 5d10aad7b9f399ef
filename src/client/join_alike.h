// Joining by name where programs may have registered the same dataset in slightly different words.
#pragma once

#include <memory>
#include <string>

#include "penstock/client.h"

namespace penstock {

// Joins the job that `options` name. Who comes to one that reads another dataset of the same elements reads that one, which is logged: a name is a
// job, whatever was registered since. Where elements differ, the Mismatch that the dispatcher said.
Result<std::unique_ptr<Reader>> JoinAlike(Client& client, const std::string& dataset, const ReadOptions& options);

}  // namespace penstock
