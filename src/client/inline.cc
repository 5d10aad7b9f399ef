// A plan read in this process: the engine's lanes one after another through the same shelf and batcher as a service's, so the same batches.
#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/constants.h"
#include "client/batcher.h"
#include "client/shelf.h"
#include "engine/pipeline.h"
#include "penstock/client.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

class InlineReader final : public Reader {
 public:
  InlineReader(std::shared_ptr<const Pipeline> pipeline, ReadOptions options, std::shared_ptr<CodeHost> code)
      : pipeline_(std::move(pipeline)),
        code_(std::move(code)),
        options_(std::move(options)),
        batcher_(layout()),
        shelf_(Clock::System()),
        next_lane_(FirstLane()) {
    if (options_.job_name.empty()) options_.job_name = "inline";
    shelf_.Configure(layout(), epoch_);
    shelf_.SetLease({Duration::max()});
  }

  Result<std::optional<Batch>> Next(milliseconds wait) override {
    const auto start = std::chrono::steady_clock::now();
    while (true) {
      Shelf::Taken taken = shelf_.Next();
      Tidy();
      if (auto* slices = std::get_if<std::vector<Slice>>(&taken)) return MakeBatch(*slices);
      if (auto* status = std::get_if<Status>(&taken)) return *status;
      if (std::holds_alternative<Shelf::EpochEnd>(taken)) return std::optional<Batch>();
      if (std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start) >=
          wait) {  // max() of milliseconds is no number of nanoseconds
        const std::string where = Where();
        return Status(Code::kDeadline, "no batch within " + std::to_string(wait.count()) + " ms; at " + where).With("where", where);
      }
      Work();
    }
  }

  void GiveBack(uint64_t /*rows*/) override {}  // there is nobody else

  Result<bool> StartEpoch() override {
    const Epoch next{Raw(epoch_) + 1};
    if (options_.epochs != 0 && Raw(next) >= options_.epochs) return false;
    runs_.clear();
    epoch_ = next;
    next_lane_ = FirstLane();
    shelf_.BeginEpoch(next);
    Tidy();
    return true;
  }

  const Layout& layout() const override { return pipeline_->layout(); }
  const std::string& job_name() const override { return options_.job_name; }
  Epoch epoch() const override { return epoch_; }

  ReaderStats stats() const override {
    const ShelfTotals totals = shelf_.totals();
    ReaderStats stats;
    stats.rows = totals.rows;
    stats.batches = totals.batches;
    stats.dropped_rows = totals.dropped_rows;
    stats.waited = totals.waited;
    stats.bytes = bytes_;
    stats.lanes_done = lanes_done_;
    stats.bytes_held = heap_.bytes_out();
    return stats;
  }

  void Close() override {
    shelf_.Close();
    runs_.clear();
    Tidy();
    blocks_.clear();
  }

 private:
  struct Run {
    GrantName name;
    std::unique_ptr<LaneRun> run;
    uint64_t rows = 0;
  };

  // Ranks without a service divide the lanes among themselves.
  uint64_t FirstLane() const { return options_.consumers > 1 ? options_.index.value_or(0) : 0; }
  uint64_t LaneStep() const { return std::max(options_.consumers, 1u); }
  size_t OpenTarget() const { return layout().batch == 0 ? 1 : std::max(layout().mix, 1u); }

  // One step of the lane that has given least; at the end of all lanes, END.
  void Work() {
    while (runs_.size() < OpenTarget() && next_lane_ < layout().lanes) {
      if (Status opened = OpenLane(); !opened.ok()) return shelf_.Fail(std::move(opened));
    }
    if (runs_.empty()) return shelf_.EndEpoch(epoch_);
    const auto least = std::min_element(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.rows < b.rows; });
    StepResult result = least->run->Step();
    if (auto* produced = std::get_if<Produced>(&result)) return Put(*least, std::move(*produced));
    if (auto* blocked = std::get_if<Blocked>(&result)) {
      if (blocked->on == Waits::kInput) return std::this_thread::yield();
      return shelf_.Fail(Status(Code::kBusy, "no memory for a block of " + std::to_string(blocked->bytes) + " bytes; at " + least->run->where()));
    }
    if (auto* failed = std::get_if<Status>(&result)) return shelf_.Fail(std::move(*failed));
    shelf_.End(least->name, std::get<LaneOver>(result).end);
    runs_.erase(least);
    ++lanes_done_;
  }

  Status OpenLane() {
    Run run;
    run.name = {{epoch_, ReplicaId{}, LaneId{static_cast<uint32_t>(next_lane_)}}, 0, Fence{1}};
    LaneRequest request;
    request.key = run.name.lane;
    request.block_target = kBlockTarget;
    request.block_cap = std::max(options_.memory / 8, kBlockTarget);
    request.allocator = &heap_;
    request.code = code_.get();
    PENSTOCK_ASSIGN(run.run, pipeline_->OpenLane(request));
    next_lane_ += LaneStep();
    shelf_.Add(run.name, {}, epoch_);
    shelf_.SetOpen(run.name, true);
    // Lanes opened later go on from where the others are, so that each gives its share of a mixed batch.
    if (!runs_.empty()) run.rows = std::min_element(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.rows < b.rows; })->rows;
    runs_.push_back(std::move(run));
    return {};
  }

  void Put(Run& run, Produced produced) {
    const auto view = CheckBlock(layout().row_spec, produced.extent.bytes());
    if (!view.ok()) return shelf_.Fail(view.status());
    ShelfBlock block{Handle{++last_handle_}, produced.info, {}};
    if ((view->header().flags & kHasCursors) != 0) {
      for (uint64_t row = 0; row <= view->rows(); ++row) block.cursors.push_back(view->cursor(row));
    }
    run.rows += produced.info.rows;
    bytes_ += produced.info.bytes;
    blocks_[block.handle] = std::make_shared<const HeldBlock>(HeldBlock{std::move(produced.extent), *view});
    shelf_.Put(run.name, std::move(block));
  }

  Result<std::optional<Batch>> MakeBatch(const std::vector<Slice>& slices) {
    std::vector<SlicedBlock> sliced;
    for (const Slice& slice : slices) sliced.push_back({slice, blocks_.at(slice.handle)});
    PENSTOCK_ASSIGN(Batch batch, batcher_.Make(sliced, false));
    shelf_.Claimed();
    Tidy();
    return std::optional<Batch>(std::move(batch));
  }

  void Tidy() {
    for (const Handle handle : shelf_.TakeProgress().passed) blocks_.erase(handle);
  }

  std::string Where() const { return runs_.empty() ? "the next lane" : ToString(runs_.front().name.lane) + ", " + runs_.front().run->where(); }

  const std::shared_ptr<const Pipeline> pipeline_;
  const std::shared_ptr<CodeHost> code_;
  ReadOptions options_;
  const Batcher batcher_;
  Shelf shelf_;
  HeapExtents heap_;
  std::map<Handle, BlockPtr> blocks_;
  std::vector<Run> runs_;
  Epoch epoch_{};
  uint64_t next_lane_;
  uint64_t last_handle_ = 0;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> lanes_done_{0};
};

}  // namespace

Result<std::unique_ptr<Reader>> ReadInline(const Plan& plan, ReadOptions options, std::shared_ptr<CodeHost> code) {
  if (options.mode != Mode::kShared && options.mode != Mode::kReplicated) {
    return Status(Code::kInvalid, "mode '" + std::string(Name(options.mode)) + "' is not there yet; use shared or replicated");
  }
  PENSTOCK_ASSIGN(const Manifest manifest, ListInputs(plan));
  PENSTOCK_ASSIGN(auto pipeline, Pipeline::Compile(plan, manifest, options.seed));
  return std::unique_ptr<Reader>(std::make_unique<InlineReader>(std::move(pipeline), std::move(options), std::move(code)));
}

}  // namespace penstock
