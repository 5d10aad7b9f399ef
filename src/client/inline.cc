// A plan read in this process: the engine's lanes one after another through the same shelf and batcher as a service's, so the same batches.
#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/constants.h"
#include "client/batcher.h"
#include "client/inline_ring.h"
#include "client/inline_runs.h"
#include "client/parts.h"
#include "client/read_options.h"
#include "client/shelf.h"
#include "engine/pipeline.h"
#include "penstock/client.h"
#include "plan/position.h"
#include "plan/state_check.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

class InlineReader final : public Reader, private InlineLanes {
 public:
  InlineReader(std::shared_ptr<const Pipeline> pipeline, ReadOptions options, std::shared_ptr<CodeHost> code, PartFacts facts,
               std::string manifest_hash)
      : pipeline_(std::move(pipeline)),
        code_(std::move(code)),
        options_(std::move(options)),
        facts_(std::move(facts)),
        manifest_hash_(std::move(manifest_hash)),
        batcher_(layout()),
        shelf_(Clock::System()),
        places_(options_.places != 0 ? options_.places : std::max(options_.consumers, 1u)),
        runs_(layout(), options_.index.value_or(0), options_.consumers, *this, shelf_) {
    if (options_.job_name.empty()) options_.job_name = "inline";
    shelf_.Configure(layout(), epoch_);
    shelf_.SetLease({Duration::max()});
    if (strict()) StartRing({});
  }
  ~InlineReader() override { ring_.reset(); }

  Result<std::optional<Batch>> Next(milliseconds wait) override {
    if (!broken_.ok()) return broken_;
    const auto start = std::chrono::steady_clock::now();
    while (true) {
      Shelf::Taken taken = shelf_.Next();
      Tidy();
      if (!std::holds_alternative<Shelf::Wait>(taken)) waits_since_.reset();
      if (auto* slices = std::get_if<std::vector<Slice>>(&taken)) return MakeBatch(*slices);
      if (auto* status = std::get_if<Status>(&taken)) return *status;
      if (std::holds_alternative<Shelf::EpochEnd>(taken)) return std::optional<Batch>();
      const auto now = std::chrono::steady_clock::now();
      if (GivesNothing(now)) return NothingComes();
      if (std::chrono::duration_cast<milliseconds>(now - start) >= wait) {  // max() of milliseconds is no number of nanoseconds
        const std::string where = Where();
        return Status(Code::kDeadline, "no batch within " + std::to_string(wait.count()) + " ms; at " + where).With("where", where);
      }
      Work();
    }
  }

  void GiveBack(uint64_t rows) override { shelf_.Unreceive(rows); }  // nobody else gets them, but they were not delivered

  Result<bool> StartEpoch(std::optional<Epoch> later) override {
    const Epoch next = std::max(later.value_or(Epoch{}), Epoch{Raw(epoch_) + 1});
    if (options_.epochs != 0 && Raw(next) >= options_.epochs) return false;
    epoch_ = next;
    runs_.Begin(next);
    shelf_.BeginEpoch(next);
    if (strict()) StartRing({.epoch = next});
    Tidy();
    return true;
  }

  // The position where this is the only reader; where ranks divide the lanes among themselves, this one's part.
  Result<std::string> State(StateOptions options) override {
    if (options_.mode == Mode::kReplicated) return HasNoPosition(options_.job_name);
    PENSTOCK_ASSIGN(const DeliveryLog::Point current, shelf_.Delivered());
    PENSTOCK_ASSIGN(const uint64_t step, StepOf(options, current));
    PENSTOCK_ASSIGN(const DeliveryLog::Point at, shelf_.Delivered(step));
    Position state = MakePart(facts_, Job(), at);
    if (strict()) {
      if (options.scope == StateOptions::Scope::kJob) state.kind = Position::Kind::kPosition;
      return ToJson(state);
    }
    state.base = runs_.done();
    if (options_.consumers <= 1 && options.scope == StateOptions::Scope::kJob) {
      state.kind = Position::Kind::kPosition;
      state.delivered = std::exchange(state.base, {});
      state.delivered.MergePart(at.rows);
      state.delivered.LeaveBehind(at.epoch);
      state.delivered.Settle(layout().lanes);
    }
    return ToJson(state);
  }

  Status Restore(const std::string& text) override {
    PENSTOCK_ASSIGN(Position state, ParsePosition(text));
    PENSTOCK_TRY(CheckFits(state));
    broken_ = {};
    if (strict()) return RestoreRing(state, text);
    if (state.kind == Position::Kind::kPart) {
      state.base.MergePart(state.delivered);
      state.delivered = std::move(state.base);
      state.delivered.LeaveBehind(state.epoch);
    }
    state.delivered.Settle(layout().lanes);
    const Epoch done = state.delivered.epochs_done;
    runs_.SetDone(std::move(state.delivered));
    // A position at an epoch's end is that end, not the next one's start.
    epoch_ = std::min(std::max(state.epoch, Epoch{Raw(done) - std::min(1u, Raw(done))}), done);
    generation_ = Generation{Raw(state.generation) + 1};
    runs_.Begin(epoch_);
    shelf_.Restart(layout(), epoch_, generation_);
    Tidy();
    return {};
  }

  const Layout& layout() const override { return pipeline_->layout(); }
  const std::string& job_name() const override { return options_.job_name; }
  Epoch epoch() const override { return epoch_; }
  uint32_t epochs() const override { return options_.epochs; }

  ReaderStats stats() const override {
    const ShelfTotals totals = shelf_.totals();
    ReaderStats stats;
    stats.rows = totals.rows;
    stats.batches = totals.batches;
    stats.dropped_rows = totals.dropped_rows;
    stats.repeated_batches = totals.repeated;
    stats.waited = totals.waited;
    stats.bytes = bytes_;
    stats.lanes_done = runs_.lanes_done();
    stats.bytes_held = heap_.bytes_out();
    return stats;
  }

  void Close() override {
    shelf_.Close();
    runs_.Close();
    ring_.reset();
    Tidy();
    blocks_.clear();
  }

 private:
  // Lane after lane of an epoch without end can have no row: somebody has to end that.
  bool GivesNothing(std::chrono::steady_clock::time_point now) {
    if (!waits_since_) waits_since_ = now;
    return layout().lanes == kEndlessLanes && std::chrono::duration_cast<milliseconds>(now - *waits_since_) >= options_.stall_timeout;
  }
  Status NothingComes() const {
    return Status(Code::kStalled, "no batch within " + std::to_string(options_.stall_timeout.count()) +
                                      " ms of an endless repeat: it has no rows, or a condition leaves none; at " + Where())
        .With("where", Where());
  }

  msg::Joined Job() const {
    msg::Joined job;
    job.job_name = options_.job_name;
    job.mode = options_.mode;
    job.generation = generation_;
    job.layout = layout();
    job.manifest_hash = manifest_hash_;
    job.consumers = options_.consumers;
    job.index = options_.index.value_or(0);
    job.even = Part().even;
    if (!strict()) return job;
    job.places = places_;
    job.base = restored_;
    return job;
  }

  // ---- strict

  bool strict() const { return options_.mode == Mode::kStrict; }

  RingPart Part() const {
    const uint32_t consumers = std::max(options_.consumers, 1u);
    const Even even = options_.even != Even::kAuto ? options_.even : consumers > 1 ? Even::kDrop : Even::kUneven;
    return {.index = options_.index.value_or(0), .consumers = consumers, .even = even, .drop_remainder = layout().drop_remainder};
  }

  void StartRing(const RingPosition& start) {
    InlineLanes& lanes = *this;
    ring_.emplace(RingShapeOf(layout(), places_), Part(), start, lanes, shelf_);
  }

  Status RestoreRing(const Position& state, const std::string& text) {
    const RingPosition start = *state.ring;
    if (state.places != 0) places_ = state.places;
    const bool over = options_.epochs != 0 && Raw(start.epoch) >= options_.epochs;  // nothing is left to read: the last epoch, ended
    const bool ended = over || state.epoch < start.epoch;
    epoch_ = over ? Epoch{options_.epochs - 1} : Epoch{Raw(start.epoch) - (ended ? 1 : 0)};
    generation_ = Generation{Raw(state.generation) + 1};
    restored_ = text;
    shelf_.Restart(layout(), epoch_, generation_);
    StartRing(start);
    if (ended) shelf_.EndEpoch(epoch_);
    Tidy();
    return {};
  }

  Result<std::unique_ptr<LaneRun>> OpenGroups(LaneId lane, Cursor from) override {
    LaneRequest request = RequestFor({epoch_, ReplicaId{}, lane}, from);
    request.by_group = true;
    return pipeline_->OpenLane(request);
  }

  Result<std::unique_ptr<LaneRun>> OpenRows(LaneId lane, Cursor from, Seq to) override {
    LaneRequest request = RequestFor({epoch_, ReplicaId{}, lane}, from);
    request.to = to;
    return pipeline_->OpenLane(request);
  }

  Result<ShelfBlock> Keep(Produced produced) override {
    PENSTOCK_ASSIGN(const BlockView view, CheckBlock(layout().row_spec, produced.extent.bytes()));
    ShelfBlock block{Handle{++last_handle_}, produced.info, {}};
    if ((view.header().flags & kHasCursors) != 0) {
      for (uint64_t row = 0; row <= view.rows(); ++row) block.cursors.push_back(view.cursor(row));
    }
    bytes_ += produced.info.bytes;
    blocks_[block.handle] = std::make_shared<const HeldBlock>(HeldBlock{std::move(produced.extent), view});
    return block;
  }

  void Drop(Handle handle) override { blocks_.erase(handle); }

  LaneRequest RequestFor(const LaneKey& lane, Cursor from) {
    LaneRequest request;
    request.key = lane;
    request.from = from;
    request.block_target = kBlockTarget;
    request.block_cap = std::max(options_.memory / 8, kBlockTarget);
    request.allocator = &heap_;
    request.code = code_.get();
    return request;
  }

  Status CheckFits(const Position& state) const {
    const StateTerms terms{.name = "reader '" + options_.job_name + "'",
                           .rows = facts_.rows,
                           .manifest = manifest_hash_,
                           .mode = options_.mode,
                           .seed = facts_.seed,
                           .layout = layout(),
                           .places = places_,
                           .asked = {{options_.places, ""}}};
    PENSTOCK_TRY(CheckState(terms, state));
    const bool mine = state.consumers == options_.consumers && state.index == options_.index.value_or(0);
    if (strict() || state.kind != Position::Kind::kPart || mine) return {};
    return Status(Code::kMismatch, "this is the part of consumer " + std::to_string(state.index) + " of " + std::to_string(state.consumers) +
                                       "; without a service only that one can restore it");
  }

  void Work() {
    if (Status worked = ring_ ? ring_->Work() : runs_.Work(); !worked.ok()) shelf_.Fail(std::move(worked));
  }

  Result<std::optional<Batch>> MakeBatch(const std::vector<Slice>& slices) {
    std::vector<SlicedBlock> sliced;
    for (const Slice& slice : slices) sliced.push_back({slice, blocks_.at(slice.handle)});
    const BatchTag tag = shelf_.tag();
    Result<Batch> batch = batcher_.Make(sliced, false);
    shelf_.Claimed();
    Tidy();
    if (!batch.ok()) {
      broken_ = batch.status();
      shelf_.Unreceive(std::numeric_limits<uint64_t>::max());
      return broken_;
    }
    batch->Stamp(tag);
    return std::optional<Batch>(std::move(*batch));
  }

  void Tidy() {
    for (const Handle handle : shelf_.TakeProgress().passed) blocks_.erase(handle);
  }

  std::string Where() const {
    if (ring_) return ring_->where();
    return runs_.where();
  }

  const std::shared_ptr<const Pipeline> pipeline_;
  const std::shared_ptr<CodeHost> code_;
  ReadOptions options_;
  const PartFacts facts_;
  const std::string manifest_hash_;
  const Batcher batcher_;
  Shelf shelf_;
  HotExtents heap_;
  std::map<Handle, BlockPtr> blocks_;
  std::optional<InlineRing> ring_;  // strict
  std::string restored_;            // strict: the state that it goes on from
  Epoch epoch_{};
  Generation generation_{};
  uint32_t places_;  // strict: of the ring
  InlineRuns runs_;  // shared
  uint64_t last_handle_ = 0;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;  // for a batch
  Status broken_;                                                     // a batch was taken and could not be made: going on would skip it
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace

Result<std::unique_ptr<Reader>> ReadInline(const Plan& plan, ReadOptions options, std::shared_ptr<CodeHost> code) {
  PENSTOCK_TRY(CheckReadOptions(options));
  PENSTOCK_ASSIGN(const Manifest manifest, ListInputs(plan));
  PENSTOCK_ASSIGN(auto pipeline, Pipeline::Compile(plan, manifest, options.seed));
  PENSTOCK_TRY(CheckInlineOptions(options, pipeline->layout()));
  PartFacts facts;
  PENSTOCK_ASSIGN(facts.dataset, Fingerprint(plan));
  PENSTOCK_ASSIGN(facts.rows, RowsFingerprint(plan));
  facts.seed = options.seed;
  const std::string inputs_hash = pipeline->inputs_hash();
  return std::unique_ptr<Reader>(
      std::make_unique<InlineReader>(std::move(pipeline), std::move(options), std::move(code), std::move(facts), inputs_hash));
}

}  // namespace penstock
