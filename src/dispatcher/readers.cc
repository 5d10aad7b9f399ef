#include "dispatcher/readers.h"

#include <algorithm>
#include <iterator>

namespace penstock::dispatcher {

namespace {
bool Reads(const Consumer* consumer) { return !consumer->ended; }
}  // namespace

Roster::Roster(Job& job) {
  auto last = epochs_.end();
  for (auto& [id, consumer] : job.members) {
    if (!consumer.reads()) continue;
    if (last == epochs_.end() || last->first != consumer.epoch) last = epochs_.try_emplace(consumer.epoch).first;
    last->second.push_back(&consumer);
  }
}

const Members& Roster::In(Epoch epoch) const {
  static const Members nobody;
  const auto found = epochs_.find(epoch);
  return found == epochs_.end() ? nobody : found->second;
}

Members Roster::Readers(Epoch epoch) const {
  const Members& all = In(epoch);
  Members readers;
  readers.reserve(all.size());
  std::copy_if(all.begin(), all.end(), std::back_inserter(readers), Reads);
  return readers;
}

size_t Roster::CountReaders(Epoch epoch) const {
  const Members& all = In(epoch);
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), Reads));
}

bool Roster::IsRead(Epoch epoch) const {
  const Members& all = In(epoch);
  return std::any_of(all.begin(), all.end(), Reads);
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
