// The operator's part is played by Python (python/penstock/tfjob.py), where manifests are read; this becomes it.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/command.h"
#include "cli/surroundings.h"

namespace penstock::cli {
namespace {

// Without the package, Python itself would name a module and no remedy.
constexpr const char* kProgram = R"(import sys
try:
    from penstock.tfjob import main
except ModuleNotFoundError as error:
    print(f"penstock: tfjob is played by the Python package, and {sys.executable} cannot import it ({error}): install it there "
          "(pip install 'penstock[tfjob]'), or let PENSTOCK_PYTHON name an interpreter that has it", file=sys.stderr)
    sys.exit(2)
sys.exit(main(sys.argv[1:]))
)";

class TfJob final : public Command {
 public:
  // Those after `run` go to the Python program as they are, with its own words for what is wrong.
  void Declare(Flags& flags) override {
    flags.CommandLine("action", &words_, "run MANIFEST");
    flags.Usage("penstock tfjob run MANIFEST [OPTIONS]\n\nMANIFEST is its file; - is the standard input.");
    flags.Texts("--volume", &volumes_, "NAME=DIR: the directory that is a volume of this name, in all pods; may be repeated");
    flags.Texts("--env", &variables_, "NAME[=VALUE]: a variable for all pods; without a value, this shell's; may be repeated");
  }

  Result<int> Run(const Globals& /*globals*/) override {
    const std::string named = Variable("PENSTOCK_PYTHON");
    std::vector<std::string> command{named.empty() ? "python3" : named, "-c", kProgram};
    command.insert(command.end(), words_.begin(), words_.end());
    for (const std::string& volume : volumes_) command.insert(command.end(), {"--volume", volume});
    for (const std::string& variable : variables_) command.insert(command.end(), {"--env", variable});
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    return Status(Code::kInvalid,
                  "cannot run " + command[0] + ": " + std::strerror(errno) + "; PENSTOCK_PYTHON names the interpreter that has penstock");
  }

 private:
  std::vector<std::string> words_;
  std::vector<std::string> volumes_;
  std::vector<std::string> variables_;
};

}  // namespace

std::unique_ptr<Command> MakeTfJob() { return std::make_unique<TfJob>(); }

}  // namespace penstock::cli
