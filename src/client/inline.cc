// A plan read in this process: the engine's lanes one after another through the same shelf and batcher as a service's, so the same batches.
#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/constants.h"
#include "client/batcher.h"
#include "client/inline_ring.h"
#include "client/parts.h"
#include "client/read_options.h"
#include "client/shelf.h"
#include "engine/pipeline.h"
#include "penstock/client.h"
#include "plan/position.h"

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
        next_lane_(FirstLane()) {
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
    runs_.clear();
    epoch_ = next;
    next_lane_ = FirstLane();
    pieces_.clear();
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
    state.base = base_;
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
    base_ = std::move(state.delivered);
    // A position at an epoch's end is that end, not the next one's start.
    epoch_ = std::min(std::max(state.epoch, Epoch{Raw(base_.epochs_done) - std::min(1u, Raw(base_.epochs_done))}), base_.epochs_done);
    generation_ = Generation{Raw(state.generation) + 1};
    runs_.clear();
    pieces_.clear();
    next_lane_ = FirstLane();
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
    stats.waited = totals.waited;
    stats.bytes = bytes_;
    stats.lanes_done = lanes_done_;
    stats.bytes_held = heap_.bytes_out();
    return stats;
  }

  void Close() override {
    shelf_.Close();
    runs_.clear();
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

  RingShape Shape() const {
    return {.lanes = layout().lanes,
            .group_rows = std::max<uint64_t>(layout().group_rows(), 1),
            .mix = layout().batch == 0 ? 1 : std::max(layout().mix, 1u),
            .places = places_};
  }

  RingPart Part() const {
    const uint32_t consumers = std::max(options_.consumers, 1u);
    const Even even = options_.even != Even::kAuto ? options_.even : consumers > 1 ? Even::kDrop : Even::kUneven;
    return {.index = options_.index.value_or(0), .consumers = consumers, .even = even, .drop_remainder = layout().drop_remainder};
  }

  void StartRing(const RingPosition& start) {
    InlineLanes& lanes = *this;
    ring_.emplace(Shape(), Part(), start, lanes, shelf_);
  }

  // One that is asked for has to be the state's; else the state's goes on.
  Status CheckRingFits(const Position& state) const {
    if (state.batch != layout().batch) {
      return Status(Code::kMismatch, "the state is of batches of " + std::to_string(state.batch) + " rows, and here they have " +
                                         std::to_string(layout().batch) + ": in strict the batch size stays; in shared it may change");
    }
    if (options_.places != 0 && state.places != options_.places) {
      return Status(Code::kMismatch, "the state is of a ring of " + std::to_string(state.places) + " places, and here it has " +
                                         std::to_string(options_.places) + ": leave places out, or give the same");
    }
    RingShape shape = Shape();
    shape.places = state.places;
    return CheckRing(*state.ring, shape);
  }

  Status RestoreRing(const Position& state, const std::string& text) {
    const RingPosition start = *state.ring;
    places_ = state.places;
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

  Status CheckFits(const Position& state) const {
    const auto other = [](const char* what, const std::string& has, const std::string& here) {
      return Status(Code::kMismatch,
                    std::string("the state is of another ") + what + " (" + has + ", here " + here + "); restore it where it was saved");
    };
    if (state.rows != facts_.rows) return other("dataset", state.rows, facts_.rows);
    if (state.manifest != manifest_hash_)
      return other("manifest: its input files were others, or counted rows were cut for another batch size", state.manifest, manifest_hash_);
    if (state.seed != facts_.seed) return other("seed", std::to_string(state.seed), std::to_string(facts_.seed));
    if (state.mode != options_.mode) return other("mode", std::string(Name(state.mode)), std::string(Name(options_.mode)));
    if (strict()) return CheckRingFits(state);
    const bool mine = state.consumers == options_.consumers && state.index == options_.index.value_or(0);
    if (state.kind == Position::Kind::kPart && !mine) {
      return Status(Code::kMismatch, "this is the part of consumer " + std::to_string(state.index) + " of " + std::to_string(state.consumers) +
                                         "; without a service only that one can restore it");
    }
    return {};
  }

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
    if (strict()) {
      if (Status worked = ring_->Work(); !worked.ok()) shelf_.Fail(std::move(worked));
      return;
    }
    while (runs_.size() < OpenTarget()) {
      if (pieces_.empty() && !NextLane()) break;
      if (Status opened = OpenPiece(); !opened.ok()) return shelf_.Fail(std::move(opened));
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
    const auto& over = std::get<LaneOver>(result);
    shelf_.End(least->name, over.end, over.lane_ended);
    runs_.erase(least);
    ++lanes_done_;
  }

  // Takes the pieces of the next lane that has rows left; false: there is none.
  bool NextLane() {
    const auto done = base_.epochs.find(epoch_);
    for (; pieces_.empty() && next_lane_ < layout().lanes && epoch_ >= base_.epochs_done; next_lane_ += LaneStep()) {
      const LaneId lane{static_cast<uint32_t>(next_lane_)};
      const auto rows = done == base_.epochs.end() ? std::vector<Interval>{Interval{}} : done->second.Missing(lane);
      for (const Interval& piece : rows) pieces_.push_back({lane, piece});
    }
    return !pieces_.empty();
  }

  Status OpenPiece() {
    const Delivered::Piece piece = pieces_.front();
    pieces_.pop_front();
    if (piece.rows.to.child != 0) {
      return Status(Code::kInvalid, "the state says that row " + CursorText(piece.rows.to) + " of lane " + std::to_string(Raw(piece.lane)) +
                                        " was delivered and those before it not; restore it with a service");
    }
    Run run;
    run.name = {{epoch_, ReplicaId{}, piece.lane}, piece.rows.from.seq, Fence{1}};
    LaneRequest request = RequestFor(run.name.lane, piece.rows.from);
    request.to = piece.rows.to.seq;
    PENSTOCK_ASSIGN(run.run, pipeline_->OpenLane(request));
    shelf_.Add(run.name, piece.rows.from, epoch_);
    shelf_.SetOpen(run.name, true);
    // Lanes opened later go on from where the others are, so that each gives its share of a mixed batch.
    if (!runs_.empty()) run.rows = std::min_element(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.rows < b.rows; })->rows;
    runs_.push_back(std::move(run));
    return {};
  }

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

  void Put(Run& run, Produced produced) {
    Result<ShelfBlock> block = Keep(std::move(produced));
    if (!block.ok()) return shelf_.Fail(block.status());
    run.rows += block->info.rows;
    shelf_.Put(run.name, std::move(*block));
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
    return runs_.empty() ? "the next lane" : ToString(runs_.front().name.lane) + ", " + runs_.front().run->where();
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
  std::vector<Run> runs_;
  std::optional<InlineRing> ring_;  // strict
  std::string restored_;            // strict: the state that it goes on from
  Epoch epoch_{};
  Generation generation_{};
  History base_;  // what was delivered before the last restore
  std::deque<Delivered::Piece> pieces_;
  uint32_t places_;  // strict: of the ring
  uint64_t next_lane_;
  uint64_t last_handle_ = 0;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;  // for a batch
  Status broken_;                                                     // a batch was taken and could not be made: going on would skip it
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> lanes_done_{0};
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
