#include "client/parts.h"

#include <algorithm>
#include <utility>

namespace penstock {

namespace {

// Where a strict job stands: after the last batch, or at the start of the epoch or the generation that has none yet. After END it is at the
// epoch's end, as on every other rank: what is left is dropped, or is of the last step, in which this one has no batch (uneven).
RingPosition RingAt(const msg::Joined& joined, const DeliveryLog::Point& point) {
  if (point.ended) return RingPosition{.epoch = Epoch{Raw(point.epoch) + 1}};
  if (point.ring != nullptr && point.ring->epoch >= point.epoch) return *point.ring;
  for (const std::string* state : {&joined.position, &joined.base}) {
    const auto began = state->empty() ? Result<Position>(Position{}) : ParsePosition(*state);
    if (began.ok() && began->ring && began->ring->epoch >= point.epoch) return *began->ring;
  }
  return RingPosition{.epoch = point.epoch};
}

}  // namespace

Position MakePart(const PartFacts& facts, const msg::Joined& joined, const DeliveryLog::Point& point) {
  Position part;
  part.kind = Position::Kind::kPart;
  part.job = joined.job_name;
  part.dataset = facts.dataset;
  part.rows = facts.rows;
  part.manifest = joined.manifest_hash;
  part.mode = joined.mode;
  part.seed = facts.seed;
  part.generation = point.generation;
  part.tag = point.tag;
  part.consumers = joined.consumers;
  part.index = joined.index;
  part.batch = joined.layout.batch;
  part.epoch = point.epoch;
  part.ended = point.ended;
  part.seated_at = point.seated_at;
  part.delivered = point.rows;
  if (joined.mode == Mode::kStrict) {
    part.ring = RingAt(joined, point);
    part.places = joined.places;
    part.delivered.epochs_done = part.ring->epoch;
    return part;
  }
  if (joined.base.empty()) return part;
  // The dispatcher's own words: checked when it wrote them down.
  if (auto base = ParsePosition(joined.base); base.ok()) part.base = std::move(base->delivered);
  return part;
}

Result<uint64_t> StepOf(const StateOptions& options, const DeliveryLog::Point& current) {
  if (options.at && options.at->generation != current.generation) {
    return Status(Code::kNotFound, "that batch came before the job was restored (generation " + std::to_string(Raw(options.at->generation)) +
                                       ", now " + std::to_string(Raw(current.generation)) + "); pass one that came after it");
  }
  const uint64_t last = options.at ? options.at->step : current.tag;
  if (options.behind <= last) return last - options.behind;
  return Status(Code::kNotFound, "behind=" + std::to_string(options.behind) +
                                     " is before the first batch of this reader since it began or was restored: it had " + std::to_string(last));
}

std::vector<msg::PartReply> PartAsks::Answer(const PartFacts& facts, const msg::Joined& joined, const Shelf& shelf) {
  std::vector<msg::PartReply> replies;
  std::erase_if(asks_, [&](const msg::PartAsk& ask) {
    const auto current = shelf.Delivered();
    // Where all end at one step whoever is at its epoch's end before this one will come to it in the next.
    const bool never = shelf.Ended() && joined.even == Even::kUneven;
    const bool any_cut = joined.consumers == 0 || ask.now;
    if (current->tag < ask.tag && !never && !any_cut) return false;
    msg::PartReply reply;
    reply.job = joined.job;
    reply.consumer = joined.consumer;
    reply.generation = current->generation;
    reply.gather = ask.gather;
    reply.current = ToJson(MakePart(facts, joined, *current));
    const auto at_tag = any_cut ? current : shelf.Delivered(std::min(ask.tag, current->tag));
    if (at_tag.ok()) {
      reply.at_tag = ToJson(MakePart(facts, joined, *at_tag));
    } else {
      reply.error = at_tag.status();
    }
    replies.push_back(std::move(reply));
    return true;
  });
  return replies;
}

}  // namespace penstock
