#include "client/workers.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace penstock {
namespace {

constexpr Duration kFirstRetryPause = std::chrono::milliseconds(50);
constexpr Duration kLongestRetryPause = std::chrono::seconds(2);

uint64_t Mixed(uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

uint64_t Score(JobId job, const LaneKey& lane, WorkerId worker) {
  uint64_t score = Mixed(Raw(job));
  score = Mixed(score ^ (uint64_t{Raw(lane.replica)} << 32 | Raw(lane.lane)));
  return Mixed(score ^ Raw(worker));
}

}  // namespace

void WorkerBook::Update(const std::vector<msg::WorkerInfo>& workers) {
  for (auto& [id, entry] : workers_) entry.listed = false;
  for (const msg::WorkerInfo& info : workers) {
    auto [at, added] = workers_.try_emplace(info.worker);
    Entry& entry = at->second;
    // A worker's own word that it drains comes before the dispatcher's.
    const bool was_draining = !added && entry.info.draining;
    entry.info = info;
    entry.info.draining = info.draining || was_draining;
    entry.listed = true;
  }
  std::erase_if(workers_, [](const auto& item) { return !item.second.listed && item.second.link == Link::kNone; });
}

void WorkerBook::SetLink(WorkerId worker, Link link) {
  auto at = workers_.find(worker);
  if (at == workers_.end()) return;
  at->second.link = link;
  if (link == Link::kUp) at->second.failures = 0;
}

void WorkerBook::SetDraining(WorkerId worker) {
  if (auto at = workers_.find(worker); at != workers_.end()) at->second.info.draining = true;
}

void WorkerBook::Lost(WorkerId worker, TimePoint now) {
  auto at = workers_.find(worker);
  if (at == workers_.end()) return;
  Entry& entry = at->second;
  entry.link = Link::kNone;
  const uint32_t doublings = std::min(entry.failures++, 8u);
  entry.retry_at = now + std::min(kLongestRetryPause, kFirstRetryPause * (1 << doublings));
  if (!entry.listed) workers_.erase(at);
}

const WorkerBook::Entry* WorkerBook::Find(WorkerId worker) const {
  auto at = workers_.find(worker);
  return at == workers_.end() ? nullptr : &at->second;
}

std::string WorkerBook::Name(WorkerId worker) const {
  const Entry* entry = Find(worker);
  return entry == nullptr ? "worker " + std::to_string(Raw(worker)) : "worker " + entry->info.address;
}

bool WorkerBook::Takes(const Entry& entry, WorkerId pinned) const {
  if (!entry.listed) return false;
  // A bound lane has no other place to go: it stays with its worker while that one drains.
  if (pinned != WorkerId{}) return entry.info.worker == pinned;
  return !entry.info.draining;
}

std::vector<WorkerId> WorkerBook::Order(JobId job, const LaneKey& lane, WorkerId pinned, TimePoint now) const {
  std::vector<std::pair<uint64_t, WorkerId>> scored;
  for (const auto& [id, entry] : workers_) {
    const bool reachable = entry.link != Link::kNone || entry.retry_at <= now;
    if (reachable && Takes(entry, pinned)) scored.emplace_back(Score(job, lane, id), id);
  }
  std::sort(scored.begin(), scored.end(), std::greater<>());
  std::vector<WorkerId> order;
  std::transform(scored.begin(), scored.end(), std::back_inserter(order), [](const auto& item) { return item.second; });
  return order;
}

std::optional<TimePoint> WorkerBook::NextRetry(TimePoint now) const {
  std::optional<TimePoint> next;
  for (const auto& [id, entry] : workers_) {
    if (!entry.listed || entry.link != Link::kNone || entry.failures == 0) continue;
    if (entry.retry_at <= now) continue;  // it was looked at, and nobody wanted it
    if (!next || entry.retry_at < *next) next = entry.retry_at;
  }
  return next;
}

bool WorkerBook::Any(WorkerId pinned) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& item) { return Takes(item.second, pinned); });
}

std::vector<WorkerId> WorkerBook::Linked() const {
  std::vector<WorkerId> linked;
  for (const auto& [id, entry] : workers_) {
    if (entry.link != Link::kNone) linked.push_back(id);
  }
  return linked;
}

}  // namespace penstock
