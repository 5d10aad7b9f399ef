// Strict: the ring is shared by rule, so there is nothing to grant. What is settled is when the job starts, and when an epoch is over.
#include <set>

#include "dispatcher/settle.h"

namespace penstock::dispatcher {
namespace {

void TellMembers(Job& job, Changes& changes) {
  changes.job = true;
  for (auto& [id, consumer] : job.members) consumer.news = true;
}

bool AllPresent(const Job& job) {
  std::set<uint32_t> present;
  for (const auto& [id, consumer] : job.members) {
    if (!consumer.undecided) present.insert(consumer.index);
  }
  return present.size() == job.consumers;
}

// Every index has said that it came to the epoch's end: also one that died or left after it.
bool AllThrough(const Job& job, Epoch epoch) {
  std::set<uint32_t> through;
  for (const auto& [id, consumer] : job.members) {
    if (!consumer.undecided && Through(consumer, epoch)) through.insert(consumer.index);
  }
  for (const auto& [index, seat] : job.vacated) {
    if (Through(seat, epoch)) through.insert(index);
  }
  return through.size() == job.consumers;
}

}  // namespace

void SettleStrict(Job& job, Changes& changes) {
  if (!job.started && AllPresent(job)) {
    job.started = true;
    TellMembers(job, changes);
  }
  while (job.started && !job.finished() && AllThrough(job, job.first_open)) {
    job.first_open = Epoch{Raw(job.first_open) + 1};
    TellMembers(job, changes);
  }
}

}  // namespace penstock::dispatcher
