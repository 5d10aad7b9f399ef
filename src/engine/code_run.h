// The running of a program (engine/code.h) in one lane: at the root of a plan as the lane's run, below native operators as a stream of rows.
#pragma once

#include <memory>
#include <vector>

#include "engine/lane_run.h"
#include "engine/operator.h"

namespace penstock::engine {

// Consecutive code operators from `top` down.
struct Program {
  explicit Program(const Node& top);
  std::vector<uint32_t> nodes;  // of the plan, the lowest first
  const CodeTraits* source = nullptr;
  const Node* source_node = nullptr;
  const Node* input = nullptr;  // native rows that it is fed; null: it has a source of its own
  bool keeps_rows = true;       // no row of a cursor is missing or multiplied
};

// plan.root is a code operator, and plan.context.code is set.
std::unique_ptr<LaneRun> MakeCodeRun(LanePlan plan, const LaneRequest& request);

// The rows of a code operator that stands below native ones, each packed into Row::bytes.
Result<RowStreamPtr> OpenCodeStream(const Node& node, const LaneContext& context);
// Appends such rows to columns.
Status UnpackRows(const Spec& spec, RowPtrs rows, ColumnPtrs columns);

}  // namespace penstock::engine
