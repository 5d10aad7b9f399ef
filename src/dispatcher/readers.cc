#include "dispatcher/readers.h"

#include <algorithm>

namespace penstock::dispatcher {

Members ReadersOf(Job& job, Epoch epoch) {
  Members readers;
  for (auto& [id, consumer] : job.members) {
    if (consumer.reads() && !consumer.ended && consumer.epoch == epoch) readers.push_back(&consumer);
  }
  return readers;
}

bool Idle(const Job& job, const Consumer& consumer) {
  if (!consumer.idle) return false;
  return std::all_of(job.open.begin(), job.open.end(), [&](const auto& item) { return item.second.AllKnown(consumer.id); });
}

size_t HeldBy(const Job& job, const Consumer& consumer) {
  size_t count = 0;
  for (const auto& [epoch, state] : job.open) {
    if (const EpochState::Holder* holder = state.Find(consumer.id)) count += holder->size();
  }
  return count;
}

size_t ComingBack(const Job& job, const EpochState& state) {
  size_t coming = 0;
  for (const auto& [id, holder] : state.holders()) {
    auto member = job.members.find(id);
    if (member == job.members.end() || member->second.ending) continue;
    for (const auto& [name, held] : holder) coming += held.revoked && !held.broken ? 1 : 0;
  }
  return coming;
}

void TellEnd(Consumer& consumer, Changes& changes) {
  consumer.news = true;
  if (consumer.ended) return;
  consumer.ended = true;
  consumer.ending = false;
  changes.members.insert(consumer.id);
}

}  // namespace penstock::dispatcher
