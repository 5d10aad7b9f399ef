// A subcommand: its flags, and what it does. One file each; table.cc lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "penstock/status.h"

namespace CLI {
class App;
}

namespace penstock::cli {

// Exit codes that scripts and operators act on. From 128 a TFJob's ExitCode policy retries.
inline constexpr int kExitFine = 0;
inline constexpr int kExitUsage = 2;        // usage or configuration: permanent
inline constexpr int kExitCheckFailed = 3;  // the data or a promise is not as it should be
inline constexpr int kExitRetry = 138;      // worth retrying
int ExitCodeOf(const Status& status);

// Declares the flags of a subcommand. Values are parsed and checked before Run.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}
  void Text(const std::string& name, std::string* value, const std::string& help);                 // not ""
  void Text(const std::string& name, std::optional<std::string>* value, const std::string& help);  // "" is a value, too
  void Texts(const std::string& name, std::vector<std::string>* values, const std::string& help);  // may be repeated, none ""
  void Number(const std::string& name, uint32_t* value, const std::string& help);
  void Number(const std::string& name, std::optional<uint32_t>* value, const std::string& help);
  void Bytes(const std::string& name, uint64_t* value, const std::string& help);  // "256MiB", not 0
  void Time(const std::string& name, Duration* value, const std::string& help);   // "30s"
  void Time(const std::string& name, std::optional<Duration>* value, const std::string& help);
  void Switch(const std::string& name, bool* value, const std::string& help);
  void Names(const std::string& name, std::vector<std::string>* values, const std::string& help);  // without a dash, anywhere
  void CommandLine(const std::string& name, std::vector<std::string>* values,
                   const std::string& help);         // from the first without a dash, or after --, all
  void Hidden(const std::string& name, int* value);  // between our own processes
  // What --help says of the command line, "penstock token create [OPTIONS]", in place of the names declared so far that have no dash.
  void Usage(const std::string& line);

 private:
  CLI::App& app_;
};

struct Globals {
  bool json = false;
  bool color = true;
};

class Command {
 public:
  virtual ~Command() = default;
  virtual void Declare(Flags& flags) = 0;
  virtual Result<int> Run(const Globals& globals) = 0;  // the exit code; an error is printed, and gives its own
};

struct CommandEntry {
  const char* name;
  const char* summary;
  const char* example;
  std::unique_ptr<Command> (*make)();
};
const std::vector<CommandEntry>& Commands();

std::unique_ptr<Command> MakeDispatcher();
std::unique_ptr<Command> MakeWorker();
std::unique_ptr<Command> MakeLocal();
std::unique_ptr<Command> MakeStatus();
std::unique_ptr<Command> MakeRead();
std::unique_ptr<Command> MakeDoctor();
std::unique_ptr<Command> MakeTfJob();
std::unique_ptr<Command> MakeToken();
std::unique_ptr<Command> MakeVersion();

int RunCli(int argc, const char* const* argv);

}  // namespace penstock::cli
