#include "cli/doctor_checks.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <variant>

#include "base/log.h"
#include "cli/ask.h"
#include "cli/surroundings.h"
#include "cli/values.h"
#include "penstock/layout.h"
#include "worker/usage.h"

namespace penstock::cli {
namespace {

using Kind = Finding::Kind;

constexpr uint64_t kFewFiles = 4096;

bool IsShared(const cluster::Service& service) {
  return std::holds_alternative<cluster::Address>(service) || std::holds_alternative<cluster::UnixService>(service);
}

// A file of this user's own that others can read; a mounted secret belongs to somebody else.
bool OthersCanRead(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & (S_IRGRP | S_IROTH)) != 0;
}

}  // namespace

std::string_view Name(Kind kind) {
  switch (kind) {
    case Kind::kFine: return "ok";
    case Kind::kWarn: return "warn";
    case Kind::kFailed: return "failed";
  }
  return "unknown";
}

Finding CheckIdentity(const cluster::Report& report) {
  const auto identity = cluster::IdentityOf(report);
  if (!identity.ok()) return {Kind::kFailed, "environment", identity.status().message()};
  if (!identity->misplaced.empty()) return {Kind::kFailed, "environment", identity->misplaced};
  const std::string text = std::string(cluster::Name(identity->role)) + ", rank " + cluster::ToString(identity->rank) + ", service " +
                           cluster::ToString(identity->service);
  if (const std::string why = cluster::Unranked(report); !why.empty()) return {Kind::kWarn, "environment", text + ": " + why};
  return {Kind::kFine, "environment", text};
}

Finding CheckJob(const cluster::Report& report) {
  const auto identity = cluster::IdentityOf(report);
  if (!identity.ok() || !cluster::JoinsTraining(identity->role)) return {Kind::kFine, "job", "this process joins none by itself"};
  const bool named = identity->job_from == cluster::Source::kArgument || identity->job_from == cluster::Source::kPenstock;
  if (identity->rank.world == 1 && !named) return {Kind::kFine, "job", "anonymous: one rank shares it with nobody"};
  if (!identity->job.empty()) return {Kind::kFine, "job", identity->job};
  const std::string nameless = "nothing names the job that the " + std::to_string(identity->rank.world) + " ranks share";
  if (!IsShared(identity->service)) return {Kind::kFine, "job", nameless + ", and without a service they share none"};
  return {Kind::kWarn, "job",
          nameless + ": set PENSTOCK_JOB_NAME to the same on all of them, and to another for each run, or give job_name= in the program"};
}

Finding CheckCredentials(const SecurityFlags& security) {
  const auto credentials = security.Read();
  if (!credentials.ok()) return {Kind::kFailed, "security", credentials.status().message()};
  const std::string text = std::string(credentials->token.empty() ? "no token" : "a token") + ", " + (credentials->tls ? "TLS" : "no TLS");
  for (const std::string& file : {security.token_file(), security.tls_files().key}) {
    if (OthersCanRead(file)) return {Kind::kWarn, "security", text + "; others can read " + file + ": chmod 600 it"};
  }
  return {Kind::kFine, "security", text};
}

Finding CheckMemory() {
  const std::string named = Variable("PENSTOCK_MEMORY");
  if (named.empty()) return {Kind::kFine, "memory", "a worker would hold up to " + FormatBytes(worker::DefaultMemory()) + " (0.6 of what there is)"};
  const auto bytes = ParseBytes(named);
  if (!bytes.ok()) return {Kind::kFailed, "memory", "PENSTOCK_MEMORY: " + bytes.status().message()};
  const std::string text = FormatBytes(*bytes) + " (PENSTOCK_MEMORY)";
  if (*bytes < worker::kLeastMemory)
    return {Kind::kFailed, "memory", text + " are too few for a worker: it needs " + FormatBytes(worker::kLeastMemory)};
  return {Kind::kFine, "memory", "a worker would hold up to " + text};
}

Finding CheckLog() {
  const std::string named = Variable("PENSTOCK_LOG");
  if (named.empty()) return {Kind::kFine, "log", "servers log from info on"};
  const auto level = LogLevelFromName(named);
  if (!level.ok()) return {Kind::kFailed, "log", level.status().Prefixed("PENSTOCK_LOG").message()};
  return {Kind::kFine, "log", named + " (PENSTOCK_LOG)"};
}

Finding CheckMode() {
  const std::string named = Variable("PENSTOCK_PROCESSING_MODE");
  if (named.empty()) return {Kind::kFine, "mode", "as the program says"};
  const auto mode = ModeFromName(named);
  if (!mode.ok()) return {Kind::kFailed, "mode", mode.status().Prefixed("PENSTOCK_PROCESSING_MODE").message()};
  if (*mode == Mode::kSharded) return {Kind::kFailed, "mode", "PENSTOCK_PROCESSING_MODE: mode sharded is not available in this version: use shared"};
  return {Kind::kFine, "mode", std::string(Name(*mode)) + " (PENSTOCK_PROCESSING_MODE)"};
}

Finding CheckService(const std::string& flag, const SecurityFlags& security) {
  if (!HasService(flag)) return {Kind::kWarn, "service", "none is named: datasets are read in the process; set PENSTOCK_SERVICE to use readers"};
  const auto address = ServiceAddress(flag);
  if (!address.ok()) return {Kind::kFailed, "service", address.status().message()};
  const auto credentials = security.Read();
  if (!credentials.ok()) return {Kind::kFailed, "service", "not asked, without what it may ask for"};
  const auto status = AskStatus(*address, *credentials);
  if (!status.ok()) return {Kind::kFailed, "service", status.status().message()};
  const std::string found = "penstock " + status->version + " at " + *address + ", " + std::to_string(status->workers.size()) + " workers, " +
                            std::to_string(status->jobs.size()) + " jobs";
  if (status->workers.empty()) return {Kind::kWarn, "service", found + ": nobody reads; start `penstock worker --dispatcher " + *address + "`"};
  return {Kind::kFine, "service", found};
}

Finding CheckFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string text = std::to_string(limit.rlim_cur) + " open files";
  if (limit.rlim_cur < kFewFiles) return {Kind::kWarn, "files", text + ": few for many consumers; raise it with ulimit -n"};
  return {Kind::kFine, "files", text};
}

Finding CheckStateDir() {
  const std::string directory = Variable("PENSTOCK_STATE_DIR", "DATASET_JOURNALING_DIR");
  if (directory.empty()) return {Kind::kFine, "state", "a dispatcher here would keep its state in memory; PENSTOCK_STATE_DIR names a directory"};
  if (access(directory.c_str(), W_OK) == 0) return {Kind::kFine, "state", directory};
  return {Kind::kWarn, "state", directory + " is not there or cannot be written: the dispatcher needs it"};
}

}  // namespace penstock::cli
