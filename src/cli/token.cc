
#include "wire/token.h"

#include <chrono>
#include <cstdio>
#include <ctime>

#include "cli/command.h"
#include "cli/security.h"

namespace penstock::cli {
namespace {

class Token final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Names("action", &action_, "create");
    flags.Text("--job", &claims_.job, "Only for this job");
    flags.Time("--expires", &expires_, "Sessions can be begun with it for so long, like 12h; default for ever");
    flags.Text("--token-file", &token_file_,
               "The service's own token, to make one for a job or a time from; default PENSTOCK_TOKEN_FILE or PENSTOCK_TOKEN");
  }

  Result<int> Run(const Globals& globals) override {
    if (action_ != std::vector<std::string>{"create"}) return Status(Code::kInvalid, "there is `penstock token create`, and nothing else");
    PENSTOCK_ASSIGN(const std::string made, Make());
    std::printf(globals.json ? "{\"token\": \"%s\"}\n" : "%s\n", made.c_str());
    return kExitFine;
  }

 private:
  Result<std::string> Make() {
    if (claims_.job.empty() && expires_ == Duration{0}) return RandomToken();
    PENSTOCK_ASSIGN(const std::string cluster_token, ReadToken(token_file_));
    if (cluster_token.empty()) {
      return Status(Code::kInvalid, "a token for a job or a time is made from the service's own: give --token-file FILE, or set PENSTOCK_TOKEN_FILE");
    }
    if (expires_ > Duration{0}) claims_.expires = std::time(nullptr) + std::chrono::ceil<std::chrono::seconds>(expires_).count();
    return DeriveToken(cluster_token, claims_);
  }

  std::vector<std::string> action_;
  TokenClaims claims_;
  Duration expires_{0};
  std::string token_file_;
};

}  // namespace

std::unique_ptr<Command> MakeToken() { return std::make_unique<Token>(); }

}  // namespace penstock::cli
