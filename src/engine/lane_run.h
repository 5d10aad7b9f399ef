// The running of one lane: rows are pulled, evaluated into columns, and cut into blocks.
#pragma once

#include <memory>
#include <vector>

#include "base/columns.h"
#include "engine/operator.h"
#include "engine/pipeline.h"

namespace penstock::engine {

// What a run needs of its pipeline. `owner` keeps graph and manifest alive.
struct LanePlan {
  std::shared_ptr<const void> owner;
  const Node* root = nullptr;
  std::shared_ptr<const Spec> spec;
  LaneContext context;  // `pieces` is set by the run
  std::vector<Piece> pieces;
  uint64_t group_rows = 1;
};

std::unique_ptr<LaneRun> MakeLaneRun(LanePlan plan, const LaneRequest& request);

}  // namespace penstock::engine
