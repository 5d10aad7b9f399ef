#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>

#include "cli/ask.h"
#include "cli/command.h"
#include "cli/features.h"
#include "cli/rows.h"
#include "cli/security.h"
#include "cli/surroundings.h"
#include "cli/values.h"
#include "penstock/client.h"

namespace penstock::cli {
namespace {

constexpr uint64_t kShown = 5;  // rows, where all are read and nobody said how many to show

class Read final : public Command {
 public:
  void Declare(Flags& flags) override {
    flags.Names("files", &files_, "TFRecord files or patterns; read in this process unless a service is named");
    flags.Texts("--parse", &features_, "A feature of the tf.Examples: id:int64, x:float32[3,4], words:string[]; may be repeated");
    flags.Text("--job", &job_, "Take part in this job of the service instead");
    flags.Number("-n,--rows", &limit_, "Stop after so many rows; default: read all, and show the first 5");
    flags.Text("--dispatcher", &dispatcher_, "HOST:PORT or unix:/path; default PENSTOCK_SERVICE");
    security_.Declare(flags);
  }

  Result<int> Run(const Globals& globals) override {
    if (limit_ && *limit_ == 0) return Status(Code::kInvalid, "-n 0 reads nothing: say how many rows, or leave it out to read all");
    if (files_.empty() == job_.empty()) return Status(Code::kInvalid, "name either FILES to read or a --job to take part in");
    PENSTOCK_ASSIGN(const auto reader, Open());
    begin_ = std::chrono::steady_clock::now();
    PENSTOCK_TRY(ReadAll(*reader, globals));
    Summary(*reader, globals);
    return kExitFine;
  }

 private:
  Result<std::unique_ptr<Reader>> Open() {
    if (!job_.empty()) return JoinJob();
    PENSTOCK_ASSIGN(const Plan plan, FilesPlan(files_, features_));
    if (!HasService(dispatcher_)) return ReadInline(plan, {});
    PENSTOCK_TRY(Connect());
    return client_->Distribute(plan, {});
  }

  Status Connect() {
    PENSTOCK_ASSIGN(address_, ServiceAddress(dispatcher_));
    PENSTOCK_ASSIGN(credentials_, security_.Read());
    const TlsFiles tls = security_.tls_files();
    ConnectOptions options;
    options.service = address_;
    options.token = credentials_.token;
    options.tls_ca = tls.ca;
    options.tls_cert = tls.cert;
    options.tls_key = tls.key;
    PENSTOCK_ASSIGN(client_, Client::Connect(options));
    return {};
  }

  Result<std::unique_ptr<Reader>> JoinJob() {
    PENSTOCK_TRY(Connect());
    PENSTOCK_ASSIGN(const msg::StatusReply status, AskStatus(address_, credentials_));
    const auto found = std::find_if(status.jobs.begin(), status.jobs.end(), [this](const msg::StatusJob& job) { return job.name == job_; });
    if (found == status.jobs.end())
      return Status(Code::kNotFound, "the service at " + address_ + " has no job \"" + job_ + "\"; `penstock status` lists them");
    ReadOptions options;
    options.job_name = job_;
    options.mode = found->mode;
    return client_->Join(found->dataset, options);
  }

  Status ReadAll(Reader& reader, const Globals& globals) {
    const uint64_t limit = limit_ ? *limit_ : std::numeric_limits<uint64_t>::max();
    while (rows_ < limit) {
      PENSTOCK_ASSIGN(const std::optional<Batch> batch, reader.Next());
      if (!batch) return {};
      const uint64_t take = std::min(batch->rows(), limit - rows_);
      const uint64_t show = globals.json || limit_ ? take : rows_ < kShown ? std::min(take, kShown - rows_) : 0;
      for (uint64_t row = 0; row < show; ++row) std::printf("%s\n", RowAsJson(*batch, row).c_str());
      rows_ += take;
      ++batches_;
    }
    return {};
  }

  // On stderr, so that the rows on stdout can be piped on.
  void Summary(const Reader& reader, const Globals& globals) const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    const auto bytes = reader.stats().bytes;
    const double per_second = seconds > 0 ? static_cast<double>(rows_) / seconds : 0;
    if (globals.json) {
      std::printf("{\"summary\": {\"rows\": %llu, \"batches\": %llu, \"bytes\": %llu, \"seconds\": %.6f}}\n", static_cast<unsigned long long>(rows_),
                  static_cast<unsigned long long>(batches_), static_cast<unsigned long long>(bytes), seconds);
      return;
    }
    std::fprintf(stderr, "%llu rows, %s, in %.3f s: %.0f rows/s, %s/s\n", static_cast<unsigned long long>(rows_), FormatBytes(bytes).c_str(), seconds,
                 per_second, FormatBytes(seconds > 0 ? static_cast<uint64_t>(static_cast<double>(bytes) / seconds) : 0).c_str());
  }

  std::vector<std::string> files_;
  std::vector<std::string> features_;
  std::string job_;
  std::optional<uint32_t> limit_;
  std::string dispatcher_;
  SecurityFlags security_;
  std::string address_;
  Credentials credentials_;
  std::shared_ptr<Client> client_;
  uint64_t rows_ = 0;
  uint64_t batches_ = 0;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

std::unique_ptr<Command> MakeRead() { return std::make_unique<Read>(); }

}  // namespace penstock::cli
