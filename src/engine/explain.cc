#include "engine/explain.h"

#include "base/constants.h"

namespace penstock::engine {
namespace {

std::string Meaning(const Node& node, bool serial) {
  if (serial) return "in the one serial lane";
  switch (node.def->lane_class) {
    case LaneClass::kSource:
      if (node.op->code() != nullptr) return "lanes are parts that it makes itself";
      return node.rows.has_value() ? "lanes are ranges of its " + std::to_string(*node.rows) + " rows" : "lanes are parts of its files";
    case LaneClass::kRow: return "row by row, in any lane";
    case LaneClass::kUnion: return "the lanes of its inputs, in order";
    case LaneClass::kCount: return "pushed down to row ranges: its input is counted";
    case LaneClass::kOrder: break;
  }
  if (node.rows.has_value()) {
    return node.op->mixing() == Operator::Mixing::kShuffles ? "one permutation over all lanes; the buffer size does not limit it"
                                                            : "counted, over all lanes";
  }
  return node.op->mixing() == Operator::Mixing::kShuffles ? "within a lane; pieces of all files are dealt to lanes anew each epoch" : "within a lane";
}

void ExplainNode(const Node& node, bool serial, int depth, std::string& text) {
  text += std::string(static_cast<size_t>(depth) * 2, ' ') + std::string(node.def->name) + " [" + std::string(Name(node.def->lane_class)) + "] " +
          node.op->Words() + "; " + Meaning(node, serial) + "\n";
  for (const auto& input : node.inputs) ExplainNode(*input, serial, depth + 1, text);
}

}  // namespace

std::string ExplainPlan(const Graph& graph) {
  std::string text;
  if (graph.passes != 1) {
    text += "repeat [lifted] " + (graph.passes < 0 ? std::string("endless passes") : std::to_string(graph.passes) + " passes") +
            " in an epoch; each has lanes and orders of its own, and no row of one mixes with another's\n";
  }
  if (graph.batching.rows > 0) {
    text += std::string(graph.batching.pad ? "padded_batch" : "batch") + " [lifted] " + std::to_string(graph.batching.rows) +
            " rows; the last rows of lanes are joined, so " +
            (graph.batching.drop_remainder ? "the one short batch of an epoch is dropped" : "at most one batch of an epoch is short") + "\n";
  }
  ExplainNode(*graph.root, graph.serial(), 0, text);
  if (graph.runs_code) text += "code: workers run it in executors, and only with --allow-code; purity: " + std::string(Name(graph.purity)) + "\n";
  if (graph.serial()) text += "serial: " + graph.why_serial + "; one worker makes the rows, several consumers share them\n";
  return text;
}

std::string ExplainLanes(const Graph& graph, const LaneTable& table, const Layout& layout) {
  std::string text = ExplainPlan(graph);
  text += "lanes: " + (layout.lanes == kEndlessLanes ? std::string("endless") : std::to_string(layout.lanes)) +
          (layout.serial ? " (serial, in ranges of " + std::to_string(layout.serial_range) + " rows)" : "") + "\n";
  if (layout.mix > 1) {
    text += "mix: a batch is joined from " + std::to_string(layout.mix) + " lanes of " + std::to_string(layout.group_rows()) + " rows each\n";
  }
  if (const uint64_t files = table.files_a_batch(); files > 0 && layout.batch > 0) {
    text += "files: a batch draws from up to " + std::to_string(files) + "\n";
  }
  text += "purity: " + std::string(Name(layout.purity)) + "\n";
  text += "state: up to " + std::to_string(layout.state_bytes / kKiB) + " KiB an open lane, beside its blocks\n";
  return text;
}

}  // namespace penstock::engine
