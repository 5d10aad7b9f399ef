// The running of a lane whose rows the plan itself carries, as a block has them. They are copied once, into the block; or, where it goes over a
// socket (LaneRequest::in_place), not at all: it is a head with rows behind it.
#pragma once

#include <memory>

#include "engine/lane_run.h"

namespace penstock::engine {

// Whether the lane's rows are one range of such rows.
bool AreKept(const LanePlan& plan);
std::unique_ptr<LaneRun> MakeKeptRun(LanePlan plan, const LaneRequest& request);

}  // namespace penstock::engine
