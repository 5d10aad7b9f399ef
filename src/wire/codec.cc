#include "wire/codec.h"

#include <type_traits>

#include "wire/codec_parts.h"

namespace penstock {
namespace {

static_assert(std::variant_size_v<Message> == static_cast<size_t>(fb::Body::MAX), "messages.h and schema/wire.fbs name the same messages");

constexpr flatbuffers::uoffset_t kMaxDepth = 64;
constexpr flatbuffers::uoffset_t kMaxTables = 16'000'000;

template <class T>
flatbuffers::Offset<fb::Message> Wrap(codec::Builder& b, flatbuffers::Offset<T> body) {
  return fb::CreateMessage(b, fb::BodyTraits<T>::enum_value, body.Union());
}

template <class T, class F>
Result<Message> Taken(const F& in) {
  T message;
  PENSTOCK_TRY(codec::TakeBody(in, message));
  return Message(std::move(message));
}

}  // namespace

std::string EncodeMessage(const Message& message) {
  codec::Builder b(1024);
  const auto root = std::visit([&](const auto& body) { return Wrap(b, codec::PutBody(b, body)); }, message);
  b.Finish(root);
  return {reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()};
}

Result<Message> DecodeMessage(std::span<const std::byte> bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), kMaxDepth, kMaxTables);
  if (bytes.empty() || !verifier.VerifyBuffer<fb::Message>(nullptr)) return Status(Code::kData, "a control frame whose body is no message");
  const auto* root = flatbuffers::GetRoot<fb::Message>(bytes.data());
  if (root->body() == nullptr) return codec::Missing("body");
  switch (root->body_type()) {
#define PENSTOCK_CASE(Name) \
  case fb::Body::Name: return Taken<msg::Name>(*root->body_as_##Name());
    PENSTOCK_MESSAGES(PENSTOCK_CASE)
#undef PENSTOCK_CASE
    case fb::Body::NONE: break;
  }
  return Status(Code::kMismatch,
                "an unknown message number " + std::to_string(static_cast<unsigned>(root->body_type())) + "; the peer may be of a newer version");
}

std::string_view MessageName(const Message& message) { return fb::EnumNamesBody()[message.index() + 1]; }

}  // namespace penstock
