// What the environment says to a subcommand: the one place of the executable that asks it (cluster/identity.h).
#pragma once

#include <string>

#include "cluster/identity.h"
#include "penstock/status.h"

namespace penstock::cli {

cluster::Report ExamineSurroundings(cluster::Arguments arguments = {});
// Warns in the log of variables that nobody reads.
void LogWarnings(const cluster::Report& report);

// The variable's value; where `name` is not set, `otherwise`'s; "" where neither is.
std::string Variable(const char* name, const char* otherwise = nullptr);

// Where the service is: the flag, else what the environment says. Invalid where it says nothing, or names no address.
Result<std::string> ServiceAddress(const std::string& flag);
bool HasService(const std::string& flag);

}  // namespace penstock::cli
