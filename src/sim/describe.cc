#include "sim/describe.h"

#include "base/delivered.h"
#include "wire/codec.h"

namespace penstock::sim {
namespace {

std::string Lane(const LaneKey& lane) {
  return std::to_string(Raw(lane.epoch)) + "." + std::to_string(Raw(lane.replica)) + "." + std::to_string(Raw(lane.lane));
}

std::string Grants(const std::vector<msg::Grant>& grants) {
  std::string text = "{";
  for (const msg::Grant& grant : grants)
    text += " " + Lane(grant.range.lane) + "@" + CursorText(grant.range.from) + "f" + std::to_string(Raw(grant.fence));
  return text + " }";
}

std::string Words(const msg::Beat& beat) {
  std::string text = " " + std::to_string(beat.serial) + " epoch " + std::to_string(Raw(beat.epoch)) + " want " + std::to_string(beat.want) +
                     (beat.idle ? " idle" : "") + " tail " + std::to_string(beat.tail_rows) + " has " + std::to_string(beat.batches) + "+" +
                     std::to_string(beat.ready_batches) + " holds {";
  for (const msg::Hold& hold : beat.holds) {
    text += " " + Lane(hold.lane) + "@" + CursorText(hold.grant_from) + "f" + std::to_string(Raw(hold.fence)) + ":" + std::to_string(hold.asked.seq) +
            (hold.open    ? "o"
             : hold.ended ? "e"
                          : "") +
            "+" + std::to_string(hold.ready_rows);
  }
  text += " } finished {";
  for (const msg::Finish& finish : beat.finished) {
    text += " " + Lane(finish.lane) + "@" + CursorText(finish.grant_from) + "f" + std::to_string(Raw(finish.fence)) + ":" +
            std::to_string(finish.upto.seq) + (finish.ended ? "." : "");
  }
  return text + " }";
}

std::string Words(const msg::BeatReply& reply) {
  return " " + std::to_string(reply.serial) + " epoch " + std::to_string(Raw(reply.epoch)) + (reply.end ? " END" : "") +
         (reply.epoch_done ? " done" : "") + (reply.limit != msg::kNoLimit ? " limit " + std::to_string(reply.limit) : "") +
         (reply.steps != msg::kNoLimit ? " steps " + std::to_string(reply.steps) : "") + " grants " + Grants(reply.grants) + " revoke " +
         Grants(reply.revoke) + " " + reply.waiting_for;
}

std::string Words(const msg::Open& open) {
  return " " + Lane(open.range.lane) + " from " + std::to_string(open.range.from.seq) + " fence " + std::to_string(Raw(open.fence)) + " credit " +
         std::to_string(open.credit);
}
std::string Words(const msg::LaneEnded& ended) { return " at " + std::to_string(ended.end.seq) + (ended.lane_ended ? ", the lane's end" : ""); }
std::string Words(const msg::Credit& credit) { return " " + std::to_string(credit.bytes); }
std::string Words(const msg::Refused& refused) { return " " + refused.error.ToString(); }
std::string Words(const msg::LaneFailed& failed) { return " " + failed.error.ToString(); }
std::string Words(const msg::Failed& failed) { return " " + failed.error.ToString(); }
template <class Other>
std::string Words(const Other&) {
  return "";
}

}  // namespace

std::string Describe(const Message& message) {
  return std::string(MessageName(message)) + std::visit([](const auto& m) { return Words(m); }, message);
}

}  // namespace penstock::sim
