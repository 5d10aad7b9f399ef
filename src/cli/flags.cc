// The only file that sees CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/values.h"

namespace penstock::cli {
namespace {

class WithUsage final : public CLI::Formatter {
 public:
  explicit WithUsage(std::string line) : line_(std::move(line)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override { return "Usage: " + line_ + "\n"; }

 private:
  std::string line_;
};

// A flag whose text is parsed by `parse` into `value`.
template <class T, class Parse>
void AddParsed(CLI::App& app, const std::string& name, T* value, const std::string& help, const std::string& type, Parse parse) {
  app.add_option_function<std::string>(
         name,
         [name, value, parse](const std::string& text) {
           auto parsed = parse(text);
           if (!parsed.ok()) throw CLI::ValidationError(name, parsed.status().message());
           *value = *parsed;
         },
         help)
      ->type_name(type);
}

// As of a shell's variable that is not set: what it should have said, nobody knows.
Result<std::string> NotEmpty(const std::string& text) {
  if (!text.empty()) return text;
  return Status(Code::kInvalid, "it is empty; give it a value, or leave the flag out");
}

Result<uint64_t> ParseBudget(const std::string& text) {
  PENSTOCK_ASSIGN(const uint64_t bytes, ParseBytes(text));
  if (bytes == 0)
    return Status(Code::kInvalid, "\"" + text + "\" is no size to work with; give one like 256MiB, or leave the flag out for the default");
  return bytes;
}

// What stands where a subcommand should, and is none.
Status CheckSubcommand(int argc, const char* const* argv) {
  std::vector<std::string_view> names;
  for (const CommandEntry& entry : Commands()) names.emplace_back(entry.name);
  const char* const* end = argv + argc;
  const char* const* word = std::find_if(argv + 1, end, [](const char* argument) { return argument[0] != '-'; });
  if (word >= end || std::find(names.begin(), names.end(), *word) != names.end()) return {};
  const std::string_view nearest = Nearest(*word, names);
  const std::string hint = nearest.empty() ? "" : ", did you mean '" + std::string(nearest) + "'?";
  return Status(Code::kInvalid,
                "there is no subcommand '" + std::string(*word) + "'" + hint + (hint.empty() ? "; " : " ") + "`penstock --help` lists them");
}

void PrintError(const Status& status) { std::fprintf(stderr, "penstock: %s\n", status.message().c_str()); }

}  // namespace

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kOk: return kExitFine;
    case Code::kUnavailable:
    case Code::kDeadline:
    case Code::kBusy:
    case Code::kStalled:
    case Code::kStale: return kExitRetry;
    case Code::kData:
    case Code::kNotDeterministic:
    case Code::kInternal: return kExitCheckFailed;
    default: return kExitUsage;
  }
}

void Flags::Text(const std::string& name, std::string* value, const std::string& help) { AddParsed(app_, name, value, help, "TEXT", NotEmpty); }
void Flags::Text(const std::string& name, std::optional<std::string>* value, const std::string& help) {
  AddParsed(app_, name, value, help, "TEXT", [](const std::string& text) { return Result<std::string>(text); });
}
void Flags::Texts(const std::string& name, std::vector<std::string>* values, const std::string& help) {
  const auto check = [](const std::string& text) { return NotEmpty(text).status().message(); };
  app_.add_option(name, *values, help)->type_name("TEXT")->allow_extra_args(false)->check(check);
}
void Flags::Number(const std::string& name, uint32_t* value, const std::string& help) { app_.add_option(name, *value, help)->type_name("N"); }
void Flags::Number(const std::string& name, std::optional<uint32_t>* value, const std::string& help) {
  app_.add_option(name, *value, help)->type_name("N");
}
void Flags::Bytes(const std::string& name, uint64_t* value, const std::string& help) { AddParsed(app_, name, value, help, "SIZE", ParseBudget); }
void Flags::Time(const std::string& name, Duration* value, const std::string& help) { AddParsed(app_, name, value, help, "TIME", ParseDuration); }
void Flags::Time(const std::string& name, std::optional<Duration>* value, const std::string& help) {
  AddParsed(app_, name, value, help, "TIME", ParseDuration);
}
void Flags::Switch(const std::string& name, bool* value, const std::string& help) { app_.add_flag(name, *value, help); }
void Flags::Names(const std::string& name, std::vector<std::string>* values, const std::string& help) {
  app_.add_option(name, *values, help)->type_name("");
}
void Flags::CommandLine(const std::string& name, std::vector<std::string>* values, const std::string& help) {
  Names(name, values, help);
  app_.positionals_at_end(true);
}
void Flags::Hidden(const std::string& name, int* value) { app_.add_option(name, *value)->group(""); }
void Flags::Usage(const std::string& line) {
  for (CLI::Option* option : app_.get_options([](const CLI::Option* declared) { return declared->get_positional(); })) option->group("");
  app_.formatter(std::make_shared<WithUsage>(line));
}

int RunCli(int argc, const char* const* argv) {
  CLI::App app("penstock: readers prepare the data, and every rank of a training job drinks from one shared stream", "penstock");
  Globals globals;
  bool no_color = false;
  app.add_flag("--json", globals.json, "Machine-readable output");
  app.add_flag("--no-color", no_color, "Plain text");
  app.set_version_flag("--version", PENSTOCK_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("Example:\n  penstock local --workers 2 -- python train.py");
  if (const Status known = CheckSubcommand(argc, argv); !known.ok()) {
    PrintError(known);
    return kExitUsage;
  }
  std::vector<std::unique_ptr<Command>> commands;
  Command* chosen = nullptr;
  for (const CommandEntry& entry : Commands()) {
    CLI::App* sub = app.add_subcommand(entry.name, entry.summary);
    sub->fallthrough();
    sub->footer(std::string("Example:\n  ") + entry.example);
    commands.push_back(entry.make());
    Flags flags(*sub);
    commands.back()->Declare(flags);
    sub->callback([&chosen, command = commands.back().get()] { chosen = command; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? kExitFine : kExitUsage;
  }
  globals.color = !no_color;
  const auto code = chosen->Run(globals);
  if (code.ok()) return *code;
  PrintError(code.status());
  return ExitCodeOf(code.status());
}

}  // namespace penstock::cli
