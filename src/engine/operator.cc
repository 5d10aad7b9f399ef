#include "engine/operator.h"

#include <algorithm>

#include "engine/streams.h"

namespace penstock::engine {
namespace {

constexpr uint64_t Mix(uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// A counted row has no way to fail when it is made, so it is asked before any is.
Status CheckHeldBytesOfRow(const Node& node, uint64_t state_cap) {
  const uint64_t bytes = state_cap == 0 || node.rows == 0 ? 0 : node.op->HeldBytesOfRow(node);
  return bytes <= state_cap ? Status() : HoldsTooMuch("batch: the rows of one", bytes, "n");
}

}  // namespace

std::string_view Name(LaneClass lane_class) {
  switch (lane_class) {
    case LaneClass::kSource: return "source";
    case LaneClass::kRow: return "row";
    case LaneClass::kOrder: return "order";
    case LaneClass::kUnion: return "union";
    case LaneClass::kCount: return "count";
  }
  return "unknown";
}

const Spec& Node::spec() const { return op->spec(); }

OrderKey OrderKey::Pass(uint64_t pass) const {
  OrderKey key = *this;
  if (pass > 0) key.seed = Mix(seed + pass * 0x9E3779B97F4A7C15ULL);
  return key;
}

OrderKey OrderKey::WholeEpoch() const {
  OrderKey key = *this;
  key.lane = LaneId{};
  return key;
}

std::vector<Piece> LaneContext::PiecesOf(const Node& node) const {
  std::vector<Piece> mine;
  std::copy_if(pieces->begin(), pieces->end(), std::back_inserter(mine), [&](const Piece& piece) { return piece.node == node.id; });
  return mine;
}

std::optional<uint64_t> Operator::Rows(std::span<const std::optional<uint64_t>> inputs) const {
  return inputs.size() == 1 ? inputs[0] : std::nullopt;
}

RowIndexPtr Operator::Index(const Node& node, const OrderKey& order) const { return OpenIndex(node.input(), order); }

Result<RowStreamPtr> Operator::Open(const Node& node, const LaneContext& context) const { return OpenStream(node.input(), context); }

Status Operator::Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) const { return engine::Evaluate(node.input(), rows, columns); }

std::vector<std::span<const std::byte>> Operator::Kept(uint64_t /*first*/, uint64_t /*n*/) const { return {}; }

bool Operator::Strings(const Node& node, RowPtrs rows, std::vector<std::string_view>& strings) const {
  return node.inputs.size() == 1 && node.input().op->Strings(node.input(), rows, strings);
}

Operator::Mixing Operator::mixing() const { return Mixing::kNone; }

std::optional<Batching> Operator::batching() const { return std::nullopt; }

std::optional<int64_t> Operator::passes() const { return std::nullopt; }

uint64_t Operator::StateBytes(uint64_t /*lane_bytes*/) const { return 0; }

Result<SourceInput> Operator::ListInput() const { return SourceInput(); }

Result<bool> Operator::CanCut(const InputFile& /*file*/) const { return false; }

uint64_t Operator::RowBytes(std::span<const uint64_t> inputs) const {
  uint64_t bytes = 0;
  for (const uint64_t input : inputs) bytes += input;
  return bytes;
}

uint64_t Operator::HeldBytesOfRow(const Node& node) const {
  uint64_t bytes = sizeof(Row);
  for (const auto& input : node.inputs) bytes = std::max(bytes, input->op->HeldBytesOfRow(*input));
  return bytes;
}

Result<RowStreamPtr> OpenStream(const Node& node, const LaneContext& context) {
  if (node.rows.has_value()) {
    PENSTOCK_TRY(CheckHeldBytesOfRow(node, context.state_cap));
    return CountedStream(node, context);
  }
  return node.op->Open(node, context);
}

RowIndexPtr OpenIndex(const Node& node, const OrderKey& order) {
  // Nothing of something that is not counted is counted too: its input has no index.
  if (node.rows == 0) return nullptr;
  return node.op->Index(node, order);
}

Status Evaluate(const Node& node, RowPtrs rows, ColumnPtrs columns) { return node.op->Evaluate(node, rows, columns); }

uint64_t RowBytes(const Node& node) {
  std::vector<uint64_t> inputs;
  for (const auto& input : node.inputs) inputs.push_back(RowBytes(*input));
  return node.op->RowBytes(inputs);
}

Status HoldsTooMuch(const std::string& what, uint64_t bytes, std::string_view smaller) {
  return Status(Code::kTooLarge, what + " hold " + std::to_string(bytes) +
                                     " bytes, more than the memory budget allows; give --memory more, or a smaller " + std::string(smaller))
      .With("bytes", static_cast<int64_t>(bytes));
}

Status InvalidNode(const PlanNode& node, std::string_view what) {
  return Status(Code::kInvalid, node.op + ": " + std::string(what)).With("operator", node.op);
}

}  // namespace penstock::engine
