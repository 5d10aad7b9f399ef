// Datasets stay as long as a job reads them, and a while after: whoever registers one joins soon, or tells others its id.
#include <algorithm>
#include <utility>

#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"

namespace penstock::dispatcher {
namespace {

constexpr auto kUnusedFor = std::chrono::hours(1);
constexpr uint64_t kUnusedBytes = 64 << 20;           // of plans that no job reads; past that the longest unused go first…
constexpr uint64_t kEntryBytes = 4 << 10;             // …each counted with what it costs beside its plan…
constexpr auto kSurelyFor = std::chrono::minutes(1);  // …but none that was registered just now, and will be joined

uint64_t CostOf(const Dataset& dataset) { return dataset.plan.size() + kEntryBytes; }

}  // namespace

// Idempotent: the same plan is the same dataset.
void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::Register& message) {
  Result<std::string> id = options_.check_plan(message.plan);
  if (!id.ok()) return Fail(session, request, id.status());
  const auto [dataset, added] = datasets_.try_emplace(*id, message.plan);
  dataset->second.used = now_;
  if (added) {
    Put(DatasetKey(*id), message.plan);
    Log("dataset.register", {{"dataset", *id}, {"bytes", message.plan.size()}});
  }
  Reply(session, request, msg::Registered{*id});
}

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::GetDataset& message) {
  auto dataset = datasets_.find(message.dataset);
  if (dataset == datasets_.end()) {
    return Fail(session, request, Status(Code::kNotFound, "no dataset " + message.dataset + " is registered here: register it first"));
  }
  dataset->second.used = now_;
  Reply(session, request, msg::DatasetReply{dataset->first, dataset->second.plan});
}

void DispatcherCore::Impl::CollectDatasets() {
  for (const auto& [id, job] : jobs_) datasets_.at(job.dataset).used = now_;
  for (const auto& [id, listing] : listings_) datasets_.at(listing.job.dataset).used = now_;
  using Entry = std::map<std::string, Dataset>::iterator;
  std::vector<Entry> unused;  // the longest first
  uint64_t bytes = 0;
  for (Entry it = datasets_.begin(); it != datasets_.end(); ++it) {
    if (it->second.used == now_) continue;
    unused.push_back(it);
    bytes += CostOf(it->second);
  }
  std::sort(unused.begin(), unused.end(), [](Entry a, Entry b) { return a->second.used < b->second.used; });
  for (Entry it : unused) {
    const Duration since = now_ - it->second.used;
    const bool too_many = bytes > kUnusedBytes && since > kSurelyFor;
    if (!too_many && since <= kUnusedFor) break;
    bytes -= CostOf(it->second);
    Put(DatasetKey(it->first), std::nullopt);
    datasets_.erase(it);
  }
}

}  // namespace penstock::dispatcher
