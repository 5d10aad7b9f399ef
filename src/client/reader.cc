#include "client/reader.h"

#include <algorithm>
#include <future>
#include <limits>
#include <optional>
#include <utility>

#include "client/hub.h"
#include "client/parts.h"
#include "client/read_options.h"
#include "client/reader_io.h"
#include "client/stopped.h"
#include "plan/position.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

// The loop's half.
class RemoteReader final : public Reader {
 public:
  RemoteReader(std::shared_ptr<ReaderIo> io, msg::Joined joined)
      : stamp_(io->hub().stamp()), io_(std::move(io)), joined_(std::move(joined)), epoch_(joined_.epoch), batcher_(joined_.layout) {}

  ~RemoteReader() override { Close(); }

  Result<std::optional<Batch>> Next(milliseconds wait) override {
    PENSTOCK_TRY(CheckNotForked(stamp_, "reader"));
    const TimePoint start = Clock::System().Now();
    if (!waits_since_) waits_since_ = start;
    const TimePoint give_up = After(start, wait);
    const TimePoint stalled = After(*waits_since_, io_->params().read.stall_timeout);
    if (!broken_.ok()) return broken_;
    if (!std::exchange(begun_, true)) io_->Begin();
    while (true) {
      Shelf::Taken taken = io_->shelf().Next();
      if (auto* slices = std::get_if<std::vector<Slice>>(&taken)) return MakeBatch(*slices);
      if (auto* status = std::get_if<Status>(&taken)) return *status;
      if (std::holds_alternative<Shelf::Again>(taken)) return LastAgain();
      if (std::holds_alternative<Shelf::EpochEnd>(taken)) return std::optional<Batch>();
      if (StoppedSince(io_->params().address, made_)) return ServiceStopped(io_->params().address);
      const TimePoint now = Clock::System().Now();
      if (now >= stalled) return Stalled();
      if (now >= give_up) return Deadline(wait);
      io_->shelf().WaitForNews(std::get<Shelf::Wait>(taken).seen, std::min(give_up, stalled));
    }
  }

  void GiveBack(uint64_t rows) override {
    if (stamp_ == CurrentStamp()) io_->shelf().Unreceive(rows);
  }
  void HandsOutRows() override { io_->shelf().HandsOutRows(); }
  void HandedOutRow() override {
    if (stamp_ == CurrentStamp()) io_->HandedOutRow();
  }

  Result<bool> StartEpoch(std::optional<Epoch> later) override {
    PENSTOCK_TRY(CheckNotForked(stamp_, "reader"));
    if (closed_) return ReaderClosed();
    const Epoch next = std::max(later.value_or(Epoch{}), Epoch{Raw(epoch_) + 1});
    if (joined_.epochs != 0 && Raw(next) >= joined_.epochs) return false;
    epoch_ = next;
    waits_since_.reset();
    last_.reset();
    io_->shelf().BeginEpoch(next);
    io_->StartEpoch(next);
    return true;
  }

  Result<std::string> State(StateOptions options) override {
    PENSTOCK_TRY(CheckNotForked(stamp_, "reader"));
    if (joined_.mode == Mode::kReplicated) {
      return HasNoPosition(joined_.job_name);
    }
    PENSTOCK_ASSIGN(const DeliveryLog::Point current, io_->shelf().Delivered());
    PENSTOCK_ASSIGN(const uint64_t step, StepOf(options, current));
    PENSTOCK_ASSIGN(const DeliveryLog::Point at, io_->shelf().Delivered(step));
    if (options.scope == StateOptions::Scope::kRank) return io_->PartJson(at);
    if (joined_.mode == Mode::kStrict) return io_->StrictJson(at);
    std::future<Result<std::string>> saved = io_->Save(current, at, options.timeout);
    if (saved.wait_for(options.timeout) == std::future_status::ready) return saved.get();
    return Status(Code::kDeadline, "the position of job '" + joined_.job_name + "' at step " + std::to_string(step) + " was not there within " +
                                       std::to_string(options.timeout.count()) +
                                       " ms; do all consumers come to that step? scope=\"rank\" saves this one's part alone");
  }

  Status Restore(const std::string& state) override {
    PENSTOCK_TRY(CheckNotForked(stamp_, "reader"));
    PENSTOCK_TRY(ParsePosition(state));
    std::future<Status> restored = io_->Restore(state);
    if (restored.wait_for(io_->params().read.stall_timeout) != std::future_status::ready) io_->GiveUpRestore(NotRestored());
    PENSTOCK_TRY(restored.get());
    joined_ = io_->Current();
    epoch_ = joined_.epoch;
    begun_ = true;
    waits_since_.reset();
    broken_ = {};
    return {};
  }

  const Layout& layout() const override { return joined_.layout; }
  const std::string& job_name() const override { return joined_.job_name; }
  Epoch epoch() const override { return epoch_; }
  uint32_t epochs() const override { return joined_.epochs; }
  ReaderStats stats() const override { return stamp_ == CurrentStamp() ? io_->Stats() : ReaderStats{}; }

  void Close() override {
    if (stamp_ != CurrentStamp() || std::exchange(closed_, true)) return;
    std::promise<void> left;
    std::future<void> done = left.get_future();
    io_->Leave(std::move(left));
    // The dispatcher's word is worth a moment, so that others get the lanes at once; without it they get them when the lease is over.
    const bool stopped = StoppedSince(io_->params().address, made_);
    done.wait_for(milliseconds(stopped ? 0 : 1500));
  }

 private:
  static TimePoint After(TimePoint from, milliseconds wait) {
    constexpr milliseconds kForever = std::chrono::hours(24 * 365);
    return from + std::min(wait, kForever);
  }

  Result<std::optional<Batch>> MakeBatch(const std::vector<Slice>& slices) {
    waits_since_.reset();
    const BatchTag tag = io_->shelf().tag();
    std::vector<SlicedBlock> sliced;
    for (const Slice& slice : slices) sliced.push_back({slice, io_->blocks().Get(slice.handle)});
    io_->shelf().Claimed();
    // Closing lets go of all blocks, also while another thread takes them.
    const bool gone = std::any_of(sliced.begin(), sliced.end(), [](const SlicedBlock& slice) { return slice.block == nullptr; });
    if (gone) return ReaderClosed();
    // A loop that keeps its batches, or one where memory is short, would use up the credit of lanes that have to go on: it gets copies of its own.
    // So does one that was not seen to let go of any yet.
    const bool own = io_->loop_gets_copies() || batcher_.dropped() == 0;
    Result<Batch> batch = batcher_.Make(sliced, !Lend(sliced, own));
    if (!batch.ok()) {
      broken_ = batch.status();
      io_->shelf().Unreceive(std::numeric_limits<uint64_t>::max());
      return broken_;
    }
    batch->Stamp(tag);
    if (joined_.even != Even::kUneven && joined_.mode != Mode::kStrict) last_ = *batch;
    return std::optional<Batch>(std::move(*batch));
  }

  // A step of its own, with the rows of the one before.
  Result<std::optional<Batch>> LastAgain() {
    waits_since_.reset();
    last_->Stamp(io_->shelf().tag());
    return last_;
  }

  // Whether the batch may point into its block; one of several blocks is a copy in any case.
  bool Lend(const std::vector<SlicedBlock>& sliced, bool own) {
    uint64_t bytes = 0;
    for (const SlicedBlock& part : sliced) bytes += part.block->extent.size();
    io_->lent().Took(bytes);
    return !own && sliced.size() == 1 && io_->lent().Lend(sliced.front().slice.handle, bytes);
  }

  Status Deadline(milliseconds wait) const {
    if (wait <= milliseconds(0)) return Status(Code::kDeadline, "no batch is ready");
    const std::string what = io_->WaitingFor();
    return Status(Code::kDeadline, "no batch within " + std::to_string(wait.count()) + " ms; waiting for " + what).With("where", what);
  }

  Status Stalled() const {
    const std::string what = io_->WaitingFor();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(io_->params().read.stall_timeout).count();
    return Status(Code::kStalled, "job '" + joined_.job_name + "': no batch for " + std::to_string(seconds) + " s; waiting for " + what +
                                      "; `penstock status` shows who is there")
        .With("where", what);
  }

  Status NotRestored() const {
    const std::string what = io_->WaitingFor();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(io_->params().read.stall_timeout).count();
    return Status(Code::kStalled, "job '" + joined_.job_name + "' was not restored within " + std::to_string(seconds) + " s; waiting for " + what +
                                      "; this reader is where it was, and `penstock status` shows who is there")
        .With("where", what);
  }

  const ForkStamp stamp_;
  const TimePoint made_ = Clock::System().Now();
  std::shared_ptr<ReaderIo> io_;
  msg::Joined joined_;
  Epoch epoch_;
  const Batcher batcher_;
  std::optional<Batch> last_;             // where the loop may get it again (even; strict pads by itself)
  std::optional<TimePoint> waits_since_;  // since the last batch
  Status broken_;                         // a batch was taken and could not be made: going on would skip it
  bool closed_ = false;
  bool begun_ = false;
};

}  // namespace

Result<std::unique_ptr<Reader>> JoinJob(ReaderParams params) {
  const auto timeout = std::min(params.connect.timeout, params.read.stall_timeout);
  const std::string job = params.join.job_name.empty() ? "a job of its own" : "job '" + params.join.job_name + "'";
  const std::string address = params.address;
  std::shared_ptr<ReaderIo> io = ReaderIo::Start(Hub::Get(), std::move(params));
  const auto joined = io->joined();
  if (joined.wait_for(timeout) != std::future_status::ready) {
    const std::string what = io->WaitingFor();
    io->Leave({});
    return Status(Code::kDeadline,
                  "this reader could not join " + job + " at " + address + " within " + std::to_string(timeout.count()) + " ms: " + what)
        .With("where", what);
  }
  if (!joined.get().ok()) {
    io->Leave({});
    return joined.get().status();
  }
  return std::unique_ptr<Reader>(std::make_unique<RemoteReader>(std::move(io), *joined.get()));
}

}  // namespace penstock
