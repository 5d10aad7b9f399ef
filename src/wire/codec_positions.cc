// Restoring and saving positions.
#include "wire/codec_parts.h"

namespace penstock::codec {

Offset<fb::Restore> PutBody(Builder& b, const msg::Restore& m) {
  const auto state = b.CreateString(m.state);
  return fb::CreateRestore(b, Raw(m.job), Raw(m.consumer), m.consumers, m.index, m.attempt, state, m.rebuild, Raw(m.generation));
}
Status TakeBody(const fb::Restore& in, msg::Restore& out) {
  out = {JobId{in.job()}, ConsumerId{in.consumer()}, in.consumers(), in.index(),
         in.attempt(),    Text(in.state()),          in.rebuild(),   Generation{in.generation()}};
  return {};
}

Offset<fb::SavePosition> PutBody(Builder& b, const msg::SavePosition& m) {
  const auto current = b.CreateString(m.current);
  const auto at_tag = b.CreateString(m.at_tag);
  return fb::CreateSavePosition(b, Raw(m.job), Raw(m.consumer), Raw(m.generation), m.tag, current, at_tag, m.timeout_ms);
}
Status TakeBody(const fb::SavePosition& in, msg::SavePosition& out) {
  out = {JobId{in.job()}, ConsumerId{in.consumer()}, Generation{in.generation()}, in.tag(), Text(in.current()), Text(in.at_tag()), in.timeout_ms()};
  return {};
}

Offset<fb::SavedPosition> PutBody(Builder& b, const msg::SavedPosition& m) { return fb::CreateSavedPosition(b, b.CreateString(m.position)); }
Status TakeBody(const fb::SavedPosition& in, msg::SavedPosition& out) {
  out.position = Text(in.position());
  return {};
}

Offset<fb::PartAsk> PutBody(Builder& b, const msg::PartAsk& m) { return fb::CreatePartAsk(b, Raw(m.job), m.gather, m.tag, m.now); }
Status TakeBody(const fb::PartAsk& in, msg::PartAsk& out) {
  out = {JobId{in.job()}, in.gather(), in.tag(), in.now()};
  return {};
}

Offset<fb::PartReply> PutBody(Builder& b, const msg::PartReply& m) {
  const auto current = b.CreateString(m.current);
  const auto at_tag = b.CreateString(m.at_tag);
  return fb::CreatePartReply(b, Raw(m.job), Raw(m.consumer), Raw(m.generation), m.gather, current, at_tag, Put(b, m.error));
}
Status TakeBody(const fb::PartReply& in, msg::PartReply& out) {
  out = {JobId{in.job()}, ConsumerId{in.consumer()}, Generation{in.generation()}, in.gather(), Text(in.current()), Text(in.at_tag()), {}};
  return Take(in.error(), out.error);
}

}  // namespace penstock::codec
