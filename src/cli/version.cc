#include <cstdio>

#include "cli/command.h"
#include "wire/net.h"

namespace penstock::cli {
namespace {

class Version final : public Command {
 public:
  void Declare(Flags& /*flags*/) override {}
  Result<int> Run(const Globals& globals) override {
    if (globals.json) {
      std::printf("{\"version\": \"%s\", \"protocol\": [%u, %u]}\n", PENSTOCK_VERSION, kMinVersion, kMaxVersion);
    } else {
      std::printf("penstock %s\n", PENSTOCK_VERSION);
    }
    return kExitFine;
  }
};

}  // namespace

std::unique_ptr<Command> MakeVersion() { return std::make_unique<Version>(); }

}  // namespace penstock::cli
