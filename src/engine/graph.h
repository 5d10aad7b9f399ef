// A plan made a tree of checked operators, with what is lifted out of it: the last batching, and the passes of a repeat.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/operator.h"
#include "penstock/layout.h"
#include "penstock/plan.h"
#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock::engine {

struct Graph {
  std::shared_ptr<const Node> root;  // the row plan
  Batching batching;                 // rows 0: the plan does not batch
  int64_t passes = 1;                // in one epoch; -1: endless
  std::string why_serial;            // "": lanes are cut
  Spec element_spec;                 // of a batch, where the plan batches

  bool runs_code = false;         // some operator is not native
  Purity purity = Purity::kPure;  // of all operators together

  bool serial() const { return !why_serial.empty(); }
};

// Everything about a plan that can be refused without its inputs is refused here; the errors name the operator.
Result<Graph> BuildGraph(const Plan& plan);

// Elements of one epoch: -1 unknown, -2 endless.
int64_t Cardinality(const Graph& graph);

// A column of batches of rows like `row`: one more dimension at the front.
ColumnSpec Batched(const ColumnSpec& row, const Batching& batching);
Spec Batched(const Spec& row, const Batching& batching);

// Calls `visit` for each node, inputs first.
template <class Visit>
void ForEachNode(const Node& node, const Visit& visit) {
  for (const auto& input : node.inputs) ForEachNode(*input, visit);
  visit(node);
}

}  // namespace penstock::engine
