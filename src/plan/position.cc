#include "plan/position.h"

#include <algorithm>
#include <utility>

namespace penstock {

void History::Add(const LaneKey& lane, Cursor from, Cursor to) {
  if (from < to) epochs[lane.epoch].Add(lane.lane, from, to);
}

void History::MergePart(const History& part) {
  for (const auto& [epoch, rows] : part.epochs) {
    if (epoch >= epochs_done && !rows.empty()) epochs[epoch].Merge(rows);
  }
}

void History::SubtractPart(const History& part, uint32_t lanes) {
  if (!part.epochs.empty() && part.epochs.begin()->first < epochs_done) {
    const Epoch first = part.epochs.begin()->first;
    for (uint32_t epoch = Raw(first); epoch < Raw(epochs_done); ++epoch) epochs[Epoch{epoch}].AddLanes({0, lanes});
    epochs_done = first;
  }
  for (const auto& [epoch, rows] : part.epochs) {
    const auto mine = epochs.find(epoch);
    if (mine == epochs.end()) continue;
    mine->second.Subtract(rows);
    if (mine->second.empty()) epochs.erase(mine);
  }
}

void History::LeaveBehind(Epoch first) {
  if (first <= epochs_done) return;
  epochs_done = first;
  epochs.erase(epochs.begin(), epochs.lower_bound(first));
}

void History::Settle(uint32_t lanes) {
  Delivered all;
  all.AddLanes({0, lanes});
  for (auto first = epochs.begin(); first != epochs.end() && first->first == epochs_done && first->second == all; first = epochs.erase(first)) {
    epochs_done = Epoch{Raw(epochs_done) + 1};
  }
}

Result<std::string> RowsFingerprint(const Plan& plan) {
  PENSTOCK_TRY(Fingerprint(plan));  // a checked graph: inputs before users
  uint32_t at = static_cast<uint32_t>(plan.nodes.size() - 1);
  const auto is = [&](std::string_view a, std::string_view b) {
    return plan.nodes[at].inputs.size() == 1 && (plan.nodes[at].op == a || plan.nodes[at].op == b);
  };
  while (is("prefetch", "repeat")) at = plan.nodes[at].inputs.front();  // they mean the same above a batching as below it
  if (!is("batch", "padded_batch")) return Fingerprint(plan);
  const uint32_t below = plan.nodes[at].inputs.front();
  Plan rows = plan;
  rows.nodes.erase(rows.nodes.begin() + at);
  for (PlanNode& node : rows.nodes) {
    for (uint32_t& input : node.inputs) input = input == at ? below : input - (input > at ? 1 : 0);
  }
  return Fingerprint(rows);
}

}  // namespace penstock
