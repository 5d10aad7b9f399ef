// Workers and the dispatcher, lanes between clients and workers, and what people ask.
#include "wire/codec_parts.h"

namespace penstock::codec {
namespace {

auto PutJobs(Builder& b, const std::vector<JobId>& jobs) {
  std::vector<uint64_t> numbers;
  for (const JobId job : jobs) numbers.push_back(Raw(job));
  return b.CreateVector(numbers);
}
std::vector<JobId> TakeJobs(const flatbuffers::Vector<uint64_t>* numbers) {
  std::vector<JobId> jobs;
  for (const uint64_t job : Numbers(numbers)) jobs.push_back(JobId{job});
  return jobs;
}

}  // namespace

Offset<fb::WorkerHello> PutBody(Builder& b, const msg::WorkerHello& m) {
  const auto address = b.CreateString(m.address);
  const auto socket = b.CreateString(m.unix_socket);
  const auto boot_id = b.CreateString(m.boot_id);
  const auto name = b.CreateString(m.name);
  return fb::CreateWorkerHello(b, address, socket, boot_id, m.netns, m.incarnation, m.memory, m.cpus, name, m.pid);
}
Status TakeBody(const fb::WorkerHello& in, msg::WorkerHello& out) {
  out = {Text(in.address()), Text(in.unix_socket()), Text(in.boot_id()),
         in.netns(),         in.incarnation(),       in.memory(),
         in.cpus(),          Text(in.name()),        in.pid()};
  return {};
}

Offset<fb::WorkerWelcome> PutBody(Builder& b, const msg::WorkerWelcome& m) { return fb::CreateWorkerWelcome(b, Raw(m.worker), m.lease_ms); }
Status TakeBody(const fb::WorkerWelcome& in, msg::WorkerWelcome& out) {
  out = {WorkerId{in.worker()}, in.lease_ms()};
  return {};
}

Offset<fb::WorkerBeat> PutBody(Builder& b, const msg::WorkerBeat& m) {
  const auto jobs = PutJobs(b, m.jobs);
  return fb::CreateWorkerBeat(b, Raw(m.worker), m.draining, m.lanes, m.used, m.budget, m.rows, m.bytes, m.rss, m.cpu_ns, jobs, m.wire_bytes);
}
Status TakeBody(const fb::WorkerBeat& in, msg::WorkerBeat& out) {
  out = {WorkerId{in.worker()}, in.draining(),       in.lanes(),     in.used(), in.budget(), in.rows(), in.bytes(), in.rss(),
         in.cpu_ns(),           TakeJobs(in.jobs()), in.wire_bytes()};
  return {};
}

Offset<fb::WorkerBeatReply> PutBody(Builder& b, const msg::WorkerBeatReply& m) {
  return fb::CreateWorkerBeatReply(b, m.known, m.drain, PutJobs(b, m.forget));
}
Status TakeBody(const fb::WorkerBeatReply& in, msg::WorkerBeatReply& out) {
  out = {in.known(), in.drain(), TakeJobs(in.forget())};
  return {};
}

Offset<fb::ListInputs> PutBody(Builder& b, const msg::ListInputs& m) {
  const auto plan = PutBlob(b, m.plan);
  const auto name = b.CreateString(m.name);
  return fb::CreateListInputs(b, Raw(m.job), plan, m.seed, name, b.CreateString(m.consumer));
}
Status TakeBody(const fb::ListInputs& in, msg::ListInputs& out) {
  out = {JobId{in.job()}, Blob(in.plan()), in.seed(), Text(in.name()), Text(in.consumer())};
  return {};
}

Offset<fb::Inputs> PutBody(Builder& b, const msg::Inputs& m) {
  const auto manifest = PutBlob(b, m.manifest);
  const auto hash = b.CreateString(m.manifest_hash);
  return fb::CreateInputs(b, Raw(m.job), manifest, hash, Put(b, m.layout));
}
Status TakeBody(const fb::Inputs& in, msg::Inputs& out) {
  out.job = JobId{in.job()};
  out.manifest = Blob(in.manifest());
  out.manifest_hash = Text(in.manifest_hash());
  return Take(in.layout(), out.layout);
}

Offset<fb::GetJob> PutBody(Builder& b, const msg::GetJob& m) { return fb::CreateGetJob(b, Raw(m.job)); }
Status TakeBody(const fb::GetJob& in, msg::GetJob& out) {
  out.job = JobId{in.job()};
  return {};
}

Offset<fb::JobReply> PutBody(Builder& b, const msg::JobReply& m) {
  const auto dataset = b.CreateString(m.dataset);
  const auto plan = PutBlob(b, m.plan);
  const auto manifest = PutBlob(b, m.manifest);
  const auto name = b.CreateString(m.name);
  return fb::CreateJobReply(b, Raw(m.job), dataset, plan, manifest, m.seed, static_cast<fb::Mode>(m.mode), Raw(m.generation), name);
}
Status TakeBody(const fb::JobReply& in, msg::JobReply& out) {
  out = {JobId{in.job()}, Text(in.dataset()), Blob(in.plan()), Blob(in.manifest()), in.seed(), {}, Generation{in.generation()}, Text(in.name())};
  return Take(in.mode(), out.mode);
}

Offset<fb::Open> PutBody(Builder& b, const msg::Open& m) {
  const auto range = Put(b, m.range);
  return fb::CreateOpen(b, Raw(m.job), Raw(m.generation), range, Raw(m.fence), m.credit, Raw(m.consumer), m.urgent, m.by_group,
                        static_cast<uint8_t>(m.compression));
}
Status TakeBody(const fb::Open& in, msg::Open& out) {
  out = {JobId{in.job()}, Generation{in.generation()}, {}, Fence{in.fence()}, ConsumerId{in.consumer()}, in.credit(), in.urgent(), in.by_group()};
  if (in.compression() <= static_cast<uint8_t>(WireCompression::kZstd)) out.compression = static_cast<WireCompression>(in.compression());
  return Take(in.range(), out.range);
}

Offset<fb::Credit> PutBody(Builder& b, const msg::Credit& m) {
  const auto freed = b.CreateVector(m.freed);
  const auto kept = b.CreateVector(m.kept);
  return fb::CreateCredit(b, m.bytes, freed, m.waits, kept);
}
Status TakeBody(const fb::Credit& in, msg::Credit& out) {
  out = {in.bytes(), Numbers(in.freed()), in.waits(), Numbers(in.kept())};
  return {};
}

Offset<fb::GroupInfo> Put(Builder& b, const msg::Group& group) {
  return fb::CreateGroupInfo(b, group.first.seq, group.first.child, group.end.seq, group.end.child, group.rows, group.bytes, group.digest);
}
Status Take(const fb::GroupInfo* in, msg::Group& out) {
  out = {{in->first_seq(), in->first_child()}, {in->end_seq(), in->end_child()}, in->rows(), in->bytes(), in->digest()};
  return {};
}

Offset<fb::Groups> PutBody(Builder& b, const msg::Groups& m) { return fb::CreateGroups(b, PutAll(b, m.groups), m.ended); }
Status TakeBody(const fb::Groups& in, msg::Groups& out) {
  out.ended = in.ended();
  return TakeAll(in.groups(), out.groups);
}

Offset<fb::Take> PutBody(Builder& b, const msg::Take& m) {
  std::vector<uint64_t> seqs;
  std::vector<uint32_t> children;
  for (const Cursor& cursor : m.want) {
    seqs.push_back(cursor.seq);
    children.push_back(cursor.child);
  }
  const auto want_seqs = b.CreateVector(seqs);
  return fb::CreateTake(b, want_seqs, b.CreateVector(children), m.passed.seq, m.passed.child);
}
Status TakeBody(const fb::Take& in, msg::Take& out) {
  const std::vector<uint64_t> seqs = Numbers(in.want_seqs());
  const std::vector<uint32_t> children = Numbers(in.want_children());
  if (seqs.size() != children.size()) return OutOfRange("want_children", children.size());
  for (size_t i = 0; i < seqs.size(); ++i) out.want.push_back({seqs[i], children[i]});
  out.passed = {in.passed_seq(), in.passed_child()};
  return {};
}

Offset<fb::CloseLane> PutBody(Builder& b, const msg::CloseLane&) { return fb::CreateCloseLane(b); }
Status TakeBody(const fb::CloseLane&, msg::CloseLane&) { return {}; }

Offset<fb::LaneEnded> PutBody(Builder& b, const msg::LaneEnded& m) { return fb::CreateLaneEnded(b, m.end.seq, m.end.child, m.lane_ended); }
Status TakeBody(const fb::LaneEnded& in, msg::LaneEnded& out) {
  out = {{in.end_seq(), in.end_child()}, in.lane_ended()};
  return {};
}

Offset<fb::LaneFailed> PutBody(Builder& b, const msg::LaneFailed& m) { return fb::CreateLaneFailed(b, Put(b, m.error)); }
Status TakeBody(const fb::LaneFailed& in, msg::LaneFailed& out) { return in.error() == nullptr ? Missing("error") : Take(in.error(), out.error); }

Offset<fb::Refused> PutBody(Builder& b, const msg::Refused& m) { return fb::CreateRefused(b, Put(b, m.error)); }
Status TakeBody(const fb::Refused& in, msg::Refused& out) { return in.error() == nullptr ? Missing("error") : Take(in.error(), out.error); }

Offset<fb::SegmentMade> PutBody(Builder& b, const msg::SegmentMade& m) { return fb::CreateSegmentMade(b, m.segment, m.bytes); }
Status TakeBody(const fb::SegmentMade& in, msg::SegmentMade& out) {
  out = {in.segment(), in.bytes()};
  return {};
}

Offset<fb::SegmentGone> PutBody(Builder& b, const msg::SegmentGone& m) { return fb::CreateSegmentGone(b, m.segment); }
Status TakeBody(const fb::SegmentGone& in, msg::SegmentGone& out) {
  out.segment = in.segment();
  return {};
}

Offset<fb::Draining> PutBody(Builder& b, const msg::Draining&) { return fb::CreateDraining(b); }
Status TakeBody(const fb::Draining&, msg::Draining&) { return {}; }

Offset<fb::StatusAsk> PutBody(Builder& b, const msg::StatusAsk&) { return fb::CreateStatusAsk(b); }
Status TakeBody(const fb::StatusAsk&, msg::StatusAsk&) { return {}; }

Offset<fb::StatusJob> Put(Builder& b, const msg::StatusJob& job) {
  const auto name = b.CreateString(job.name);
  const auto dataset = b.CreateString(job.dataset);
  const auto state = b.CreateString(job.state);
  return fb::CreateStatusJob(b, name, Raw(job.job), dataset, static_cast<fb::Mode>(job.mode), Raw(job.epoch), job.lanes, job.lanes_done,
                             job.lanes_open, job.consumers, job.rows, job.bytes, job.wait_ns, state, job.redelivered, job.watched_ms,
                             job.watched_rows, job.watched_bytes, job.wire_bytes, job.watched_wire_bytes);
}
Status Take(const fb::StatusJob* in, msg::StatusJob& out) {
  out = {Text(in->name()),
         JobId{in->job()},
         Text(in->dataset()),
         {},
         Epoch{in->epoch()},
         in->lanes(),
         in->lanes_done(),
         in->lanes_open(),
         in->consumers(),
         in->rows(),
         in->bytes(),
         in->wait_ns(),
         Text(in->state()),
         in->redelivered(),
         in->watched_ms(),
         in->watched_rows(),
         in->watched_bytes(),
         in->wire_bytes(),
         in->watched_wire_bytes()};
  return Take(in->mode(), out.mode);
}

Offset<fb::StatusWorker> Put(Builder& b, const msg::StatusWorker& worker) {
  const auto address = b.CreateString(worker.address);
  const auto name = b.CreateString(worker.name);
  const auto state = b.CreateString(worker.state);
  return fb::CreateStatusWorker(b, Raw(worker.worker), address, name, worker.pid, worker.draining, worker.lanes, worker.used, worker.budget,
                                worker.rows, worker.bytes, worker.rss, worker.cpu_ns, worker.silent_ms, state, worker.wire_bytes);
}
Status Take(const fb::StatusWorker* in, msg::StatusWorker& out) {
  out = {WorkerId{in->worker()}, Text(in->address()), Text(in->name()), in->pid(), in->draining(), in->lanes(),     in->used(),
         in->budget(),           in->rows(),          in->bytes(),      in->rss(), in->cpu_ns(),   in->silent_ms(), Text(in->state()),
         in->wire_bytes()};
  return {};
}

Offset<fb::StatusReply> PutBody(Builder& b, const msg::StatusReply& m) {
  const auto cluster = b.CreateString(m.cluster);
  const auto version = b.CreateString(m.version);
  const auto jobs = PutAll(b, m.jobs);
  const auto workers = PutAll(b, m.workers);
  return fb::CreateStatusReply(b, cluster, Raw(m.term), version, jobs, workers);
}
Status TakeBody(const fb::StatusReply& in, msg::StatusReply& out) {
  out.cluster = Text(in.cluster());
  out.term = Term{in.term()};
  out.version = Text(in.version());
  PENSTOCK_TRY(TakeAll(in.jobs(), out.jobs));
  return TakeAll(in.workers(), out.workers);
}

}  // namespace penstock::codec
