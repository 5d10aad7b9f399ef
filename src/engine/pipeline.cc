#include "engine/pipeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/constants.h"
#include "engine/code_run.h"
#include "engine/explain.h"
#include "engine/graph.h"
#include "engine/kept_run.h"
#include "engine/lane_run.h"
#include "engine/lanes.h"
#include "storage/listing.h"

namespace penstock {
namespace {

using engine::Graph;
using engine::LaneTable;
using engine::Node;

constexpr uint64_t kRangeGroups = 8;             // of a range of a serial lane
constexpr uint64_t kRangeRows = 1024;            // where rows are taken one by one
constexpr uint64_t kLeastRangeRows = 4;          // of rows that may be batches
constexpr uint64_t kRangeBytes = 256 * kKiB;     // about, of rows that code makes
constexpr uint64_t kLargeRangeBytes = 2 * kMiB;  // of few rows: a range costs a commit of the dispatcher, whatever is in it
constexpr uint64_t kFewRows = 32;
constexpr uint64_t kRaggedLength = 64;  // supposed, where rows differ
constexpr uint64_t kLargeGroup = 64 * kKiB;
constexpr uint64_t kOpenFileBytes = 272 * kKiB;  // a window of records, and an inflater: see InflateMemory()
constexpr uint64_t kInflation = 4;               // bytes of rows for a byte of a file, about

uint64_t StateBytes(const Graph& graph, const LaneTable& table) {
  uint64_t files = 0;
  for (const engine::Region& region : table.regions()) {
    if (region.counted == nullptr) files = std::max(files, std::min<uint64_t>(region.cycle, std::max<uint64_t>(region.PiecesALane(), 1)));
  }
  uint64_t bytes = files * kOpenFileBytes + kBlockTarget;
  const uint64_t lane_bytes = table.max_lane_bytes();
  engine::ForEachNode(*graph.root, [&](const Node& node) {
    if (!node.rows.has_value()) bytes += node.op->StateBytes(lane_bytes * kInflation);
  });
  return bytes;
}

// All that it reads are files without a byte. That files have bytes and no rows only reading them shows.
bool ReadsNothing(const Graph& graph, const Manifest& manifest) {
  bool nothing = true;
  engine::ForEachNode(*graph.root, [&](const Node& node) { nothing = nothing && (!node.inputs.empty() || node.op->reads_files()); });
  for (const SourceInput& source : manifest.sources) {
    nothing = nothing && std::all_of(source.files.begin(), source.files.end(), [](const InputFile& file) { return file.size == 0; });
  }
  return nothing;
}

Result<uint32_t> LanesOfEpoch(const Graph& graph, const LaneTable& table, const Manifest& manifest) {
  if (table.lanes() == 0 || graph.passes == 0) return 0U;
  if (graph.passes < 0 && ReadsNothing(graph, manifest)) return 0U;  // an endless repeat of nothing is nothing
  if (table.lanes() >= kEndlessLanes || graph.passes < 0) return kEndlessLanes;
  const uint64_t passes = static_cast<uint64_t>(graph.passes);
  if (passes >= kEndlessLanes / table.lanes()) {
    return Status(Code::kInvalid, "repeat: " + std::to_string(passes) + " passes of " + std::to_string(table.lanes()) +
                                      " lanes are too many for one epoch; use repeat(-1), or epochs");
  }
  return static_cast<uint32_t>(table.lanes() * passes);
}

// About.
uint64_t RowBytes(const Spec& spec) {
  uint64_t bytes = 0;
  for (const ColumnSpec& column : spec.columns) {
    uint64_t values = SizeOf(column.dtype);
    for (const int64_t dimension : column.shape) values *= dimension == kRagged ? kRaggedLength : static_cast<uint64_t>(dimension);
    bytes += values;
  }
  return std::max<uint64_t>(bytes, 1);
}

// Each block is a few messages and wakes. That is little beside reading files; it shows where code is called for it, and where large rows only
// have to be copied.
uint64_t BlockTarget(const Graph& graph, const Layout& layout) {
  bool in_memory = RowBytes(layout.row_spec) * layout.group_rows() >= kLargeGroup;
  engine::ForEachNode(*graph.root, [&](const Node& node) { in_memory = in_memory && !node.op->reads_files(); });
  return graph.runs_code || in_memory ? kLargeBlockTarget : kBlockTarget;
}

// A row of code may be a whole batch. Consumers that go in step want their ranges small.
uint64_t RangeOfCode(const Spec& spec) {
  const uint64_t bytes = RowBytes(spec);
  const uint64_t few = std::min(kLargeRangeBytes / bytes, kFewRows);
  return std::clamp(std::max(kRangeBytes / bytes, few), kLeastRangeRows, kRangeRows);
}

Result<Layout> MakeLayout(const Graph& graph, const LaneTable& table, const Manifest& manifest) {
  Layout layout;
  PENSTOCK_ASSIGN(layout.lanes, LanesOfEpoch(graph, table, manifest));
  layout.serial = graph.serial();
  layout.batch = graph.batching.rows;
  layout.mix = table.mix();
  layout.drop_remainder = graph.batching.drop_remainder;
  layout.pad = graph.batching.pad;
  layout.serial_range = layout.batch > 0 ? kRangeGroups * layout.batch : graph.runs_code ? RangeOfCode(graph.root->spec()) : kRangeRows;
  layout.purity = graph.purity;
  layout.state_bytes = StateBytes(graph, table);
  layout.row_spec = graph.root->spec();
  return layout;
}

// All that lanes refer to: their runs keep it alive.
struct Compiled {
  Graph graph;
  Manifest manifest;
  LaneTable table;
  Layout layout;
  std::shared_ptr<const Spec> spec;
  std::string explain;
  uint64_t seed = 0;
};

class CompiledPipeline final : public Pipeline {
 public:
  explicit CompiledPipeline(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  const Layout& layout() const override { return compiled_->layout; }
  std::string inputs_hash() const override {
    const uint64_t cut = compiled_->table.cut();
    return HashManifest(SerializeManifest(compiled_->manifest) + (cut == 0 ? "" : " cut " + std::to_string(cut)));
  }
  bool runs_code() const override { return compiled_->graph.runs_code; }
  uint64_t block_target() const override { return BlockTarget(compiled_->graph, compiled_->layout); }
  std::string explain() const override { return compiled_->explain; }

  Result<std::unique_ptr<LaneRun>> OpenLane(const LaneRequest& request) const override {
    const Compiled& compiled = *compiled_;
    const uint64_t lane = Raw(request.key.lane);
    if (lane >= compiled.layout.lanes) {
      return Status(Code::kInvalid, ToString(request.key) + " does not exist: there are " + std::to_string(compiled.layout.lanes) + " lanes");
    }
    if (compiled.graph.runs_code && request.code == nullptr) {
      return Status(Code::kPermission,
                    "the dataset runs code (Python, torch, tf.data), and nothing here may run it; read it with penstock from Python");
    }
    const bool code_root = compiled.graph.root->op->code() != nullptr;
    if (request.from.child != 0 && !code_root)
      return Status(Code::kInvalid, ToString(request.key) + ": no row of this plan becomes several, but the cursor says so");
    const uint64_t pass = lane / compiled.table.lanes();
    const uint64_t lane_of_pass = lane % compiled.table.lanes();
    engine::LanePlan plan;
    plan.owner = compiled_;
    plan.root = compiled.graph.root.get();
    plan.spec = compiled.spec;
    plan.group_rows = compiled.layout.group_rows();
    plan.context.manifest = &compiled.manifest;
    plan.context.serial = compiled.layout.serial;
    plan.context.order =
        engine::OrderKey{compiled.seed, request.key.epoch, request.key.replica, LaneId{static_cast<uint32_t>(lane_of_pass)}}.Pass(pass);
    plan.pieces = compiled.table.PiecesOf(lane_of_pass, plan.context.order);
    plan.context.key = request.key;
    plan.context.state_cap = request.state_cap;
    plan.context.code = request.code;
    if (engine::AreKept(plan)) return engine::MakeKeptRun(std::move(plan), request);
    return code_root ? engine::MakeCodeRun(std::move(plan), request) : engine::MakeLaneRun(std::move(plan), request);
  }

 private:
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace

Result<std::shared_ptr<const Pipeline>> Pipeline::Compile(const Plan& plan, const Manifest& manifest, uint64_t seed) {
  auto compiled = std::make_shared<Compiled>();
  PENSTOCK_ASSIGN(compiled->graph, engine::BuildGraph(plan));
  compiled->manifest = manifest;
  for (SourceInput& source : compiled->manifest.sources) {
    if (!source.listing) continue;
    PENSTOCK_ASSIGN(source.files, ReadListing(*source.listing));
  }
  PENSTOCK_ASSIGN(compiled->table, LaneTable::Cut(compiled->graph, compiled->manifest));
  PENSTOCK_ASSIGN(compiled->layout, MakeLayout(compiled->graph, compiled->table, compiled->manifest));
  compiled->spec = std::make_shared<const Spec>(compiled->layout.row_spec);
  compiled->explain = engine::ExplainLanes(compiled->graph, compiled->table, compiled->layout);
  compiled->seed = seed;
  return std::shared_ptr<const Pipeline>(std::make_shared<CompiledPipeline>(std::move(compiled)));
}

Result<PlanFacts> CheckPlan(const Plan& plan) {
  PENSTOCK_ASSIGN(const Graph graph, engine::BuildGraph(plan));
  PlanFacts facts;
  facts.row_spec = graph.root->spec();
  facts.element_spec = graph.element_spec;
  facts.batch = graph.batching.rows;
  facts.drop_remainder = graph.batching.drop_remainder;
  facts.pad = graph.batching.pad;
  facts.purity = graph.purity;
  facts.runs_code = graph.runs_code;
  facts.cardinality = engine::Cardinality(graph);
  facts.explain = engine::ExplainPlan(graph);
  return facts;
}

Result<Manifest> ListInputs(const Plan& plan) {
  PENSTOCK_ASSIGN(const Graph graph, engine::BuildGraph(plan));
  std::map<uint32_t, const Node*> sources;
  engine::ForEachNode(*graph.root, [&](const Node& node) {
    if (node.op->reads_files()) sources.emplace(node.plan_node, &node);
  });
  Manifest manifest;
  for (const auto& [plan_node, node] : sources) {
    PENSTOCK_ASSIGN(SourceInput source, node->op->ListInput());
    source.node = plan_node;
    manifest.sources.push_back(std::move(source));
  }
  return manifest;
}

}  // namespace penstock
