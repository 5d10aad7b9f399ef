#include "sim/rows.h"

#include "client/ring_reference.h"

namespace penstock::sim {

std::string ToString(const Row& row) {
  return "row " + std::to_string(row.at.seq) + (row.at.child > 0 ? "." + std::to_string(row.at.child) : "") + " of " + penstock::ToString(row.lane);
}

std::optional<Cursor> RowAt(const JobScenario& job, const LaneKey& lane, Cursor from) {
  const Seq end = job.SourceRows(lane);
  for (; from.seq < end; from = {from.seq + 1, 0}) {
    if (from.child < job.RowsOf(lane, from.seq)) return from;
  }
  return std::nullopt;
}

std::vector<Row> RowsOfLane(const JobScenario& job, const LaneKey& lane) {
  std::vector<Row> rows;
  for (auto at = RowAt(job, lane, {}); at; at = RowAt(job, lane, {at->seq, at->child + 1})) rows.push_back({lane, *at});
  return rows;
}

std::optional<std::vector<Row>> RowsOfSlice(const JobScenario& job, const Slice& slice) {
  const LaneKey& lane = slice.grant.lane;
  std::vector<Row> rows;
  std::optional<Cursor> at = slice.first;
  for (uint64_t i = 0; i < slice.rows; ++i) {
    if (!at || *at != RowAt(job, lane, *at)) return std::nullopt;
    rows.push_back({lane, *at});
    at = RowAt(job, lane, {at->seq, at->child + 1});
  }
  const bool ends_there = !rows.empty() && slice.end > rows.back().at && (!at || slice.end <= *at);
  if (!ends_there) return std::nullopt;
  return rows;
}

std::vector<std::vector<Row>> StrictBatches(const JobScenario& job, Epoch epoch, uint32_t places) {
  std::vector<std::vector<Row>> lanes;
  std::vector<uint64_t> sizes;
  for (uint32_t lane = 0; lane < job.layout.lanes; ++lane) {
    lanes.push_back(RowsOfLane(job, {epoch, ReplicaId{0}, LaneId{lane}}));
    sizes.push_back(lanes.back().size());
  }
  std::vector<std::vector<Row>> batches;
  for (const Parts& parts : Reference(sizes, job.layout.group_rows(), places).Mixed(job.layout.mix)) {
    std::vector<Row>& batch = batches.emplace_back();
    for (const auto& [lane, first, rows] : parts) {
      const auto begin = lanes[lane].begin() + static_cast<ptrdiff_t>(first);
      batch.insert(batch.end(), begin, begin + static_cast<ptrdiff_t>(rows));
    }
  }
  return batches;
}

}  // namespace penstock::sim
