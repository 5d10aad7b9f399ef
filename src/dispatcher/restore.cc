// Taking over what an earlier term stored.
#include <algorithm>
#include <utility>

#include "dispatcher/codec.h"
#include "dispatcher/core_impl.h"

namespace penstock::dispatcher {

Status DispatcherCore::Impl::Restore(TimePoint now, const Snapshot& stored) {
  now_ = now;
  // A job before its parts, inputs before the epochs that are shaped by them, epochs before the members whose grants are in them.
  for (const char* kind : {"dataset", "tombstone", "job", "inputs", "base", "epoch", "member"}) {
    const std::string prefix = std::string(kind) + "/";
    for (auto it = stored.lower_bound(prefix); it != stored.end() && it->first.starts_with(prefix); ++it) {
      if (Status status = RestoreOne(it->first, it->second); !status.ok()) return std::move(status).Prefixed("key " + it->first);
    }
  }
  AwaitWorkers();
  return {};
}

Status DispatcherCore::Impl::RestoreOne(const std::string& key, const std::string& value) {
  PENSTOCK_ASSIGN(const ParsedKey parsed, ParseKey(key));
  if (parsed.kind == "dataset") {
    datasets_[parsed.text] = {value, now_};
    return {};
  }
  if (parsed.kind == "tombstone") {
    PENSTOCK_ASSIGN(Tombstone tombstone, DecodeTombstone(parsed.first, value));
    next_tombstone_ = tombstone.ordinal + 1;
    tombstones_.push_back(std::move(tombstone));
    return {};
  }
  const JobId id{parsed.first};
  if (parsed.kind == "job") {
    PENSTOCK_ASSIGN(Job job, DecodeJob(id, value));
    if (!datasets_.contains(job.dataset)) return Status(Code::kData, "reads a dataset that is not stored");
    job.read = now_;
    jobs_.emplace(id, std::move(job));
    return {};
  }
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return Status(Code::kData, "belongs to a job that is not stored");
  if (parsed.kind == "inputs") {
    PENSTOCK_ASSIGN(job->second.inputs, DecodeInputs(value));
    return {};
  }
  if (parsed.kind == "base") {
    job->second.base = value;
    return {};
  }
  if (parsed.kind == "member") return RestoreMember(job->second, value);
  const Epoch epoch{static_cast<uint32_t>(parsed.second)};
  PENSTOCK_ASSIGN(EpochState state, DecodeEpoch(epoch, job->second.shape(), value));
  job->second.open.emplace(epoch, std::move(state));
  return {};
}

Status DispatcherCore::Impl::RestoreMember(Job& job, const std::string& value) {
  PENSTOCK_ASSIGN(StoredMember member, DecodeMember(value));
  member.consumer.heard = now_;
  for (const StoredGrant& grant : member.grants) {
    auto state = job.open.find(grant.epoch);
    if (state == job.open.end()) return Status(Code::kData, "holds a grant of an epoch that is not stored");
    state->second.RestoreGrant(member.consumer.id, grant.name, grant.held);
  }
  const ConsumerId id = member.consumer.id;
  job.members.emplace(id, std::move(member.consumer));
  return {};
}

// A replica lives as long as its worker: each gets the time of a lease to say hello again.
void DispatcherCore::Impl::AwaitWorkers() {
  for (const auto& [id, job] : jobs_) {
    for (const Replica& replica : job.replicas) {
      Worker worker;
      worker.info.worker = replica.worker;
      worker.awaited = true;
      worker.heard = now_;
      workers_.emplace(replica.worker, std::move(worker));
    }
  }
}

}  // namespace penstock::dispatcher
