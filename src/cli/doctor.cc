// Tells what a process here would be, and looks for what is missing before a job finds it out.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/command.h"
#include "cli/doctor_checks.h"
#include "cli/security.h"
#include "cli/surroundings.h"
#include "cluster/describe.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

bool Failed(const Finding& finding) { return finding.kind == Finding::Kind::kFailed; }

int ExitCodeOf(const std::vector<Finding>& findings) { return std::any_of(findings.begin(), findings.end(), Failed) ? kExitCheckFailed : kExitFine; }

class Doctor final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Switch("--env", &only_environment_, "Only what the environment says: each question with its winner, the others, and why");
    flags.Text("--dispatcher", &dispatcher_, "HOST:PORT or unix:/path; default what the environment names");
    security_.Declare(flags);
  }

  Result<int> Run(const Globals& globals) override {
    const cluster::Report report = ExamineSurroundings({.service = dispatcher_.empty() ? std::nullopt : std::optional(dispatcher_)});
    std::vector<Finding> findings{CheckIdentity(report), CheckJob(report), CheckCredentials(security_), CheckMemory(), CheckLog(), CheckMode()};
    if (only_environment_) {
      ShowEnvironment(report, findings, globals);
      return ExitCodeOf(findings);
    }
    for (Finding& finding : std::vector{CheckService(dispatcher_, security_), CheckFiles(), CheckStateDir()}) findings.push_back(std::move(finding));
    for (const std::string& warning : report.warnings) findings.push_back({Finding::Kind::kWarn, "environment", warning});
    Show(findings, globals);
    return ExitCodeOf(findings);
  }

 private:
  // The answers, and below them what would be refused all the same, or warned of.
  static void ShowEnvironment(const cluster::Report& report, const std::vector<Finding>& findings, const Globals& globals) {
    std::string text = globals.json ? "" : cluster::Describe(report);
    Json object = globals.json ? Json::parse(cluster::DescribeJson(report)) : Json();
    object["findings"] = Json::array();
    for (const Finding& finding : findings) {
      const bool shown_above = finding.about == "environment" && !cluster::IdentityOf(report).ok();
      if (finding.kind == Finding::Kind::kFine || shown_above) continue;
      object["findings"].push_back(ToJson(finding));
      text += Line(finding, 12);
    }
    if (globals.json) text = object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    std::fputs(text.c_str(), stdout);
  }

  static void Show(const std::vector<Finding>& findings, const Globals& globals) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
      list.push_back(ToJson(finding));
      if (!globals.json) std::fputs((Line(finding, 8)).c_str(), stdout);
    }
    if (globals.json) std::printf("%s\n", list.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }

  static Json ToJson(const Finding& finding) { return {{"result", Name(finding.kind)}, {"about", finding.about}, {"text", finding.text}}; }

  static std::string Line(const Finding& finding, size_t column) {
    const auto padded = [](std::string text, size_t width) { return text.append(width > text.size() ? width - text.size() : 1, ' '); };
    return padded(std::string(Name(finding.kind)), column) + padded(finding.about, 13) + finding.text + "\n";
  }

  bool only_environment_ = false;
  std::string dispatcher_;
  SecurityFlags security_;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace penstock::cli
