// What a consumer waits for, in words.
#include <algorithm>
#include <string>

#include "dispatcher/settle.h"

namespace penstock::dispatcher {
namespace {

std::string WaitsForSeat(const Job& job, const Consumer& consumer) {
  for (const auto& [id, member] : job.members) {
    if (member.undecided || member.index != consumer.index) continue;
    return "the seat of " + member.name + ", whose connection is gone: it is free when that one's lease ends";
  }
  return "a seat";
}

size_t Started(const Job& job) {
  return std::count_if(job.members.begin(), job.members.end(), [](const auto& item) { return !item.second.undecided; });
}

std::string WaitsForStart(const Job& job) {
  return "the start: consumers " + std::to_string(Started(job)) + " of " + std::to_string(job.consumers) + " have joined";
}

std::string WaitsForTheAbsent(const Job& job, Epoch epoch) {
  for (const auto& [id, member] : job.members) {
    if (member.expired) return "consumer " + member.name + ", which is dead: its batches wait until it is started anew, or the job is restored";
  }
  for (const auto& [index, seat] : job.vacated) {
    if (!Through(seat, epoch)) return "consumer " + seat.name + ", which has left: its batches wait until it is started anew, or the job is restored";
  }
  return "";
}

}  // namespace

std::string WaitingFor(const Job& job, const Consumer& consumer, TimePoint now, bool any_worker) {
  if (!any_worker) return "no worker is registered: start one with `penstock worker --dispatcher ADDRESS`";
  if (consumer.undecided) return consumer.begun ? WaitsForSeat(job, consumer) : "a word from its loop: it may restore a position, or begin to read";
  if (consumer.ended) return "";
  const auto limit = job.limits.find(consumer.epoch);
  if (limit != job.limits.end() && consumer.came.batches >= limit->second) {
    if (Started(job) < job.consumers && limit->second == 0) return WaitsForStart(job);
    return "the other consumers, which have not come so far: all end the epoch at one step (even)";
  }
  if (job.mode == Mode::kStrict) return job.started ? WaitsForTheAbsent(job, consumer.epoch) : WaitsForStart(job);
  for (const auto& [epoch, state] : job.open) {
    if (epoch > consumer.epoch) break;
    if (epoch == consumer.epoch && state.Find(consumer.id) != nullptr) return "";
    for (const auto& [id, holder] : state.holders()) {
      auto member = job.members.find(id);
      if (member == job.members.end() || !Silent(member->second, now)) continue;
      return "lanes of consumer " + member->second.name +
             (job.holds() ? ", which is silent; they wait for it, or for a restore" : ", which is silent; they come back when its lease ends");
    }
    if (epoch < consumer.epoch) return "epoch " + std::to_string(Raw(epoch)) + ", which other consumers still read";
  }
  return "a lane of epoch " + std::to_string(Raw(consumer.epoch)) + ": all are held by other consumers";
}

}  // namespace penstock::dispatcher
