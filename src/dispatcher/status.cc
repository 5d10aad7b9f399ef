// What people see.
#include <algorithm>
#include <set>

#include "base/constants.h"
#include "dispatcher/core_impl.h"

namespace penstock::dispatcher {
namespace {

uint64_t Millis(Duration duration) { return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()); }

// What keeps a job from going on, in words; "" where nothing does.
std::string Held(const Job& job) {
  std::string absent;
  const auto add = [&](const std::string& name, const char* why) { absent += (absent.empty() ? "" : ", ") + name + why; };
  for (const auto& [id, consumer] : job.members) {
    if (consumer.expired && job.holds()) add(consumer.name, " (dead)");
  }
  for (const auto& [index, seat] : job.vacated) {
    if (job.started && !job.members.empty() && !Through(seat, job.first_open)) add(seat.name, " (left)");
  }
  if (!absent.empty()) return "held for " + absent + ": start it anew, or restore";
  if (job.mode == Mode::kStrict && !job.started) return "waits for all " + std::to_string(job.consumers) + " consumers";
  return "";
}

// A lane may be held in several ranges, by several consumers.
uint32_t LanesHeld(const EpochState& state) {
  std::set<LaneKey> lanes;
  for (const auto& [id, holder] : state.holders()) {
    for (const auto& [grant, held] : holder) lanes.insert(grant.lane);
  }
  return static_cast<uint32_t>(lanes.size());
}

msg::StatusJob Describe(const Job& job) {
  msg::StatusJob row;
  row.name = job.name;
  row.job = job.id;
  row.dataset = job.dataset;
  row.mode = job.mode;
  row.epoch = job.first_open;
  row.lanes = job.inputs.layout.lanes;
  row.state = job.finished() ? "finished" : "reading";
  if (auto state = job.open.find(job.first_open); state != job.open.end()) {
    row.lanes_done = static_cast<uint32_t>(state->second.LanesDone());
    row.lanes_open = LanesHeld(state->second);
  }
  Figures had = job.gone;
  Figures watched = job.gone_watched;
  for (const auto& [id, consumer] : job.members) {
    row.consumers += consumer.reads() ? 1 : 0;
    had.Add(consumer.had);
    watched.Add(consumer.watched());
  }
  row.rows = had.rows;
  row.bytes = had.bytes;
  row.wire_bytes = had.wire_bytes;
  row.wait_ns = had.wait_ns;
  row.watched_rows = watched.rows;
  row.watched_bytes = watched.bytes;
  row.watched_wire_bytes = watched.wire_bytes;
  if (job.watched_from) row.watched_ms = Millis(job.watched_to - *job.watched_from);
  if (row.consumers == 0 && !job.finished()) row.state = "nobody reads it";
  if (std::string held = job.finished() ? "" : Held(job); !held.empty()) row.state = std::move(held);
  row.redelivered = job.redelivered;
  return row;
}

msg::StatusWorker Describe(const Worker& worker, TimePoint now) {
  const Duration silent = now - worker.heard;
  std::string state = worker.info.draining ? "draining" : "serving";
  if (silent > kSilence) state = "silent";
  return {.worker = worker.info.worker,
          .address = worker.info.address,
          .name = worker.name,
          .pid = worker.pid,
          .draining = worker.info.draining,
          .lanes = worker.last.lanes,
          .used = worker.last.used,
          .budget = worker.last.budget,
          .rows = worker.last.rows,
          .bytes = worker.last.bytes,
          .rss = worker.last.rss,
          .cpu_ns = worker.last.cpu_ns,
          .silent_ms = Millis(silent),
          .state = std::move(state),
          .wire_bytes = worker.last.wire_bytes};
}

}  // namespace

void DispatcherCore::Impl::OnMessage(SessionId session, RequestId request, const msg::StatusAsk&) {
  msg::StatusReply reply{options_.cluster, options_.term, options_.version, {}, {}};
  for (const auto& [id, listing] : listings_) {
    reply.jobs.push_back({.name = listing.job.name,
                          .job = id,
                          .dataset = listing.job.dataset,
                          .mode = listing.job.mode,
                          .state = workers_.empty() ? "waits for a worker to list its inputs" : "listing its inputs"});
  }
  for (const auto& [id, job] : jobs_) {
    const auto cohort = cohorts_.find(id);
    const bool restored = cohort != cohorts_.end() && !cohort->second.recruits.empty();
    if (Recalled(job) && !restored) continue;  // somebody has joined what is over, and may be told so in a moment
    reply.jobs.push_back(Describe(job));
    if (Recalled(job)) reply.jobs.back().state = "waits for consumers " + Missing(job, cohort->second) + " to load their state";
  }
  for (const auto& [id, worker] : workers_) {
    if (!worker.awaited) reply.workers.push_back(Describe(worker, now_));
  }
  Reply(session, request, std::move(reply));
}

}  // namespace penstock::dispatcher
