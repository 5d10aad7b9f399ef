#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/constants.h"
#include "base/name.h"
#include "cli/ask.h"
#include "cli/command.h"
#include "cli/security.h"
#include "cli/surroundings.h"
#include "cli/text_table.h"
#include "cli/values.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Hex(uint64_t number) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(number));
  return text.data();
}

// None where nobody reads, or for less time than beats take.
std::optional<uint64_t> PerSecond(const msg::StatusJob& job, uint64_t amount) {
  if (job.consumers == 0 || job.watched_ms < static_cast<uint64_t>(std::chrono::milliseconds(kHeartbeatEvery).count())) return std::nullopt;
  return static_cast<uint64_t>(static_cast<double>(amount) * 1000 / static_cast<double>(job.watched_ms));
}

Json ToJson(std::optional<uint64_t> rate) { return rate ? Json(*rate) : Json(); }

Json ToJson(const msg::StatusJob& job) {
  return {{"name", job.name},
          {"job", Hex(Raw(job.job))},
          {"dataset", job.dataset},
          {"mode", Name(job.mode)},
          {"epoch", Raw(job.epoch)},
          {"lanes", job.lanes},
          {"lanes_done", job.lanes_done},
          {"lanes_open", job.lanes_open},
          {"consumers", job.consumers},
          {"rows", job.rows},
          {"bytes", job.bytes},
          {"wire_bytes", job.wire_bytes},
          {"wait_ns", job.wait_ns},
          {"state", job.state},
          {"redelivered", job.redelivered},
          {"rows_per_s", ToJson(PerSecond(job, job.watched_rows))},
          {"bytes_per_s", ToJson(PerSecond(job, job.watched_bytes))},
          {"wire_bytes_per_s", ToJson(PerSecond(job, job.watched_wire_bytes))}};
}

Json ToJson(const msg::StatusWorker& worker) {
  return {{"worker", Hex(Raw(worker.worker))},
          {"address", worker.address},
          {"name", worker.name},
          {"pid", worker.pid},
          {"draining", worker.draining},
          {"lanes", worker.lanes},
          {"used", worker.used},
          {"budget", worker.budget},
          {"rows", worker.rows},
          {"bytes", worker.bytes},
          {"wire_bytes", worker.wire_bytes},
          {"rss", worker.rss},
          {"cpu_ns", worker.cpu_ns},
          {"silent_ms", worker.silent_ms},
          {"state", worker.state}};
}

Json ToJson(const msg::StatusReply& status) {
  Json json{
      {"cluster", status.cluster}, {"term", Raw(status.term)}, {"version", status.version}, {"jobs", Json::array()}, {"workers", Json::array()}};
  for (const auto& job : status.jobs) json["jobs"].push_back(ToJson(job));
  for (const auto& worker : status.workers) json["workers"].push_back(ToJson(worker));
  return json;
}

std::string JobsTable(const msg::StatusReply& status, bool color) {
  TextTable table({"JOB", "MODE", "EPOCH", "LANES DONE/OPEN/ALL", "RANKS", "ROWS", "ROWS/S", "BYTES/S", "WIRE/S", "REPEATED", "STATE"});
  for (const auto& job : status.jobs) {
    const std::string lanes = std::to_string(job.lanes_done) + "/" + std::to_string(job.lanes_open) + "/" + std::to_string(job.lanes);
    const auto rows = PerSecond(job, job.watched_rows);
    const auto bytes = PerSecond(job, job.watched_bytes);
    const auto wire = PerSecond(job, job.watched_wire_bytes);
    table.Add({Printable(job.name), std::string(Name(job.mode)), std::to_string(Raw(job.epoch)), lanes, std::to_string(job.consumers),
               std::to_string(job.rows), rows ? std::to_string(*rows) : "-", bytes ? FormatBytes(*bytes) : "-", wire ? FormatBytes(*wire) : "-",
               std::to_string(job.redelivered), Printable(job.state)});
  }
  return table.Render(color);
}

std::string WorkersTable(const msg::StatusReply& status, bool color) {
  TextTable table({"WORKER", "NAME", "LANES", "MEMORY/BUDGET", "RSS", "CPU S", "ROWS", "BYTES", "WIRE", "STATE"});
  for (const auto& worker : status.workers) {
    std::array<char, 32> cpu{};
    std::snprintf(cpu.data(), cpu.size(), "%.1f", static_cast<double>(worker.cpu_ns) / 1e9);
    table.Add({Printable(worker.address), Printable(worker.name), std::to_string(worker.lanes),
               FormatBytes(worker.used) + " / " + FormatBytes(worker.budget), FormatBytes(worker.rss), cpu.data(), std::to_string(worker.rows),
               FormatBytes(worker.bytes), FormatBytes(worker.wire_bytes), Printable(worker.state)});
  }
  return table.Render(color);
}

std::string Workers(const msg::StatusReply& status, const std::string& address, bool color) {
  if (!status.workers.empty()) return WorkersTable(status, color);
  return "No worker is registered, and ranks wait for one: `penstock worker --dispatcher " + address + "` starts one.\n";
}

class ShowStatus final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Text("--dispatcher", &dispatcher_, "HOST:PORT or unix:/path; default PENSTOCK_SERVICE");
    security_.Declare(flags);
  }

  Result<int> Run(const Globals& globals) override {
    PENSTOCK_ASSIGN(const std::string address, ServiceAddress(dispatcher_));
    PENSTOCK_ASSIGN(const Credentials credentials, security_.Read());
    PENSTOCK_ASSIGN(const msg::StatusReply status, AskStatus(address, credentials));
    if (globals.json) {
      std::printf("%s\n", ToJson(status).dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
      return kExitFine;
    }
    const bool color = globals.color && isatty(STDOUT_FILENO) == 1;
    std::printf("penstock %s at %s, cluster %s, start %llu\n\n%s\n%s", status.version.c_str(), address.c_str(), status.cluster.c_str(),
                static_cast<unsigned long long>(Raw(status.term)), JobsTable(status, color).c_str(), Workers(status, address, color).c_str());
    return kExitFine;
  }

 private:
  std::string dispatcher_;
  SecurityFlags security_;
};

}  // namespace

std::unique_ptr<Command> MakeStatus() { return std::make_unique<ShowStatus>(); }

}  // namespace penstock::cli
