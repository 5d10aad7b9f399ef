// Tells what a process here would be, and looks for what is missing before a job finds it out.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/ask.h"
#include "cli/command.h"
#include "cli/security.h"
#include "cli/surroundings.h"
#include "cli/values.h"
#include "cluster/describe.h"
#include "worker/usage.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kFewFiles = 4096;

struct Finding {
  enum class Kind : uint8_t { kFine, kWarn, kFailed } kind;
  std::string about;
  std::string text;
};
using Kind = Finding::Kind;

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
  return {Kind::kFine, "environment",
          std::string(cluster::Name(identity->role)) + ", rank " + cluster::ToString(identity->rank) + ", service " +
              cluster::ToString(identity->service)};
}

Finding CheckService(const std::string& flag, const SecurityFlags& security) {
  if (!HasService(flag)) return {Kind::kWarn, "service", "none is named: datasets are read in the process; set PENSTOCK_SERVICE to use readers"};
  const auto address = ServiceAddress(flag);
  if (!address.ok()) return {Kind::kFailed, "service", address.status().message()};
  const auto credentials = security.Read();
  if (!credentials.ok()) return {Kind::kFailed, "service", credentials.status().message()};
  const auto status = AskStatus(*address, *credentials);
  if (!status.ok()) return {Kind::kFailed, "service", status.status().message()};
  const std::string found = "penstock " + status->version + " at " + *address + ", " + std::to_string(status->workers.size()) + " workers, " +
                            std::to_string(status->jobs.size()) + " jobs";
  if (status->workers.empty()) return {Kind::kWarn, "service", found + ": nobody reads; start `penstock worker --dispatcher " + *address + "`"};
  return {Kind::kFine, "service", found};
}

Finding CheckMemory() {
  const std::string named = Variable("PENSTOCK_MEMORY");
  if (named.empty()) return {Kind::kFine, "memory", "a worker would hold up to " + FormatBytes(worker::DefaultMemory()) + " (0.6 of what there is)"};
  const auto bytes = ParseBytes(named);
  if (!bytes.ok()) return {Kind::kFailed, "memory", "PENSTOCK_MEMORY: " + bytes.status().message()};
  return {Kind::kFine, "memory", "a worker would hold up to " + FormatBytes(*bytes) + " (PENSTOCK_MEMORY)"};
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

class Doctor final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Switch("--env", &only_environment_, "Only what the environment says: each question with its winner, the others, and why");
    flags.Text("--dispatcher", &dispatcher_, "HOST:PORT or unix:/path; default what the environment names");
    security_.Declare(flags);
  }

  Result<int> Run(const Globals& globals) override {
    const cluster::Report report = ExamineSurroundings({.service = dispatcher_.empty() ? std::nullopt : std::optional(dispatcher_)});
    if (only_environment_) return ShowEnvironment(report, globals);
    std::vector<Finding> findings{CheckIdentity(report), CheckService(dispatcher_, security_), CheckMemory(), CheckFiles(), CheckStateDir()};
    for (const std::string& warning : report.warnings) findings.push_back({Kind::kWarn, "environment", warning});
    Show(findings, globals);
    for (const Finding& finding : findings) {
      if (finding.kind == Kind::kFailed) return kExitCheckFailed;
    }
    return kExitFine;
  }

 private:
  static int ShowEnvironment(const cluster::Report& report, const Globals& globals) {
    const std::string text = globals.json ? cluster::DescribeJson(report) + "\n" : cluster::Describe(report);
    std::fputs(text.c_str(), stdout);
    return cluster::IdentityOf(report).ok() ? kExitFine : kExitUsage;
  }

  static void Show(const std::vector<Finding>& findings, const Globals& globals) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"result", Name(finding.kind)}, {"about", finding.about}, {"text", finding.text}});
      if (!globals.json) std::printf("%-7s %-12s %s\n", std::string(Name(finding.kind)).c_str(), finding.about.c_str(), finding.text.c_str());
    }
    if (globals.json) std::printf("%s\n", list.dump().c_str());
  }

  bool only_environment_ = false;
  std::string dispatcher_;
  SecurityFlags security_;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace penstock::cli
