// What `penstock doctor` looks at: a finding each.
#pragma once

#include <string>
#include <string_view>

#include "cli/security.h"
#include "cluster/identity.h"

namespace penstock::cli {

struct Finding {
  enum class Kind : uint8_t { kFine, kWarn, kFailed } kind;
  std::string about;
  std::string text;  // with the remedy, where it is not fine
};
std::string_view Name(Finding::Kind kind);

// Who this process is, and whether its role has a place; whether its ranks would find each other.
Finding CheckIdentity(const cluster::Report& report);
Finding CheckJob(const cluster::Report& report);

// Variables that only servers or readers look at, and then refuse: their files and their values.
Finding CheckCredentials(const SecurityFlags& security);
Finding CheckMemory();
Finding CheckLog();
Finding CheckMode();

// The service, and what there is on this machine.
Finding CheckService(const std::string& flag, const SecurityFlags& security);
Finding CheckFiles();
Finding CheckStateDir();

}  // namespace penstock::cli
