// What the messages' translations share. Put writes into the builder; Take reads what the verifier has passed, and checks the rest.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "wire/messages.h"
#include "wire_generated.h"

namespace penstock::codec {

using Builder = flatbuffers::FlatBufferBuilder;
template <class T>
using Offset = flatbuffers::Offset<T>;
template <class T>
using VectorOf = flatbuffers::Vector<Offset<T>>;

inline std::string Text(const flatbuffers::String* text) { return text == nullptr ? std::string() : text->str(); }
inline std::string Blob(const flatbuffers::Vector<uint8_t>* bytes) {
  return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}
// The verifier does not check how the numbers of a vector are aligned: they are copied, never read in place.
template <class T>
std::vector<T> Numbers(const flatbuffers::Vector<T>* numbers) {
  if (numbers == nullptr || numbers->size() == 0) return {};
  std::vector<T> copy(numbers->size());
  std::memcpy(copy.data(), numbers->Data(), copy.size() * sizeof(T));
  return copy;
}
inline Offset<flatbuffers::Vector<uint8_t>> PutBlob(Builder& b, std::string_view bytes) {
  return b.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

Status Missing(std::string_view what);
Status OutOfRange(std::string_view what, uint64_t value);

// An enum whose values are 0 to `last`.
template <class E, class Raw>
Status TakeEnum(Raw raw, E last, std::string_view what, E& out) {
  if (static_cast<uint64_t>(raw) > static_cast<uint64_t>(last)) return OutOfRange(what, static_cast<uint64_t>(raw));
  out = static_cast<E>(raw);
  return {};
}
Status Take(fb::Mode in, Mode& out);
Status Take(fb::Even in, Even& out);

Offset<fb::ErrorInfo> Put(Builder& b, const Status& status);
Status Take(const fb::ErrorInfo* in, Status& out);  // none: ok
Offset<fb::Lane> Put(Builder& b, const LaneKey& lane);
Status Take(const fb::Lane* in, LaneKey& out);
Offset<fb::Range> Put(Builder& b, const msg::Range& range);
Status Take(const fb::Range* in, msg::Range& out);
Offset<fb::WorkerInfo> Put(Builder& b, const msg::WorkerInfo& info);
Status Take(const fb::WorkerInfo* in, msg::WorkerInfo& out);
Offset<fb::Layout> Put(Builder& b, const Layout& layout);
Status Take(const fb::Layout* in, Layout& out);
Offset<fb::Grant> Put(Builder& b, const msg::Grant& grant);
Status Take(const fb::Grant* in, msg::Grant& out);
Offset<fb::Hold> Put(Builder& b, const msg::Hold& hold);
Status Take(const fb::Hold* in, msg::Hold& out);
Offset<fb::FinishedGrant> Put(Builder& b, const msg::Finish& finish);
Status Take(const fb::FinishedGrant* in, msg::Finish& out);
Offset<fb::GroupInfo> Put(Builder& b, const msg::Group& group);
Status Take(const fb::GroupInfo* in, msg::Group& out);
Offset<fb::StatusJob> Put(Builder& b, const msg::StatusJob& job);
Status Take(const fb::StatusJob* in, msg::StatusJob& out);
Offset<fb::StatusWorker> Put(Builder& b, const msg::StatusWorker& worker);
Status Take(const fb::StatusWorker* in, msg::StatusWorker& out);

// Lists of whatever has a Put and a Take.
template <class T>
auto PutAll(Builder& b, const std::vector<T>& items) {
  std::vector<decltype(Put(b, items[0]))> offsets;
  offsets.reserve(items.size());
  for (const T& item : items) offsets.push_back(Put(b, item));
  return b.CreateVector(offsets);
}
template <class F, class T>
Status TakeAll(const VectorOf<F>* in, std::vector<T>& out) {
  if (in == nullptr) return {};
  out.resize(in->size());
  for (flatbuffers::uoffset_t i = 0; i < in->size(); ++i) PENSTOCK_TRY(Take(in->Get(i), out[i]));
  return {};
}

// Every message, by the name that it has in schema/wire.fbs and in messages.h.
// clang-format off
#define PENSTOCK_MESSAGES(X) \
  X(Hello) X(HelloReply) X(Failed) X(Done) X(Register) X(Registered) X(GetDataset) X(DatasetReply) X(Join) X(Joined) X(Beat) \
  X(BeatReply) X(Leave) X(WorkerHello) X(WorkerWelcome) X(WorkerBeat) X(WorkerBeatReply) X(ListInputs) X(Inputs) X(GetJob) \
  X(JobReply) X(Open) X(Credit) X(CloseLane) X(LaneEnded) X(LaneFailed) X(Refused) X(SegmentMade) X(SegmentGone) X(Draining) \
  X(StatusAsk) X(StatusReply) X(Restore) X(SavePosition) X(SavedPosition) X(PartAsk) X(PartReply) X(Groups) X(Take)
// clang-format on

#define PENSTOCK_DECLARE(Name)                                    \
  Offset<fb::Name> PutBody(Builder& b, const msg::Name& message); \
  Status TakeBody(const fb::Name& in, msg::Name& out);
PENSTOCK_MESSAGES(PENSTOCK_DECLARE)
#undef PENSTOCK_DECLARE

}  // namespace penstock::codec
