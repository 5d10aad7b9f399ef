// Sessions, datasets, and what consumers and the dispatcher say to each other.
#include "wire/codec_parts.h"

namespace penstock::codec {

Offset<fb::Hello> PutBody(Builder& b, const msg::Hello& m) {
  const auto token = b.CreateString(m.token);
  const auto role = b.CreateString(m.role);
  const auto name = b.CreateString(m.name);
  const auto boot_id = b.CreateString(m.boot_id);
  return fb::CreateHello(b, m.min_version, m.max_version, token, role, name, boot_id, m.netns, m.uid, m.pid, m.shm);
}
Status TakeBody(const fb::Hello& in, msg::Hello& out) {
  out = {in.min_version(),   in.max_version(), Text(in.token()), Text(in.role()), Text(in.name()),
         Text(in.boot_id()), in.netns(),       in.uid(),         in.pid(),        in.shm()};
  return {};
}

Offset<fb::HelloReply> PutBody(Builder& b, const msg::HelloReply& m) {
  const auto cluster = b.CreateString(m.cluster);
  return fb::CreateHelloReply(b, m.version, cluster, Raw(m.term), m.shm, Put(b, m.error));
}
Status TakeBody(const fb::HelloReply& in, msg::HelloReply& out) {
  out = {in.version(), Text(in.cluster()), Term{in.term()}, in.shm(), {}};
  return Take(in.error(), out.error);
}

Offset<fb::Failed> PutBody(Builder& b, const msg::Failed& m) { return fb::CreateFailed(b, Put(b, m.error)); }
Status TakeBody(const fb::Failed& in, msg::Failed& out) { return in.error() == nullptr ? Missing("error") : Take(in.error(), out.error); }

Offset<fb::Done> PutBody(Builder& b, const msg::Done&) { return fb::CreateDone(b); }
Status TakeBody(const fb::Done&, msg::Done&) { return {}; }

Offset<fb::Register> PutBody(Builder& b, const msg::Register& m) { return fb::CreateRegister(b, PutBlob(b, m.plan)); }
Status TakeBody(const fb::Register& in, msg::Register& out) {
  out.plan = Blob(in.plan());
  return {};
}

Offset<fb::Registered> PutBody(Builder& b, const msg::Registered& m) { return fb::CreateRegistered(b, b.CreateString(m.dataset)); }
Status TakeBody(const fb::Registered& in, msg::Registered& out) {
  out.dataset = Text(in.dataset());
  return {};
}

Offset<fb::GetDataset> PutBody(Builder& b, const msg::GetDataset& m) { return fb::CreateGetDataset(b, b.CreateString(m.dataset)); }
Status TakeBody(const fb::GetDataset& in, msg::GetDataset& out) {
  out.dataset = Text(in.dataset());
  return {};
}

Offset<fb::DatasetReply> PutBody(Builder& b, const msg::DatasetReply& m) {
  const auto dataset = b.CreateString(m.dataset);
  return fb::CreateDatasetReply(b, dataset, PutBlob(b, m.plan));
}
Status TakeBody(const fb::DatasetReply& in, msg::DatasetReply& out) {
  out = {Text(in.dataset()), Blob(in.plan())};
  return {};
}

Offset<fb::Join> PutBody(Builder& b, const msg::Join& m) {
  const auto dataset = b.CreateString(m.dataset);
  const auto job_name = b.CreateString(m.job_name);
  const auto name = b.CreateString(m.name);
  return fb::CreateJoin(b, dataset, job_name, static_cast<fb::Mode>(m.mode), m.seed, m.epochs, static_cast<fb::Even>(m.even), m.index, m.consumers,
                        m.incarnation, name, m.places, m.attempt, static_cast<uint8_t>(m.on_restart), static_cast<uint8_t>(m.on_death), m.rebuild);
}
Status TakeBody(const fb::Join& in, msg::Join& out) {
  out.dataset = Text(in.dataset());
  out.job_name = Text(in.job_name());
  PENSTOCK_TRY(Take(in.mode(), out.mode));
  out.seed = in.seed();
  out.epochs = in.epochs();
  PENSTOCK_TRY(Take(in.even(), out.even));
  out.index = in.index();
  out.consumers = in.consumers();
  out.incarnation = in.incarnation();
  out.name = Text(in.name());
  out.places = in.places();
  out.attempt = in.attempt();
  out.rebuild = in.rebuild();
  PENSTOCK_TRY(TakeEnum(in.on_restart(), OnRestart::kRestart, "on_restart", out.on_restart));
  return TakeEnum(in.on_death(), OnDeath::kRedeliver, "on_death", out.on_death);
}

Offset<fb::Joined> PutBody(Builder& b, const msg::Joined& m) {
  const auto layout = Put(b, m.layout);
  const auto hash = b.CreateString(m.manifest_hash);
  const auto workers = PutAll(b, m.workers);
  const auto job_name = b.CreateString(m.job_name);
  const auto base = b.CreateString(m.base);
  const auto position = b.CreateString(m.position);
  return fb::CreateJoined(b, Raw(m.job), Raw(m.consumer), Raw(m.generation), Raw(m.epoch), m.epochs, static_cast<fb::Mode>(m.mode), m.lease_ms,
                          layout, hash, workers, job_name, m.index, m.consumers, m.places, static_cast<fb::Even>(m.even), m.undecided, base, position,
                          m.workers_version);
}
Status TakeBody(const fb::Joined& in, msg::Joined& out) {
  out.job = JobId{in.job()};
  out.consumer = ConsumerId{in.consumer()};
  out.generation = Generation{in.generation()};
  out.epoch = Epoch{in.epoch()};
  out.epochs = in.epochs();
  PENSTOCK_TRY(Take(in.mode(), out.mode));
  out.lease_ms = in.lease_ms();
  PENSTOCK_TRY(Take(in.layout(), out.layout));
  out.manifest_hash = Text(in.manifest_hash());
  out.job_name = Text(in.job_name());
  out.index = in.index();
  out.consumers = in.consumers();
  out.places = in.places();
  PENSTOCK_TRY(Take(in.even(), out.even));
  out.undecided = in.undecided();
  out.base = Text(in.base());
  out.position = Text(in.position());
  out.workers_version = in.workers_version();
  return TakeAll(in.workers(), out.workers);
}

Offset<fb::Grant> Put(Builder& b, const msg::Grant& grant) {
  const auto range = Put(b, grant.range);
  return fb::CreateGrant(b, range, Raw(grant.fence), Raw(grant.worker));
}
Status Take(const fb::Grant* in, msg::Grant& out) {
  out.fence = Fence{in->fence()};
  out.worker = WorkerId{in->worker()};
  return Take(in->range(), out.range);
}

Offset<fb::Hold> Put(Builder& b, const msg::Hold& hold) {
  const auto lane = Put(b, hold.lane);
  return fb::CreateHold(b, lane, hold.grant_from.seq, Raw(hold.fence), hold.asked.seq, hold.asked.child, hold.open, hold.ready_rows, hold.ended,
                        hold.grant_from.child);
}
Status Take(const fb::Hold* in, msg::Hold& out) {
  out.grant_from = {in->grant_from(), in->grant_child()};
  out.fence = Fence{in->fence()};
  out.asked = {in->asked_seq(), in->asked_child()};
  out.open = in->open();
  out.ready_rows = in->ready_rows();
  out.ended = in->ended();
  return Take(in->lane(), out.lane);
}

Offset<fb::FinishedGrant> Put(Builder& b, const msg::Finish& finish) {
  const auto lane = Put(b, finish.lane);
  return fb::CreateFinishedGrant(b, lane, finish.grant_from.seq, Raw(finish.fence), finish.upto.seq, finish.upto.child, finish.ended,
                                 finish.grant_from.child);
}
Status Take(const fb::FinishedGrant* in, msg::Finish& out) {
  out.grant_from = {in->grant_from(), in->grant_child()};
  out.fence = Fence{in->fence()};
  out.upto = {in->upto_seq(), in->upto_child()};
  out.ended = in->ended();
  return Take(in->lane(), out.lane);
}

Offset<fb::Beat> PutBody(Builder& b, const msg::Beat& m) {
  const auto holds = PutAll(b, m.holds);
  const auto finished = PutAll(b, m.finished);
  const auto position = b.CreateString(m.position);
  return fb::CreateBeat(b, Raw(m.job), Raw(m.consumer), Raw(m.generation), m.serial, Raw(m.epoch), holds, finished, m.want, m.idle, m.tail_rows,
                        m.rows, m.bytes, m.wait_ns, m.begun, m.batches, m.ready_batches, position, m.tag, m.workers_version, m.wire_bytes);
}
Status TakeBody(const fb::Beat& in, msg::Beat& out) {
  out.job = JobId{in.job()};
  out.consumer = ConsumerId{in.consumer()};
  out.generation = Generation{in.generation()};
  out.serial = in.serial();
  out.epoch = Epoch{in.epoch()};
  out.want = in.want();
  out.idle = in.idle();
  out.tail_rows = in.tail_rows();
  out.rows = in.rows();
  out.bytes = in.bytes();
  out.wait_ns = in.wait_ns();
  out.begun = in.begun();
  out.batches = in.batches();
  out.ready_batches = in.ready_batches();
  out.position = Text(in.position());
  out.tag = in.tag();
  out.workers_version = in.workers_version();
  out.wire_bytes = in.wire_bytes();
  PENSTOCK_TRY(TakeAll(in.holds(), out.holds));
  return TakeAll(in.finished(), out.finished);
}

Offset<fb::BeatReply> PutBody(Builder& b, const msg::BeatReply& m) {
  const auto grants = PutAll(b, m.grants);
  const auto revoke = PutAll(b, m.revoke);
  const auto workers = PutAll(b, m.workers);
  const auto waiting_for = b.CreateString(m.waiting_for);
  return fb::CreateBeatReply(b, m.serial, Raw(m.generation), m.lease_ms, grants, revoke, Raw(m.epoch), m.end, m.epoch_done, workers, waiting_for,
                             m.started, m.limit, m.steps, m.first_tag, m.workers_version);
}
Status TakeBody(const fb::BeatReply& in, msg::BeatReply& out) {
  out.serial = in.serial();
  out.generation = Generation{in.generation()};
  out.lease_ms = in.lease_ms();
  out.epoch = Epoch{in.epoch()};
  out.end = in.end();
  out.epoch_done = in.epoch_done();
  out.waiting_for = Text(in.waiting_for());
  out.started = in.started();
  out.limit = in.limit();
  out.steps = in.steps();
  out.first_tag = in.first_tag();
  out.workers_version = in.workers_version();
  PENSTOCK_TRY(TakeAll(in.grants(), out.grants));
  PENSTOCK_TRY(TakeAll(in.revoke(), out.revoke));
  return TakeAll(in.workers(), out.workers);
}

Offset<fb::Leave> PutBody(Builder& b, const msg::Leave& m) {
  const auto holds = PutAll(b, m.holds);
  const auto finished = PutAll(b, m.finished);
  return fb::CreateLeave(b, Raw(m.job), Raw(m.consumer), holds, finished);
}
Status TakeBody(const fb::Leave& in, msg::Leave& out) {
  out.job = JobId{in.job()};
  out.consumer = ConsumerId{in.consumer()};
  PENSTOCK_TRY(TakeAll(in.holds(), out.holds));
  return TakeAll(in.finished(), out.finished);
}

}  // namespace penstock::codec
