#include "sim/ledger.h"

#include <algorithm>
#include <set>

namespace penstock::sim {

std::string Ledger::Deliver(Epoch epoch, const std::vector<Slice>& batch) {
  uint64_t rows = 0;
  for (const Slice& slice : batch) {
    const LaneKey& lane = slice.grant.lane;
    if (slice.end.seq - slice.first.seq != slice.rows || slice.end.seq > scenario_.RowsOf(lane)) {
      return "a batch has rows " + std::to_string(slice.first.seq) + " to " + std::to_string(slice.end.seq) + " of " + penstock::ToString(lane) +
             ", which has " + std::to_string(scenario_.RowsOf(lane));
    }
    for (Seq seq = slice.first.seq; seq < slice.end.seq; ++seq) ++seen_[{lane, seq}];
    rows += slice.rows;
  }
  if (rows == 0) return "an empty batch was delivered";
  if (scenario_.layout.batch > 0 && rows > scenario_.layout.batch) return "a batch has " + std::to_string(rows) + " rows";
  if (scenario_.layout.batch > 0 && rows < scenario_.layout.batch) ++short_batches_[epoch];
  rows_ += rows;
  ++batches_;
  return "";
}

uint64_t Ledger::repeated() const {
  uint64_t repeated = 0;
  for (const auto& [row, count] : seen_) repeated += count - 1;
  return repeated;
}

void Ledger::CheckCoverage(std::vector<std::string>& wrong) const {
  std::set<ReplicaId> replicas;
  for (const auto& [row, count] : seen_) replicas.insert(row.first.replica);
  if (scenario_.mode != Mode::kReplicated) replicas = {ReplicaId{0}};
  if (scenario_.mode == Mode::kReplicated && replicas.size() != scenario_.workers && scenario_.lane_rows > 0 && !seen_.empty()) {
    wrong.push_back(std::to_string(replicas.size()) + " replicas were read of " + std::to_string(scenario_.workers) + " workers");
  }
  for (uint32_t epoch = 0; epoch < scenario_.epochs; ++epoch) {
    for (ReplicaId replica : replicas) {
      for (uint32_t lane = 0; lane < scenario_.layout.lanes; ++lane) {
        const LaneKey key{Epoch{epoch}, replica, LaneId{lane}};
        for (Seq seq = 0; seq < scenario_.RowsOf(key); ++seq) {
          if (!seen_.contains({key, seq}))
            return wrong.push_back("row " + std::to_string(seq) + " of " + penstock::ToString(key) + " was never delivered");
        }
      }
    }
  }
}

std::vector<std::string> Ledger::Check(const Outcome& outcome) const {
  std::vector<std::string> wrong;
  if (repeated() > outcome.redelivered) {
    wrong.push_back(std::to_string(repeated()) + " rows were delivered twice, and the dispatcher counted " + std::to_string(outcome.redelivered));
  }
  if (!outcome.broken && !outcome.workers_lost) CheckCoverage(wrong);
  if (outcome.broken || outcome.expired) return wrong;
  for (const auto& [epoch, count] : short_batches_) {
    if (count > 1) wrong.push_back(std::to_string(count) + " short batches in epoch " + std::to_string(Raw(epoch)));
  }
  return wrong;
}

}  // namespace penstock::sim
