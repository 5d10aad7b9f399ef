// The rows of a job as the simulator knows them: numbers. Nothing here asks a core.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/shelf.h"
#include "sim/scenario.h"

namespace penstock::sim {

struct Row {
  LaneKey lane;
  Cursor at;
  friend auto operator<=>(const Row&, const Row&) = default;
};
std::string ToString(const Row& row);

// All rows of a lane, in order.
std::vector<Row> RowsOfLane(const JobScenario& job, const LaneKey& lane);

// The first row at or after `from`; nullopt at the lane's end.
std::optional<Cursor> RowAt(const JobScenario& job, const LaneKey& lane, Cursor from);

// The rows that a slice names; nullopt where they are not rows of the lane, or not those up to its end.
std::optional<std::vector<Row>> RowsOfSlice(const JobScenario& job, const Slice& slice);

// The batches of an epoch of a strict job, as the reference orders them: the last may be short.
std::vector<std::vector<Row>> StrictBatches(const JobScenario& job, Epoch epoch, uint32_t places);

}  // namespace penstock::sim
