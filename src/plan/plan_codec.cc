#include <bit>
#include <cstring>

#include "base/constants.h"
#include "penstock/plan.h"
#include "plan/check.h"
#include "plan/flat.h"
#include "plan_generated.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors are copied as FlatBuffers stores them");

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

Offset<flatbuffers::Vector<uint8_t>> WriteBytes(FlatBufferBuilder& out, const std::string& bytes) {
  return out.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

Offset<flatbuffers::Vector<Offset<fb::AttrItem>>> WriteAttrs(FlatBufferBuilder& out, const AttrMap& attrs);

struct UnionWriter {
  FlatBufferBuilder& out;
  using Written = std::pair<fb::AttrUnion, Offset<void>>;

  Written operator()(bool value) const { return {fb::AttrUnion::BoolValue, fb::CreateBoolValue(out, value).Union()}; }
  Written operator()(int64_t value) const { return {fb::AttrUnion::IntValue, fb::CreateIntValue(out, value).Union()}; }
  Written operator()(double value) const { return {fb::AttrUnion::FloatValue, fb::CreateFloatValue(out, value).Union()}; }
  Written operator()(const std::string& value) const {
    return {fb::AttrUnion::StringValue, fb::CreateStringValue(out, WriteBytes(out, value)).Union()};
  }
  Written operator()(const std::vector<int64_t>& value) const {
    return {fb::AttrUnion::IntsValue, fb::CreateIntsValue(out, out.CreateVector(value)).Union()};
  }
  Written operator()(const std::vector<double>& value) const {
    return {fb::AttrUnion::FloatsValue, fb::CreateFloatsValue(out, out.CreateVector(value)).Union()};
  }
  Written operator()(const std::vector<std::string>& value) const {
    std::vector<Offset<fb::StringValue>> strings;
    for (const std::string& text : value) strings.push_back(fb::CreateStringValue(out, WriteBytes(out, text)));
    return {fb::AttrUnion::StringsValue, fb::CreateStringsValue(out, out.CreateVector(strings)).Union()};
  }
  Written operator()(const Bytes& value) const {
    return {fb::AttrUnion::BytesValue, fb::CreateBytesValue(out, WriteBytes(out, value == nullptr ? std::string() : *value)).Union()};
  }
  Written operator()(const std::vector<AttrMap>& value) const {
    std::vector<Offset<fb::MapValue>> maps;
    for (const AttrMap& map : value) maps.push_back(fb::CreateMapValue(out, WriteAttrs(out, map)));
    return {fb::AttrUnion::MapsValue, fb::CreateMapsValue(out, out.CreateVector(maps)).Union()};
  }
};

Offset<flatbuffers::Vector<Offset<fb::AttrItem>>> WriteAttrs(FlatBufferBuilder& out, const AttrMap& attrs) {
  std::vector<Offset<fb::AttrItem>> items;
  for (const Attr& attr : attrs.items) {
    const auto [type, value] = std::visit(UnionWriter{out}, attr.value);
    items.push_back(fb::CreateAttrItem(out, out.CreateString(attr.name), type, value));
  }
  return out.CreateVector(items);
}

// Turns verified tables into values, within the copy budget.
class PlanReader {
 public:
  explicit PlanReader(size_t bytes) : budget_(bytes) {}

  Result<Plan> Read(const fb::PlanTable& table) {
    Plan plan;
    if (table.nodes() == nullptr) return plan;
    for (const fb::Node* node : *table.nodes()) {
      PlanNode out;
      PENSTOCK_ASSIGN(out.op, Text(node->op()));
      PENSTOCK_ASSIGN(out.inputs, Numbers<uint32_t>(node->inputs()));
      PENSTOCK_ASSIGN(out.attrs, Attrs(node->attrs()));
      plan.nodes.push_back(std::move(out));
    }
    return plan;
  }

 private:
  Result<std::string> Text(const flatbuffers::String* text) {
    if (text == nullptr) return std::string();
    PENSTOCK_TRY(budget_.Take(text->size()));
    return text->str();
  }
  Result<std::string> Text(const flatbuffers::Vector<uint8_t>* bytes) {
    if (bytes == nullptr) return std::string();
    PENSTOCK_TRY(budget_.Take(bytes->size()));
    return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  template <class T>
  Result<std::vector<T>> Numbers(const flatbuffers::Vector<T>* numbers) {
    if (numbers == nullptr) return std::vector<T>();
    PENSTOCK_TRY(budget_.Take(numbers->size() * sizeof(T)));
    // The verifier checks where a vector begins, not that its elements are aligned: they are copied, not read in place.
    std::vector<T> values(numbers->size());
    if (!values.empty()) std::memcpy(values.data(), numbers->Data(), values.size() * sizeof(T));
    return values;
  }
  Result<std::vector<std::string>> Strings(const fb::StringsValue& table) {
    std::vector<std::string> strings;
    if (table.value() == nullptr) return strings;
    for (const fb::StringValue* value : *table.value()) {
      PENSTOCK_ASSIGN(std::string text, Text(value->value()));
      strings.push_back(std::move(text));
    }
    return strings;
  }
  Result<std::vector<AttrMap>> Maps(const fb::MapsValue& table) {
    std::vector<AttrMap> maps;
    if (table.value() == nullptr) return maps;
    for (const fb::MapValue* value : *table.value()) {
      PENSTOCK_ASSIGN(AttrMap map, Attrs(value->items()));
      maps.push_back(std::move(map));
    }
    return maps;
  }
  template <class T>
  static Result<AttrValue> Wrap(Result<T> result) {
    if (!result.ok()) return result.status();
    return AttrValue(std::move(result).value());
  }
  Result<AttrValue> Value(const fb::AttrItem& item) {
    switch (item.value() == nullptr ? fb::AttrUnion::NONE : item.value_type()) {
      case fb::AttrUnion::BoolValue: return AttrValue(item.value_as_BoolValue()->value());
      case fb::AttrUnion::IntValue: return AttrValue(item.value_as_IntValue()->value());
      case fb::AttrUnion::FloatValue: return AttrValue(item.value_as_FloatValue()->value());
      case fb::AttrUnion::StringValue: return Wrap(Text(item.value_as_StringValue()->value()));
      case fb::AttrUnion::IntsValue: return Wrap(Numbers<int64_t>(item.value_as_IntsValue()->value()));
      case fb::AttrUnion::FloatsValue: return Wrap(Numbers<double>(item.value_as_FloatsValue()->value()));
      case fb::AttrUnion::StringsValue: return Wrap(Strings(*item.value_as_StringsValue()));
      case fb::AttrUnion::BytesValue: {
        PENSTOCK_ASSIGN(std::string bytes, Text(item.value_as_BytesValue()->value()));
        return AttrValue(std::make_shared<const std::string>(std::move(bytes)));
      }
      case fb::AttrUnion::MapsValue: return Wrap(Maps(*item.value_as_MapsValue()));
      default: return Status(Code::kInvalid, "an attribute has a value of unknown kind: the plan was made by a newer version of penstock");
    }
  }
  Result<AttrMap> Attrs(const flatbuffers::Vector<Offset<fb::AttrItem>>* items) {
    AttrMap attrs;
    if (items == nullptr) return attrs;
    for (const fb::AttrItem* item : *items) {
      PENSTOCK_ASSIGN(std::string name, Text(item->name()));
      PENSTOCK_ASSIGN(AttrValue value, Value(*item));
      attrs.items.push_back({std::move(name), std::move(value)});
    }
    return attrs;
  }

  CopyBudget budget_;
};

}  // namespace

std::string SerializePlan(const Plan& plan) {
  FlatBufferBuilder out;
  std::vector<Offset<fb::Node>> nodes;
  for (const PlanNode& node : plan.nodes) {
    const auto op = out.CreateString(node.op);
    const auto inputs = out.CreateVector(node.inputs);
    nodes.push_back(fb::CreateNode(out, op, inputs, WriteAttrs(out, node.attrs)));
  }
  out.Finish(fb::CreatePlanTable(out, out.CreateVector(nodes)));
  return {reinterpret_cast<const char*>(out.GetBufferPointer()), out.GetSize()};
}

Result<Plan> ParsePlan(std::string_view bytes) {
  if (bytes.size() > kMaxControlBody) {
    return Status(Code::kTooLarge, "a plan of " + std::to_string(bytes.size()) + " bytes is over the cap of " + std::to_string(kMaxControlBody) +
                                       ": put large arrays into files");
  }
  const AlignedBytes aligned(bytes);
  flatbuffers::Verifier verifier = MakeVerifier(aligned);
  if (!verifier.VerifyBuffer<fb::PlanTable>(nullptr)) return Status(Code::kInvalid, "the plan's bytes are damaged or not a plan");
  auto plan = PlanReader(bytes.size()).Read(*flatbuffers::GetRoot<fb::PlanTable>(aligned.data()));
  if (!plan.ok()) return plan.status().Prefixed("invalid plan");
  PENSTOCK_TRY(CheckGraph(*plan));
  return plan;
}

}  // namespace penstock
