#include "wire/token.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/name.h"
#include "cli/command.h"
#include "cli/security.h"

namespace penstock::cli {
namespace {

// Readable for its owner alone, from the first byte on.
Status WriteSecret(const std::string& path, const std::string& token) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    const std::string remedy = errno == EEXIST ? ": a token that is in use is not written over; name another file, or delete it first" : "";
    return Status(Code::kInvalid, "cannot write --out " + path + " (" + std::strerror(errno) + ")" + remedy);
  }
  const std::string line = token + "\n";
  const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const bool closed = close(fd) == 0;
  if (written && closed) return {};
  const Status failed(Code::kInvalid, "cannot write --out " + path + " (" + std::strerror(errno) + ")");
  unlink(path.c_str());
  return failed;
}

class Token final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Names("action", &action_, "create");
    flags.Usage("penstock token create [OPTIONS]");
    flags.Text("--job", &job_, "Only for this job");
    flags.Time("--expires", &expires_, "Sessions can be begun with it for so long, like 12h; default for ever");
    flags.Text("--token-file", &token_file_,
               "The service's own token, to make one for a job or a time from; default PENSTOCK_TOKEN_FILE or PENSTOCK_TOKEN");
    flags.Text("--out", &out_, "Write it to this file, which its owner alone can read, and not to stdout");
  }

  Result<int> Run(const Globals& globals) override {
    if (action_ != std::vector<std::string>{"create"}) return Status(Code::kInvalid, "there is `penstock token create`, and nothing else");
    PENSTOCK_ASSIGN(const std::string made, Make());
    if (out_) {
      PENSTOCK_TRY(WriteSecret(*out_, made));
      return kExitFine;
    }
    std::printf(globals.json ? "{\"token\": \"%s\"}\n" : "%s\n", made.c_str());
    return kExitFine;
  }

 private:
  Result<std::string> Make() {
    if (!job_ && !expires_) return RandomToken();
    if (job_ && job_->empty())
      return Status(Code::kInvalid, "--job is empty, and no job has such a name: name one, or leave it out for a token for all jobs");
    if (job_) PENSTOCK_TRY(CheckName("--job", *job_));
    if (expires_ && *expires_ <= Duration{0}) {
      return Status(Code::kInvalid,
                    "--expires 0s makes a token that nobody can use: give a time like 12h, or leave it out for one that does not expire");
    }
    PENSTOCK_ASSIGN(const std::string cluster_token, ReadClusterToken(token_file_));
    TokenClaims claims{.job = job_.value_or("")};
    if (expires_) claims.expires = std::time(nullptr) + std::chrono::ceil<std::chrono::seconds>(*expires_).count();
    return DeriveToken(cluster_token, claims);
  }

  std::vector<std::string> action_;
  std::optional<std::string> job_;
  std::optional<Duration> expires_;
  std::optional<std::string> out_;
  std::string token_file_;
};

}  // namespace

std::unique_ptr<Command> MakeToken() { return std::make_unique<Token>(); }

}  // namespace penstock::cli
