#include "engine/lanes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/constants.h"
#include "penstock/layout.h"

namespace penstock::engine {
namespace {

constexpr uint64_t kWantedLanes = 64;           // of a small input, so that several workers and consumers share it
constexpr uint64_t kWantedLanesOfPasses = 256;  // of all passes together: a lane has its price, whatever is in it
constexpr uint64_t kEndlessPasses = 64;         // count as so many
constexpr uint64_t kMinCut = 1 * kMiB;
constexpr uint64_t kMinShuffledCut = 256 * kKiB;
constexpr uint64_t kMinLaneRows = 16;
constexpr uint64_t kEndlessLaneRows = 64 * 1024;
constexpr uint64_t kMaxCountedLanes = uint64_t{1} << 31;
constexpr uint64_t kMaxPieces = uint64_t{1} << 25;                   // they are in memory
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;                    // of all files: beyond that they count as so many
constexpr uint64_t kWantedFiles = kMaxMix;                           // that a batch draws from
constexpr uint32_t kDealing = std::numeric_limits<uint32_t>::max();  // the operator number of the permutation that deals pieces

constexpr uint64_t DivideUp(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

struct Leaves {
  bool shuffled = false;
  uint32_t cycle = 1;
  std::vector<const Node*> nodes;
};

// Files that are read in turn below a node, for its sake.
uint32_t CycleOf(const Node& node) {
  if (node.op->mixing() == Operator::Mixing::kShuffles) return kLaneFiles;
  return node.op->mixing() == Operator::Mixing::kInterleaves ? node.op->cycle() : 1;
}

// The inputs of each region, in the plan's order.
void Collect(const Node& node, Leaves* open, uint32_t cycle, std::vector<Leaves>& regions) {
  if (node.rows.has_value() || node.inputs.empty()) {
    if (open == nullptr) open = &regions.emplace_back(Leaves{false, cycle, {}});
    open->cycle = std::max(open->cycle, cycle);
    open->nodes.push_back(&node);
    return;
  }
  Leaves shuffled{true, 1, {}};
  const bool begins = open == nullptr && node.op->mixing() == Operator::Mixing::kShuffles;
  cycle = std::max(cycle, CycleOf(node));
  for (const auto& input : node.inputs) Collect(*input, begins ? &shuffled : open, cycle, regions);
  if (begins) regions.push_back(std::move(shuffled));
}

uint64_t InputBytes(const Leaves& leaves, const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const Node* node : leaves.nodes) {
    if (node->rows.has_value()) {
      bytes += std::min(*node->rows, kEndlessLaneRows) * RowBytes(*node);
      continue;
    }
    for (const SourceInput& source : manifest.sources) {
      if (source.node != node->plan_node) continue;
      for (const InputFile& file : source.files) bytes = std::min(bytes + std::min(file.size, kMaxBytes), kMaxBytes);
    }
  }
  return bytes;
}

Status CutFiles(const Node& node, const Manifest& manifest, uint64_t cut, std::vector<Piece>& pieces) {
  PENSTOCK_ASSIGN(const SourceInput* source, FilesOf(manifest, node));
  for (uint32_t i = 0; i < source->files.size(); ++i) {
    const InputFile& file = source->files[i];
    uint64_t parts = 1;
    if (file.size > cut) {
      PENSTOCK_ASSIGN(const bool can_cut, node.op->CanCut(file));
      if (can_cut) parts = DivideUp(file.size, cut);
    }
    if (pieces.size() + parts > kMaxPieces) {
      return Status(Code::kData, file.path + ", of " + std::to_string(file.size) + " bytes, and the files before it are more than " +
                                     std::to_string(kMaxPieces) + " pieces; is its size right? Else read them as several datasets")
          .With("file", file.path);
    }
    const uint64_t step = DivideUp(file.size, parts);
    for (uint64_t part = 0; part < parts; ++part) {
      pieces.push_back({node.id, i, part * step, std::min((part + 1) * step, file.size)});
    }
  }
  return {};
}

bool CutsItself(const Node& node) { return node.op->code() != nullptr && node.op->code()->lanes > 0; }

// A source of code is cut as it says: a piece is the ordinal of a part.
void CutParts(const Node& node, std::vector<Piece>& pieces) {
  for (uint64_t part = 0; part < node.op->code()->lanes; ++part) pieces.push_back({node.id, 0, part, part + 1});
}

Region PartALane(const Node& node) {
  Region region;
  CutParts(node, region.pieces);
  region.lanes = region.pieces.size();
  for (uint64_t lane = 0; lane <= region.lanes; ++lane) region.starts.push_back(lane);
  region.max_lane_bytes = kLaneInput;
  return region;
}

void CutRows(const Node& node, uint64_t cut, std::vector<Piece>& pieces) {
  const uint64_t step = std::max(kMinLaneRows, cut / std::max<uint64_t>(RowBytes(node), 1));
  for (uint64_t begin = 0; begin < *node.rows; begin += step) {
    pieces.push_back({node.id, 0, begin, std::min(begin + step, *node.rows)});
  }
}

// Consecutive pieces fill a lane up to `target` bytes.
std::vector<uint64_t> FillLanes(const std::vector<Piece>& pieces, uint64_t target) {
  std::vector<uint64_t> starts;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < pieces.size(); ++i) {
    const uint64_t size = pieces[i].end - pieces[i].begin;
    if (starts.empty() || bytes + size > target) {
      starts.push_back(i);
      bytes = 0;
    }
    bytes += size;
  }
  starts.push_back(pieces.size());
  return starts;
}

// Each lane gets as many pieces as the others, enough to mix files.
std::vector<uint64_t> DealLanes(uint64_t pieces, uint64_t bytes) {
  const uint64_t by_size = std::min(pieces, DivideUp(bytes, kLaneInput));
  const uint64_t by_files = std::clamp<uint64_t>(pieces / kWantedFiles, 1, kWantedLanes);
  const uint64_t lanes = std::min(std::max(by_size, by_files), pieces);
  std::vector<uint64_t> starts;
  for (uint64_t lane = 0; lane <= lanes; ++lane) starts.push_back(lanes == 0 ? 0 : lane * pieces / lanes);
  return starts;
}

Result<Region> CutPieces(const Leaves& leaves, const Manifest& manifest) {
  Region region;
  region.shuffled = leaves.shuffled;
  region.cycle = leaves.cycle;
  const uint64_t bytes = InputBytes(leaves, manifest);
  uint64_t cut = std::clamp(bytes / kWantedLanes, kMinCut, kLaneInput);
  if (leaves.shuffled) cut = std::max(cut / kLaneFiles, kMinShuffledCut);
  for (const Node* node : leaves.nodes) {
    if (node->rows.has_value()) {
      CutRows(*node, cut, region.pieces);
    } else if (CutsItself(*node)) {
      CutParts(*node, region.pieces);
    } else {
      PENSTOCK_TRY(CutFiles(*node, manifest, cut, region.pieces));
    }
  }
  const bool mixes = leaves.shuffled || leaves.cycle > 1;
  region.starts = mixes ? DealLanes(region.pieces.size(), bytes) : FillLanes(region.pieces, std::min(bytes / kWantedLanes, kLaneInput));
  region.lanes = region.starts.size() - 1;
  uint64_t largest = 0;
  for (const Piece& piece : region.pieces) largest = std::max(largest, piece.end - piece.begin);
  region.max_lane_bytes = std::min(bytes, std::max(largest, region.lanes == 0 ? 0 : 2 * (bytes / region.lanes)));
  return region;
}

Region CutCounted(const Node& node, uint64_t batch, int64_t passes) {
  Region region;
  region.counted = &node;
  const uint64_t rows = *node.rows;
  const uint64_t row_bytes = std::max<uint64_t>(RowBytes(node), 1);
  const uint64_t at_most = std::max<uint64_t>(kLaneInput / row_bytes, 1);
  const uint64_t counted_passes = passes < 0 ? kEndlessPasses : std::max<uint64_t>(static_cast<uint64_t>(passes), 1);
  const uint64_t of_passes = counted_passes < kWantedLanesOfPasses ? DivideUp(rows, DivideUp(kWantedLanesOfPasses, counted_passes)) : rows;
  const uint64_t wanted = rows >= kEndlessRows ? kEndlessLaneRows : std::max({kMinLaneRows, DivideUp(rows, kWantedLanes), of_passes});
  region.lane_rows = std::min(wanted, at_most);
  if (rows < kEndlessRows) region.lane_rows = std::max(region.lane_rows, DivideUp(rows, kMaxCountedLanes));
  if (batch > 0) region.lane_rows = DivideUp(region.lane_rows, batch) * batch;
  region.lanes = rows >= kEndlessRows ? kEndlessLanes : DivideUp(rows, region.lane_rows);
  region.max_lane_bytes = region.lane_rows * row_bytes;
  return region;
}

// One lane over the whole of every input.
Result<Region> WholeInput(const Graph& graph, const Manifest& manifest) {
  Region region;
  Status failed;
  const auto add = [&](const Node& node, const auto& self) -> void {
    if (node.rows.has_value()) {
      region.pieces.push_back({node.id, 0, 0, *node.rows});
    } else if (CutsItself(node)) {
      region.pieces.push_back({node.id, 0, 0, 1});
    } else if (node.op->reads_files()) {
      if (Status status = CutFiles(node, manifest, kEndlessRows, region.pieces); !status.ok()) failed = std::move(status);
    } else {
      region.cycle = std::max(region.cycle, CycleOf(node));
      for (const auto& input : node.inputs) self(*input, self);
    }
  };
  add(*graph.root, add);
  PENSTOCK_TRY(failed);
  region.lanes = 1;
  region.starts = {0, region.pieces.size()};
  region.max_lane_bytes = kLaneInput;
  return region;
}

// Where lanes are single large files, a batch is joined from several lanes instead.
uint32_t ChooseMix(const std::vector<Region>& regions, uint64_t lanes, uint64_t batch) {
  uint64_t wanted = 1;
  for (const Region& region : regions) {
    if (!region.shuffled) return 1;
    const uint64_t files = std::clamp<uint64_t>(region.PiecesALane(), 1, kLaneFiles);
    wanted = std::max(wanted, DivideUp(kWantedFiles, files));
  }
  uint64_t mix = std::min({wanted, lanes, uint64_t{kMaxMix}, std::max<uint64_t>(batch, 1)});
  while (mix > 1 && batch % mix != 0) --mix;
  return static_cast<uint32_t>(std::max<uint64_t>(mix, 1));
}

}  // namespace

Result<const SourceInput*> FilesOf(const Manifest& manifest, const Node& node) {
  for (const SourceInput& source : manifest.sources) {
    if (source.node == node.plan_node) return &source;
  }
  return Status(Code::kMismatch, "the manifest has no files for operator " + std::to_string(node.plan_node) + " (" + std::string(node.def->name) +
                                     ") of the plan: it was made for another plan");
}

Result<LaneTable> LaneTable::Cut(const Graph& graph, const Manifest& manifest) {
  LaneTable table;
  if (graph.serial()) {
    PENSTOCK_ASSIGN(Region whole, WholeInput(graph, manifest));
    table.regions_.push_back(std::move(whole));
    table.lanes_ = 1;
    return table;
  }
  std::vector<Leaves> inputs;
  Collect(*graph.root, nullptr, 1, inputs);
  for (const Leaves& leaves : inputs) {
    if (leaves.nodes.size() == 1 && leaves.nodes.front()->rows.has_value()) {
      table.regions_.push_back(CutCounted(*leaves.nodes.front(), graph.batching.rows, graph.passes));
    } else if (leaves.nodes.size() == 1 && CutsItself(*leaves.nodes.front())) {
      table.regions_.push_back(PartALane(*leaves.nodes.front()));
    } else {
      PENSTOCK_ASSIGN(Region region, CutPieces(leaves, manifest));
      table.regions_.push_back(std::move(region));
    }
    table.lanes_ = std::min<uint64_t>(table.lanes_ + table.regions_.back().lanes, kEndlessLanes);
  }
  if (graph.batching.rows > 0) table.mix_ = ChooseMix(table.regions_, table.lanes_, graph.batching.rows);
  return table;
}

uint64_t LaneTable::cut() const {
  uint64_t cut = 0;
  for (const Region& region : regions_) {
    if (region.counted != nullptr) cut = cut * 1'000'003 + region.lane_rows;
  }
  return cut;
}

uint64_t LaneTable::files_a_batch() const {
  uint64_t files = 0;
  for (const Region& region : regions_) {
    if (region.counted != nullptr || region.pieces.empty()) continue;
    files = std::max(files, std::clamp<uint64_t>(region.PiecesALane(), 1, region.cycle));
  }
  return files * mix_;
}

uint64_t LaneTable::max_lane_bytes() const {
  uint64_t bytes = 0;
  for (const Region& region : regions_) bytes = std::max(bytes, region.max_lane_bytes);
  return bytes;
}

std::vector<Piece> LaneTable::PiecesOf(uint64_t lane, const OrderKey& order) const {
  uint32_t number = 0;
  for (const Region& region : regions_) {
    if (lane >= region.lanes) {
      lane -= region.lanes;
      ++number;
      continue;
    }
    if (region.counted != nullptr) {
      const uint64_t begin = lane * region.lane_rows;
      return {{region.counted->id, 0, begin, std::min(begin + region.lane_rows, *region.counted->rows)}};
    }
    std::vector<Piece> pieces(region.pieces.begin() + region.starts[lane], region.pieces.begin() + region.starts[lane + 1]);
    if (!region.shuffled) return pieces;
    const Permutation deal(region.pieces.size(), order.WholeEpoch().StreamOf(kDealing - number).At(0));
    for (uint64_t i = 0; i < pieces.size(); ++i) pieces[i] = region.pieces[deal(region.starts[lane] + i)];
    return pieces;
  }
  return {};
}

}  // namespace penstock::engine
