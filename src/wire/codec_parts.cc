#include "wire/codec_parts.h"

#include <utility>

namespace penstock::codec {

Status Missing(std::string_view what) { return Status(Code::kData, "a message without its " + std::string(what)); }
Status OutOfRange(std::string_view what, uint64_t value) {
  return Status(Code::kData, "a message with the unknown " + std::string(what) + " " + std::to_string(value));
}

Status Take(fb::Mode in, Mode& out) { return TakeEnum(in, Mode::kSharded, "mode", out); }
Status Take(fb::Even in, Even& out) { return TakeEnum(in, Even::kUneven, "even", out); }

Offset<fb::ErrorInfo> Put(Builder& b, const Status& status) {
  if (status.ok()) return 0;
  std::vector<Offset<fb::DetailInfo>> details;
  for (const Detail& detail : status.details()) details.push_back(fb::CreateDetailInfo(b, b.CreateString(detail.name), b.CreateString(detail.value)));
  const auto list = b.CreateVector(details);
  return fb::CreateErrorInfo(b, static_cast<uint8_t>(status.code()), b.CreateString(status.message()), list);
}

Status Take(const fb::ErrorInfo* in, Status& out) {
  out = Status();
  if (in == nullptr) return {};
  // A newer peer may know codes that this side does not: the message still says what happened.
  const Code code = in->code() > static_cast<uint8_t>(Code::kInternal) ? Code::kInternal : static_cast<Code>(in->code());
  if (code == Code::kOk) return Missing("error code");
  Status taken(code, Text(in->message()));
  if (in->details() != nullptr) {
    for (const fb::DetailInfo* detail : *in->details()) taken = std::move(taken).With(Text(detail->name()), Text(detail->value()));
  }
  out = std::move(taken);
  return {};
}

Offset<fb::Lane> Put(Builder& b, const LaneKey& lane) { return fb::CreateLane(b, Raw(lane.epoch), Raw(lane.replica), Raw(lane.lane)); }

Status Take(const fb::Lane* in, LaneKey& out) {
  if (in == nullptr) return Missing("lane");
  out = {Epoch{in->epoch()}, ReplicaId{in->replica()}, LaneId{in->lane()}};
  return {};
}

Offset<fb::Range> Put(Builder& b, const msg::Range& range) {
  const auto lane = Put(b, range.lane);
  return fb::CreateRange(b, lane, range.from.seq, range.from.child, range.to, range.last_children);
}

Status Take(const fb::Range* in, msg::Range& out) {
  if (in == nullptr) return Missing("range");
  out.from = {in->from_seq(), in->from_child()};
  out.to = in->to_seq();
  out.last_children = in->last_children();
  return Take(in->lane(), out.lane);
}

Offset<fb::WorkerInfo> Put(Builder& b, const msg::WorkerInfo& info) {
  const auto address = b.CreateString(info.address);
  const auto socket = b.CreateString(info.unix_socket);
  const auto boot_id = b.CreateString(info.boot_id);
  return fb::CreateWorkerInfo(b, Raw(info.worker), address, socket, boot_id, info.netns, info.draining);
}

Status Take(const fb::WorkerInfo* in, msg::WorkerInfo& out) {
  out = {WorkerId{in->worker()}, Text(in->address()), Text(in->unix_socket()), Text(in->boot_id()), in->netns(), in->draining()};
  return {};
}

namespace {

Offset<fb::StructureNode> PutStructure(Builder& b, const Structure& structure) {
  std::vector<Offset<fb::StructureNode>> children;
  for (const Structure& child : structure.children) children.push_back(PutStructure(b, child));
  const auto names = b.CreateVectorOfStrings(structure.names);
  return fb::CreateStructureNode(b, static_cast<uint8_t>(structure.kind), names, b.CreateVector(children));
}

// As deep as the verifier lets it be.
Status TakeStructure(const fb::StructureNode* in, Structure& out) {
  if (in == nullptr) return Missing("structure");
  PENSTOCK_TRY(TakeEnum(in->kind(), Structure::Kind::kTuple, "kind of structure", out.kind));
  if (in->names() != nullptr) {
    for (const auto* name : *in->names()) out.names.push_back(name->str());
  }
  if (in->children() == nullptr) return {};
  out.children.resize(in->children()->size());
  for (flatbuffers::uoffset_t i = 0; i < in->children()->size(); ++i) PENSTOCK_TRY(TakeStructure(in->children()->Get(i), out.children[i]));
  return {};
}

Offset<fb::SpecTable> PutSpec(Builder& b, const Spec& spec) {
  std::vector<Offset<fb::Column>> columns;
  for (const ColumnSpec& column : spec.columns) {
    const auto name = b.CreateString(column.name);
    columns.push_back(fb::CreateColumn(b, name, static_cast<uint8_t>(column.dtype), b.CreateVector(column.shape)));
  }
  const auto list = b.CreateVector(columns);
  return fb::CreateSpecTable(b, list, PutStructure(b, spec.structure));
}

Status TakeSpec(const fb::SpecTable* in, Spec& out) {
  if (in == nullptr) return Missing("spec");
  if (in->columns() == nullptr) return Missing("columns");
  for (const fb::Column* column : *in->columns()) {
    ColumnSpec& taken = out.columns.emplace_back();
    taken.name = Text(column->name());
    if (column->dtype() == 0) return Missing("dtype");
    PENSTOCK_TRY(TakeEnum(column->dtype(), DType::kString, "dtype", taken.dtype));
    taken.shape = Numbers(column->shape());
  }
  PENSTOCK_TRY(TakeStructure(in->structure(), out.structure));
  return CheckSpec(out);
}

}  // namespace

Offset<fb::Layout> Put(Builder& b, const Layout& layout) {
  const auto spec = PutSpec(b, layout.row_spec);
  return fb::CreateLayout(b, layout.lanes, layout.serial, layout.serial_range, layout.batch, layout.mix, layout.drop_remainder, spec, layout.pad,
                          static_cast<uint8_t>(layout.purity), layout.state_bytes);
}

Status Take(const fb::Layout* in, Layout& out) {
  constexpr uint64_t kMaxSerialRange = uint64_t{1} << 40;  // rows; so that sums of ranges never wrap
  if (in == nullptr) return Missing("layout");
  out.lanes = in->lanes();
  out.serial = in->serial();
  out.serial_range = in->serial_range();
  if (out.serial_range > kMaxSerialRange) return OutOfRange("serial_range", out.serial_range);
  out.batch = in->batch();
  out.mix = in->mix();
  if (out.mix == 0 || (out.batch != 0 && out.batch % out.mix != 0)) return OutOfRange("mix", out.mix);
  out.drop_remainder = in->drop_remainder();
  out.pad = in->pad();
  PENSTOCK_TRY(TakeEnum(in->purity(), Purity::kImpure, "purity", out.purity));
  out.state_bytes = in->state_bytes();
  return TakeSpec(in->row_spec(), out.row_spec);
}

}  // namespace penstock::codec
