#include "client/inline_ring.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

namespace penstock {

InlineRing::InlineRing(const RingShape& shape, const RingPart& part, const RingPosition& start, InlineLanes& lanes, Shelf& shelf)
    : reader_(shape, part, start.turn / std::max(shape.mix, 1u), start), epoch_(start.epoch), lanes_(lanes), shelf_(shelf) {}

InlineRing::~InlineRing() {
  for (const auto& [key, block] : kept_) lanes_.Drop(block.handle);
  for (const Handle handle : reader_.LetGo()) lanes_.Drop(handle);
}

Status InlineRing::Work() {
  reader_.Walk();
  for (const Handle handle : reader_.TakeDiscarded()) lanes_.Drop(handle);
  reader_.Want(0, 0, true);
  HandOver();
  DropPassed();
  bool put = false;
  while (auto batch = reader_.Pop()) {
    shelf_.PutBatch(std::move(*batch));
    put = true;
  }
  if (reader_.at_end()) shelf_.EndEpoch(epoch_, reader_.dropped_rows());
  if (put || reader_.at_end()) return {};
  const std::vector<RingReader::Need> needs = reader_.Needs();
  const auto waited = std::find_if(needs.begin(), needs.end(), [](const RingReader::Need& need) { return need.waited; });
  if (waited == needs.end()) return Status(Code::kInternal, "the ring waits for no lane, and no batch is whole");
  return Step(*waited);
}

void InlineRing::HandOver() {
  for (auto at = kept_.begin(); at != kept_.end();) {
    const Result<bool> wanted = reader_.Arrived(at->first.first, at->second);
    at = wanted.ok() && *wanted ? kept_.erase(at) : std::next(at);
  }
}

void InlineRing::DropPassed() {
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto& [lane, group] = at->first;
    if (group >= reader_.TakeOf(lane).passed) {
      ++at;
      continue;
    }
    lanes_.Drop(at->second.handle);
    at = kept_.erase(at);
  }
}

// One group. A lane is opened where it is needed from, and again where it has gone on since: another's batch that pads the last step was passed.
Status InlineRing::Step(const RingReader::Need& need) {
  auto run = runs_.find(need.lane);
  if (run != runs_.end() && need.from < run->second.at && !kept_.contains({need.lane, need.from})) {
    runs_.erase(run);
    run = runs_.end();
  }
  if (run == runs_.end()) {
    PENSTOCK_ASSIGN(auto opened, lanes_.OpenGroups(need.lane, need.from));
    run = runs_.emplace(need.lane, Run{std::move(opened), need.from}).first;
  }
  StepResult result = run->second.run->Step();
  if (auto* produced = std::get_if<Produced>(&result)) return Take(need.lane, run->second, std::move(*produced));
  if (auto* failed = std::get_if<Status>(&result)) return std::move(*failed);
  if (const auto* blocked = std::get_if<Blocked>(&result)) {
    if (blocked->on == Waits::kBudget) {
      return Status(Code::kBusy, "no memory for a block of " + std::to_string(blocked->bytes) + " bytes; at " + run->second.run->where());
    }
    std::this_thread::yield();
    return {};
  }
  const Cursor end = run->second.at;  // rows that were filtered after its last group are nobody's
  runs_.erase(run);
  ++lanes_done_;
  return reader_.TellEnd(need.lane, end);
}

Status InlineRing::Take(LaneId lane, Run& run, Produced produced) {
  PENSTOCK_ASSIGN(ShelfBlock block, lanes_.Keep(std::move(produced)));
  const BlockInfo info = block.info;
  run.at = info.end;
  if (auto [at, added] = kept_.try_emplace({lane, info.first}, block); !added) lanes_.Drop(block.handle);
  return reader_.Tell(lane, {info.first, info.end, info.rows, info.bytes});
}

std::string InlineRing::where() const {
  const auto lane = reader_.WaitsFor();
  const auto run = lane ? runs_.find(*lane) : runs_.end();
  return run == runs_.end() ? "the next lane" : "lane " + std::to_string(Raw(*lane)) + ", " + run->second.run->where();
}

}  // namespace penstock
