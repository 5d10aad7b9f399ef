#include "dispatcher/codec.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <span>

#include "store_generated.h"
#include "wire/codec.h"

namespace penstock::dispatcher {
namespace {

std::string Hex(uint64_t number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llx", digits, static_cast<unsigned long long>(number));
  return text;
}

bool ParseHex(std::string_view text, uint64_t& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return error == std::errc() && end == text.data() + text.size();
}

Status Damaged(std::string_view what) {
  return Status(Code::kData,
                std::string("the stored ") + std::string(what) + " is damaged: restore the state directory from a copy, or start with an empty one");
}

template <class Table>
std::string Finish(flatbuffers::FlatBufferBuilder& builder, flatbuffers::Offset<Table> table) {
  builder.Finish(fb::CreateStored(builder, fb::StoredBodyTraits<Table>::enum_value, table.Union()));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

template <class Table>
const Table* Open(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!fb::VerifyStoredBuffer(verifier)) return nullptr;
  return fb::GetStored(bytes.data())->body_as<Table>();
}

std::string Text(const flatbuffers::String* text) { return text == nullptr ? std::string() : text->str(); }

template <class Vector, class Fn>
void Each(const Vector* vector, Fn fn) {
  if (vector == nullptr) return;
  for (const auto* item : *vector) fn(*item);
}

}  // namespace

std::string DatasetKey(const std::string& dataset) { return "dataset/" + dataset; }
std::string JobKey(JobId job) { return "job/" + Hex(Raw(job), 16); }
std::string InputsKey(JobId job) { return "inputs/" + Hex(Raw(job), 16); }
std::string EpochKey(JobId job, Epoch epoch) { return "epoch/" + Hex(Raw(job), 16) + "/" + Hex(Raw(epoch), 8); }
std::string MemberKey(JobId job, ConsumerId consumer) { return "member/" + Hex(Raw(job), 16) + "/" + Hex(Raw(consumer), 16); }
std::string BaseKey(JobId job) { return "base/" + Hex(Raw(job), 16); }
std::string TombstoneKey(uint64_t ordinal) { return "tombstone/" + Hex(ordinal, 16); }

Result<ParsedKey> ParseKey(const std::string& key) {
  ParsedKey parsed;
  const size_t slash = key.find('/');
  if (slash == std::string::npos) return Damaged("key '" + key + "'");
  parsed.kind = key.substr(0, slash);
  parsed.text = key.substr(slash + 1);
  if (parsed.kind == "dataset") return parsed;
  const size_t second = parsed.text.find('/');
  const std::string_view rest = parsed.text;
  if (!ParseHex(rest.substr(0, second), parsed.first)) return Damaged("key '" + key + "'");
  if (second != std::string::npos && !ParseHex(rest.substr(second + 1), parsed.second)) return Damaged("key '" + key + "'");
  return parsed;
}

std::string EncodeJob(const Job& job) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::StoredReplica>> replicas;
  for (const Replica& replica : job.replicas) replicas.push_back(fb::CreateStoredReplica(builder, Raw(replica.replica), Raw(replica.worker)));
  std::vector<flatbuffers::Offset<fb::StoredSteps>> steps;
  for (const auto& [epoch, count] : job.steps) steps.push_back(fb::CreateStoredSteps(builder, Raw(epoch), count));
  std::vector<flatbuffers::Offset<fb::StoredSeat>> vacated;
  for (const auto& [index, seat] : job.vacated) {
    vacated.push_back(fb::CreateStoredSeatDirect(builder, index, seat.name.c_str(), Raw(seat.epoch), seat.ended, seat.position.c_str(),
                                                 seat.came.batches, seat.came.tag, seat.came.began, Raw(seat.left)));
  }
  const std::vector<uint32_t> delivered(job.delivered.begin(), job.delivered.end());
  const std::vector<uint32_t> seated(job.seated.begin(), job.seated.end());
  return Finish(
      builder, fb::CreateStoredJobDirect(builder, job.name.c_str(), job.anonymous, job.dataset.c_str(), static_cast<uint8_t>(job.mode), job.seed,
                                         job.epochs, job.consumers, Raw(job.generation), Raw(job.first_open), &replicas, job.next_replica,
                                         job.redelivered, job.dropped, static_cast<uint8_t>(job.even), static_cast<uint8_t>(job.on_death), job.places,
                                         job.started, &delivered, &steps, &vacated, &seated));
}

Result<Job> DecodeJob(JobId id, std::string_view bytes) {
  const auto* table = Open<fb::StoredJob>(bytes);
  if (table == nullptr || table->mode() > static_cast<uint8_t>(Mode::kSharded) || table->even() > static_cast<uint8_t>(Even::kUneven) ||
      table->on_death() > static_cast<uint8_t>(OnDeath::kRedeliver)) {
    return Damaged("job");
  }
  Job job;
  job.id = id;
  job.name = Text(table->name());
  job.anonymous = table->anonymous();
  job.dataset = Text(table->dataset());
  job.mode = static_cast<Mode>(table->mode());
  job.seed = table->seed();
  job.epochs = table->epochs();
  job.consumers = table->consumers();
  job.generation = Generation{table->generation()};
  job.first_open = Epoch{table->first_open()};
  Each(table->replicas(), [&](const fb::StoredReplica& r) { job.replicas.push_back({ReplicaId{r.replica()}, WorkerId{r.worker()}}); });
  job.next_replica = table->next_replica();
  job.redelivered = table->redelivered();
  job.dropped = table->dropped();
  job.even = static_cast<Even>(table->even());
  job.on_death = static_cast<OnDeath>(table->on_death());
  job.places = table->places();
  job.started = table->started();
  Each(table->steps(), [&](const fb::StoredSteps& s) { job.steps[Epoch{s.epoch()}] = s.steps(); });
  Each(table->vacated(), [&](const fb::StoredSeat& s) {
    job.vacated[s.index()] = {Text(s.name()),          Epoch{s.epoch()}, s.ended(), Text(s.position()), {s.batches(), s.tag(), s.began()},
                              ConsumerId{s.consumer()}};
  });
  if (table->delivered() != nullptr) job.delivered.insert(table->delivered()->begin(), table->delivered()->end());
  if (table->seated() != nullptr) job.seated.insert(table->seated()->begin(), table->seated()->end());
  return job;
}

std::string EncodeInputs(const msg::Inputs& inputs) { return EncodeMessage(inputs); }

Result<msg::Inputs> DecodeInputs(std::string_view bytes) {
  Result<Message> message = DecodeMessage(std::as_bytes(std::span(bytes)));
  if (!message.ok()) return Damaged("list of inputs").Prefixed(message.status().message());
  auto* inputs = std::get_if<msg::Inputs>(&*message);
  if (inputs == nullptr) return Damaged("list of inputs");
  return std::move(*inputs);
}

std::string EncodeEpoch(const EpochState& state) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::StoredReplicaState>> replicas;
  for (const ReplicaState& replica : state.replicas()) {
    std::vector<flatbuffers::Offset<fb::StoredRangedLane>> ranged;
    for (const RangedLane& lane : replica.ranged) ranged.push_back(fb::CreateStoredRangedLane(builder, lane.next, lane.ended));
    replicas.push_back(
        fb::CreateStoredReplicaStateDirect(builder, Raw(replica.replica), Raw(replica.worker), replica.dropped, replica.watermark, &ranged));
  }
  std::vector<flatbuffers::Offset<fb::StoredPiece>> pool;
  for (const auto& [place, piece] : state.pool()) {
    pool.push_back(fb::CreateStoredPiece(builder, Raw(piece.lane.replica), Raw(piece.lane.lane), piece.from.seq, piece.from.child, piece.to,
                                         Raw(piece.fence), static_cast<uint8_t>(piece.origin), piece.doubts, piece.last_children));
  }
  return Finish(builder, fb::CreateStoredEpochDirect(builder, &replicas, &pool));
}

Result<EpochState> DecodeEpoch(Epoch epoch, EpochShape shape, std::string_view bytes) {
  const auto* table = Open<fb::StoredEpoch>(bytes);
  if (table == nullptr) return Damaged("epoch");
  EpochState state(epoch, shape);
  bool fits = true;
  Each(table->replicas(), [&](const fb::StoredReplicaState& r) {
    ReplicaState replica{ReplicaId{r.replica()}, WorkerId{r.worker()}, r.dropped(), r.watermark(), {}};
    Each(r.ranged(), [&](const fb::StoredRangedLane& lane) { replica.ranged.push_back({lane.next(), lane.ended()}); });
    fits = fits && replica.watermark <= shape.lanes && replica.ranged.size() == (shape.range_rows > 0 ? shape.lanes : 0);
    state.RestoreReplica(std::move(replica));
  });
  Each(table->pool(), [&](const fb::StoredPiece& p) {
    state.RestorePiece({.lane = {epoch, ReplicaId{p.replica()}, LaneId{p.lane()}},
                        .from = {p.from_seq(), p.from_child()},
                        .to = p.to_seq(),
                        .fence = Fence{p.fence()},
                        .origin = p.origin() == 0 ? Origin::kKept : Origin::kBroken,
                        .doubts = p.doubts(),
                        .last_children = p.last_children()});
  });
  if (!fits) return Damaged("epoch");
  return state;
}

std::string EncodeMember(const Job& job, const Consumer& consumer) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::StoredGrant>> grants;
  for (const auto& [epoch, state] : job.open) {
    const EpochState::Holder* holder = state.Find(consumer.id);
    if (holder == nullptr) continue;
    for (const auto& [name, held] : *holder) {
      grants.push_back(fb::CreateStoredGrant(builder, Raw(epoch), Raw(name.lane.replica), Raw(name.lane.lane), held.from.seq, held.from.child,
                                             held.to, Raw(name.fence), Raw(held.worker), held.doubts, held.stored.seq, held.stored.child,
                                             held.last_children));
    }
  }
  return Finish(builder,
                fb::CreateStoredConsumerDirect(builder, Raw(consumer.id), consumer.index, consumer.name.c_str(), Raw(consumer.epoch), consumer.ended,
                                               consumer.expired, &grants, consumer.undecided, consumer.declared, consumer.attempt, consumer.places,
                                               static_cast<uint8_t>(consumer.on_restart), consumer.position.c_str(), consumer.before.batches,
                                               consumer.before.tag, consumer.stored.batches, consumer.stored.tag, consumer.stored.began));
}

Result<StoredMember> DecodeMember(std::string_view bytes) {
  const auto* table = Open<fb::StoredConsumer>(bytes);
  if (table == nullptr || table->on_restart() > static_cast<uint8_t>(OnRestart::kRestart)) return Damaged("consumer");
  StoredMember member;
  member.consumer.id = ConsumerId{table->consumer()};
  member.consumer.index = table->index();
  member.consumer.name = Text(table->name());
  member.consumer.epoch = Epoch{table->epoch()};
  member.consumer.ended = table->ended();
  member.consumer.expired = table->expired();
  member.consumer.undecided = table->undecided();
  member.consumer.declared = table->declared();
  member.consumer.attempt = table->attempt();
  member.consumer.places = table->places();
  member.consumer.on_restart = static_cast<OnRestart>(table->on_restart());
  member.consumer.position = Text(table->position());
  member.consumer.before = {table->batches_before(), table->tag_before(), table->began()};
  member.consumer.came = member.consumer.stored = {table->batches(), table->tag(), table->began()};
  Each(table->grants(), [&](const fb::StoredGrant& g) {
    const Epoch epoch{g.epoch()};
    const Cursor from{g.from_seq(), g.from_child()};
    const Cursor asked = std::max(from, Cursor{g.asked_seq(), g.asked_child()});
    member.grants.push_back({.epoch = epoch,
                             .name = {{epoch, ReplicaId{g.replica()}, LaneId{g.lane()}}, from, Fence{g.fence()}},
                             .held = {.from = from,
                                      .to = g.to_seq(),
                                      .worker = WorkerId{g.worker()},
                                      .doubts = g.doubts(),
                                      .last_children = g.last_children(),
                                      .stored = asked,
                                      .asked = asked}});
  });
  return member;
}

std::string EncodeTombstone(const Tombstone& tombstone) {
  flatbuffers::FlatBufferBuilder builder;
  return Finish(builder, fb::CreateStoredTombstoneDirect(builder, Raw(tombstone.job), tombstone.name.c_str(), tombstone.dataset.c_str(),
                                                         tombstone.outcome.c_str()));
}

Result<Tombstone> DecodeTombstone(uint64_t ordinal, std::string_view bytes) {
  const auto* table = Open<fb::StoredTombstone>(bytes);
  if (table == nullptr) return Damaged("tombstone");
  return Tombstone{ordinal, JobId{table->job()}, Text(table->name()), Text(table->dataset()), Text(table->outcome())};
}

}  // namespace penstock::dispatcher
