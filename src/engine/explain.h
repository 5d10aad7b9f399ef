// What the engine does with a plan, in words.
#pragma once

#include <string>

#include "engine/graph.h"
#include "engine/lanes.h"
#include "penstock/layout.h"

namespace penstock::engine {

// A line an operator, from the sources up: its class, and what it means for lanes.
std::string ExplainPlan(const Graph& graph);
// How the inputs were cut: lanes, why serial, mix, files a batch draws from, purity.
std::string ExplainLanes(const Graph& graph, const LaneTable& table, const Layout& layout);

}  // namespace penstock::engine
