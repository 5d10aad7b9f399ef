#include "plan/state_check.h"

#include <algorithm>

namespace penstock {
namespace {

// Lanes of an endless epoch that were given out and of which nothing was delivered, before one of which something was. Each becomes a piece.
constexpr uint32_t kMostLanesBetween = 1 << 18;

Status Other(const StateTerms& terms, const std::string& what, const std::string& state, const std::string& has) {
  return Status(Code::kMismatch, "this state was saved with " + what + " " + state + ", and " + terms.name + " has " + has +
                                     ": restore it into the job it was saved from, or one over the same rows");
}

Status CheckHistory(const StateTerms& terms, const History& history) {
  const uint32_t lanes = terms.layout.lanes;
  for (const auto& [epoch, named] : history.epochs) {
    if (named.LanesNamed() > lanes) return Other(terms, "lanes up to", std::to_string(named.LanesNamed()), std::to_string(lanes));
    if (lanes != kEndlessLanes || named.LanesBetween() <= kMostLanesBetween) continue;
    return Status(Code::kInvalid, "the state names lane " + std::to_string(named.LanesNamed() - 1) + " of epoch " + std::to_string(Raw(epoch)) +
                                      " and leaves out " + std::to_string(named.LanesBetween()) +
                                      " before it: lanes are given out in order, so no state_dict() gave this one");
  }
  return {};
}

Status CheckStrict(const StateTerms& terms, const Position& state) {
  if (state.batch != terms.layout.batch) return Other(terms, "batch", std::to_string(state.batch), std::to_string(terms.layout.batch));
  for (const StateTerms::Places& asked : terms.asked) {
    if (state.places == 0 || asked.places == 0 || asked.places == state.places) continue;
    return Other(terms, "places", std::to_string(state.places), std::to_string(asked.places) + asked.by);
  }
  return CheckRing(*state.ring, RingShapeOf(terms.layout, state.places != 0 ? state.places : terms.places));
}

}  // namespace

RingShape RingShapeOf(const Layout& layout, uint32_t places) {
  return {.lanes = layout.lanes,
          .group_rows = std::max<uint64_t>(layout.group_rows(), 1),
          .mix = layout.batch == 0 ? 1 : std::max(layout.mix, 1u),
          .places = places};
}

Status CheckState(const StateTerms& terms, const Position& state) {
  if (terms.mode == Mode::kReplicated) {
    return Status(Code::kInvalid, terms.name + " is read in mode replicated, which has no position: use mode shared");
  }
  if (state.rows != terms.rows) return Other(terms, "another dataset's rows", state.rows, terms.rows);
  if (state.manifest != terms.manifest)
    return Other(terms, "manifest (other input files, or counted rows that were cut for another batch size)", state.manifest, terms.manifest);
  if (state.mode != terms.mode) return Other(terms, "mode", std::string(Name(state.mode)), std::string(Name(terms.mode)));
  if (state.seed != terms.seed) return Other(terms, "seed", std::to_string(state.seed), std::to_string(terms.seed));
  for (const History* history : {&state.delivered, &state.base}) PENSTOCK_TRY(CheckHistory(terms, *history));
  return terms.mode == Mode::kStrict ? CheckStrict(terms, state) : Status();
}

}  // namespace penstock
