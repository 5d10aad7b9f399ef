#include "engine/graph.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace penstock::engine {
namespace {

constexpr size_t kMaxNodes = 10'000;  // of the tree, where a node that two others use stands twice

class TreeBuilder {
 public:
  // Nodes in `lifted` are left out: their input takes their place. `places` are the nodes' places in the plan as it was given.
  TreeBuilder(const Plan& plan, const std::vector<uint32_t>& places, const std::set<uint32_t>& lifted)
      : plan_(plan), places_(places), lifted_(lifted) {}

  Result<std::unique_ptr<const Node>> Build(uint32_t index) {
    while (lifted_.contains(places_[index])) index = plan_.nodes[index].inputs.front();
    const PlanNode& from = plan_.nodes[index];
    auto node = std::make_unique<Node>();
    PENSTOCK_ASSIGN(node->def, Check(from, index));
    std::vector<const Spec*> specs;
    std::vector<std::optional<uint64_t>> rows;
    for (const uint32_t input : from.inputs) {
      PENSTOCK_ASSIGN(auto child, Build(input));
      specs.push_back(&child->spec());
      rows.push_back(child->rows);
      node->inputs.push_back(std::move(child));
    }
    PENSTOCK_ASSIGN(node->op, node->def->make(from, specs));
    PENSTOCK_TRY(CheckSpec(node->op->spec()));
    node->id = next_id_++;
    node->plan_node = places_[index];
    node->rows = node->op->Rows(rows);
    if (node->rows.has_value()) node->rows = std::min(*node->rows, kEndlessRows);
    return std::unique_ptr<const Node>(std::move(node));
  }

 private:
  Result<const OperatorDef*> Check(const PlanNode& node, uint32_t index) {
    if (++made_ > kMaxNodes) return Status(Code::kInvalid, "the plan has more than " + std::to_string(kMaxNodes) + " operators");
    const OperatorDef* def = FindOperator(node.op);
    if (def == nullptr) return InvalidNode(node, "no such operator; there are " + Known());
    if (node.inputs.size() < def->min_inputs || node.inputs.size() > def->max_inputs) {
      return InvalidNode(node, "has " + std::to_string(node.inputs.size()) + " inputs, but takes " + std::to_string(def->min_inputs) +
                                   (def->max_inputs > def->min_inputs ? " or more" : ""));
    }
    for (const uint32_t input : node.inputs) {
      if (input >= index) return InvalidNode(node, "an input does not stand before it in the plan");
    }
    return def;
  }

  static std::string Known() {
    std::string names;
    for (const std::string_view name : OperatorNames()) names += (names.empty() ? "" : ", ") + std::string(name);
    return names;
  }

  const Plan& plan_;
  const std::vector<uint32_t>& places_;
  const std::set<uint32_t>& lifted_;
  size_t made_ = 0;
  uint32_t next_id_ = 0;
};

// A plan in which functions of single rows stand above orders and counts, which then move what the functions are given: a shuffle holds references,
// counted inputs stay counted, and a lane resumes without running the code.
struct Ordered {
  Plan plan;
  std::vector<uint32_t> places;  // of its nodes, in the plan as it was given
};

bool MovesRowsOnly(const PlanNode& node) {
  constexpr std::array kNames = {"shuffle", "take", "skip", "shard", "repeat", "prefetch", "interleave"};
  return std::find(kNames.begin(), kNames.end(), node.op) != kNames.end();
}

bool IsRowFunction(const PlanNode& node) { return node.op == "map" || node.op == "map_batch"; }

Ordered MoveFunctionsUp(const Plan& plan) {
  Ordered ordered{plan, {}};
  for (uint32_t i = 0; i < plan.nodes.size(); ++i) ordered.places.push_back(i);
  std::vector<PlanNode>& nodes = ordered.plan.nodes;
  std::vector<uint32_t> chain{static_cast<uint32_t>(nodes.size() - 1)};  // from the root down
  while (nodes[chain.back()].inputs.size() == 1 && nodes[chain.back()].inputs.front() < chain.back()) {
    chain.push_back(nodes[chain.back()].inputs.front());
  }
  for (size_t pass = 1; pass < chain.size(); ++pass) {
    for (size_t i = 0; i + 1 < chain.size(); ++i) {
      PlanNode& above = nodes[chain[i]];
      PlanNode& below = nodes[chain[i + 1]];
      if (!MovesRowsOnly(above) || !IsRowFunction(below)) continue;
      std::swap(above.op, below.op);
      std::swap(above.attrs, below.attrs);
      std::swap(ordered.places[chain[i]], ordered.places[chain[i + 1]]);
    }
  }
  return ordered;
}

Result<std::shared_ptr<const Node>> BuildTree(const Ordered& ordered, const std::set<uint32_t>& lifted) {
  PENSTOCK_ASSIGN(auto root, TreeBuilder(ordered.plan, ordered.places, lifted).Build(static_cast<uint32_t>(ordered.plan.nodes.size() - 1)));
  return std::shared_ptr<const Node>(std::move(root));
}

// Operators that mean the same below a batch as above it. Padding is seen by whatever changes columns, so that only goes past operators that
// keep them.
bool CommutesWithBatch(const Node& node, const Batching& batching) {
  if (node.op->passes().has_value()) return true;
  if (node.def->lane_class != LaneClass::kRow || !node.op->commutes_with_batch()) return false;
  return !batching.pad || node.op->keeps_columns();
}

// Lifts the last batching, if only row-wise operators and repeats stand above it.
void LiftBatch(const Node& root, Graph& graph, std::set<uint32_t>& lifted) {
  const Node* node = &root;
  while (!node->op->batching().has_value()) {
    if (node->inputs.size() != 1 || !CommutesWithBatch(*node, {})) return;
    node = &node->input();
  }
  const Batching batching = *node->op->batching();
  for (const Node* above = &root; above != node; above = &above->input()) {
    if (!CommutesWithBatch(*above, batching)) return;
  }
  graph.batching = batching;
  lifted.insert(node->plan_node);
}

// Of a repeat of repeats. More than anybody lives to count are endless.
int64_t PassesOf(int64_t outer, int64_t inner) {
  if (outer == 0 || inner == 0) return 0;
  int64_t passes = 0;
  if (outer < 0 || inner < 0 || __builtin_mul_overflow(outer, inner, &passes)) return -1;
  return passes;
}

// Lifts repeats at the root: row-wise operators and orders, which are of one pass, may stand above them.
void LiftRepeat(const Node& root, Graph& graph, std::set<uint32_t>& lifted) {
  for (const Node* node = &root; node->inputs.size() == 1; node = &node->input()) {
    if (const auto passes = node->op->passes()) {
      graph.passes = PassesOf(graph.passes, *passes);
      lifted.insert(node->plan_node);
    } else if (node->def->lane_class != LaneClass::kRow && node->op->mixing() == Operator::Mixing::kNone) {
      return;
    }
  }
}

// The first operator that has to see the rows of all lanes in order; "" if there is none.
std::string WhySerial(const Node& node) {
  for (const auto& input : node.inputs) {
    if (std::string why = WhySerial(*input); !why.empty()) return why;
  }
  if (const CodeTraits* code = node.op->code(); code != nullptr && code->lanes == 1) {
    return std::string(node.def->name) + " makes its rows in one order, and cannot be cut";
  }
  if (node.def->lane_class != LaneClass::kCount || node.rows.has_value()) return {};
  return std::string(node.def->name) + " counts rows, and those of its input cannot be counted without reading them";
}

}  // namespace

Result<Graph> BuildGraph(const Plan& plan) {
  if (plan.nodes.empty()) return Status(Code::kInvalid, "the plan is empty");
  Graph graph;
  std::set<uint32_t> lifted;
  const Ordered ordered = MoveFunctionsUp(plan);
  PENSTOCK_ASSIGN(const auto whole, BuildTree(ordered, lifted));
  LiftBatch(*whole, graph, lifted);
  PENSTOCK_ASSIGN(graph.root, BuildTree(ordered, lifted));
  const std::set<uint32_t> batch_only = lifted;
  LiftRepeat(*graph.root, graph, lifted);
  PENSTOCK_ASSIGN(graph.root, BuildTree(ordered, lifted));
  graph.why_serial = WhySerial(*graph.root);
  if (graph.serial() && lifted != batch_only) {  // one lane holds all passes
    graph.passes = 1;
    PENSTOCK_ASSIGN(graph.root, BuildTree(ordered, batch_only));
  }
  graph.element_spec = graph.batching.rows == 0 ? graph.root->spec() : Batched(graph.root->spec(), graph.batching);
  ForEachNode(*graph.root, [&](const Node& node) {
    if (node.op->code() == nullptr) return;
    graph.runs_code = true;
    graph.purity = std::max(graph.purity, node.op->code()->purity);
  });
  return graph;
}

int64_t Cardinality(const Graph& graph) {
  if (graph.passes == 0) return 0;
  const Node* counted = graph.root.get();
  while (counted->op->code() != nullptr && counted->op->code()->keeps_rows) counted = &counted->input();
  if (!counted->rows.has_value()) return graph.passes < 0 ? -2 : -1;
  const uint64_t rows = *counted->rows;
  if (rows == 0) return 0;
  if (graph.passes < 0 || rows >= kEndlessRows / static_cast<uint64_t>(graph.passes)) return -2;
  const uint64_t all = rows * static_cast<uint64_t>(graph.passes);
  if (graph.batching.rows == 0) return static_cast<int64_t>(all);
  return static_cast<int64_t>(graph.batching.drop_remainder ? all / graph.batching.rows : (all - 1) / graph.batching.rows + 1);
}

ColumnSpec Batched(const ColumnSpec& row, const Batching& batching) {
  ColumnSpec column = row;
  column.shape.insert(column.shape.begin(), batching.drop_remainder ? static_cast<int64_t>(batching.rows) : kRagged);
  return column;
}

Spec Batched(const Spec& row, const Batching& batching) {
  Spec spec = row;
  for (ColumnSpec& column : spec.columns) column = Batched(column, batching);
  return spec;
}

}  // namespace penstock::engine
