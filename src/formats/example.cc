#include "formats/example.h"

#include <algorithm>
#include <cstring>

#include "formats/example_lists.h"
#include "formats/protobuf_wire.h"

namespace penstock {
namespace {

constexpr size_t kNoField = ~size_t{0};
constexpr size_t kMaxSeen = 4096;  // positions that are remembered

// The field number of a dtype's list in tf.Feature.
uint64_t KindOf(DType dtype) { return dtype == DType::kString ? 1 : dtype == DType::kFloat32 ? 2 : 3; }
std::string_view KindName(uint64_t kind) { return kind == 1 ? "string" : kind == 2 ? "float32" : "int64"; }

std::string Describe(const FeatureSpec& feature) { return ToString(LeafSpec(feature.dtype, feature.shape)); }

Status Bad(const FeatureSpec& feature, std::string message, std::string found) {
  return Status(Code::kData, "feature '" + feature.name + "' " + std::move(message))
      .With("feature", feature.name)
      .With("expected", Describe(feature))
      .With("found", std::move(found));
}

// One value for all, or one each.
template <class T>
Status TakeDefault(const FeatureSpec& feature, uint64_t values, std::vector<T>& out) {
  const auto* given = std::get_if<std::vector<T>>(&*feature.default_value);
  if (given == nullptr)
    return Status(Code::kInvalid, "the default of feature '" + feature.name + "' is not of its dtype, " + std::string(Name(feature.dtype)));
  if (given->size() != 1 && given->size() != values) {
    return Status(Code::kInvalid, "the default of feature '" + feature.name + "' has " + std::to_string(given->size()) + " values; its shape " +
                                      Describe(feature) + " takes " + std::to_string(values) + ", or one for all");
  }
  out = *given;
  return {};
}

// Spread only now: a plan may ask for many values with few bytes.
template <class T>
void AppendDefault(const std::vector<T>& given, uint64_t values, Column& out) {
  std::byte* to = out.ExtendValues(values * sizeof(T));
  if (given.size() == values) return CopyValues(to, given.data(), values * sizeof(T));
  for (uint64_t i = 0; i < values; ++i) std::memcpy(to + i * sizeof(T), given.data(), sizeof(T));
}

// tf.Feature: which list it has, and the list's bytes. Kind 0: none.
bool ReadFeature(std::string_view bytes, uint64_t& kind, std::string_view& list) {
  WireReader wire(bytes);
  kind = 0;
  while (!wire.done()) {
    WireTag tag;
    if (!wire.Tag(tag)) return false;
    if (tag.type == WireType::kBytes && tag.field <= 3) {
      if (!wire.Bytes(list)) return false;
      kind = tag.field;
    } else if (!wire.Skip(tag.type)) {
      return false;
    }
  }
  return true;
}

// Records come out of shuffle buffers from all over the memory.
void Prefetch(std::string_view record) {
  constexpr size_t kLine = 64;
  constexpr size_t kAhead = 8 * kLine;  // what follows, the processor fetches by itself
  for (size_t at = 0; at < std::min(record.size(), kAhead); at += kLine) __builtin_prefetch(record.data() + at);
}

// Room for all rows at once, unless the plan says that they are much larger than the records can be.
void ExpectRows(std::span<const std::string_view> records, std::span<Column* const> out) {
  uint64_t bytes = 0;
  for (const std::string_view record : records) bytes += record.size();
  for (Column* column : out) {
    if (column->shape().fan[0] * records.size() <= bytes * sizeof(int64_t)) column->Expect(records.size());
  }
}

// An entry of the map: string key = 1, Feature value = 2.
bool ReadEntry(std::string_view bytes, std::string_view& name, std::string_view& feature) {
  WireReader wire(bytes);
  while (!wire.done()) {
    WireTag tag;
    if (!wire.Tag(tag)) return false;
    const bool known = tag.type == WireType::kBytes && tag.field <= 2;
    if (!(known ? wire.Bytes(tag.field == 1 ? name : feature) : wire.Skip(tag.type))) return false;
  }
  return true;
}

// The same of an entry as writers make it: the key, then the value. False: it may be one of another form.
bool ReadPlainEntry(std::string_view bytes, std::string_view& name, std::string_view& feature) {
  WireReader wire(bytes);
  return wire.Expect(1, WireType::kBytes) && wire.Bytes(name) && wire.Expect(2, WireType::kBytes) && wire.Bytes(feature) && wire.done();
}

bool ReadPlainFeature(std::string_view bytes, uint64_t& kind, std::string_view& list) {
  WireReader wire(bytes);
  WireTag tag;
  if (!wire.Tag(tag) || tag.type != WireType::kBytes || tag.field > 3 || !wire.Bytes(list) || !wire.done()) return false;
  kind = tag.field;
  return true;
}

}  // namespace

Status ExampleParser::Compile(const FeatureSpec& feature, Field& field) {
  if (feature.dtype != DType::kFloat32 && feature.dtype != DType::kInt64 && feature.dtype != DType::kString) {
    return Status(Code::kInvalid,
                  "feature '" + feature.name + "' cannot be " + std::string(Name(feature.dtype)) + ": a tf.Example holds float32, int64 and string");
  }
  PENSTOCK_TRY(CheckSpec(LeafSpec(feature.dtype, feature.shape)));
  field.feature = feature;
  for (size_t i = 0; i < feature.shape.size(); ++i) {
    if (feature.shape[i] != kRagged) {
      field.values *= static_cast<uint64_t>(feature.shape[i]);
    } else if (i == 0) {
      field.ragged = true;
    } else {
      return Status(Code::kInvalid, "feature '" + feature.name + "' of shape " + Describe(feature) + ": only the first dimension can be ragged");
    }
  }
  field.dense = !field.ragged && feature.dtype != DType::kString;
  if (field.ragged && field.values == 0) return Status(Code::kInvalid, "feature '" + feature.name + "' is ragged over nothing: " + Describe(feature));
  if (!feature.default_value.has_value()) return {};
  if (field.ragged) return Status(Code::kInvalid, "feature '" + feature.name + "' is ragged: it is empty where it is missing and takes no default");
  switch (feature.dtype) {
    case DType::kFloat32: return TakeDefault(feature, field.values, field.default_floats);
    case DType::kInt64: return TakeDefault(feature, field.values, field.default_ints);
    default: return TakeDefault(feature, field.values, field.default_strings);
  }
}

Result<ExampleParser> ExampleParser::Create(std::vector<FeatureSpec> features) {
  ExampleParser parser;
  std::vector<ColumnSpec> columns;
  for (const FeatureSpec& feature : features) {
    Field field;
    PENSTOCK_TRY(Compile(feature, field));
    parser.by_name_.emplace(feature.name, parser.fields_.size());
    parser.fields_.push_back(std::move(field));
    columns.push_back({feature.name, feature.dtype, feature.shape});
  }
  Spec spec = DictSpec(std::move(columns));
  PENSTOCK_TRY(CheckSpec(spec));
  parser.spec_ = std::make_shared<const Spec>(std::move(spec));
  parser.found_.resize(parser.fields_.size());
  return parser;
}

Status ExampleParser::Parse(std::span<const std::string_view> records, Columns& out) {
  std::vector<Column*> columns;
  for (size_t i = 0; i < out.size(); ++i) columns.push_back(&out[i]);
  return Parse(records, columns);
}

Status ExampleParser::Parse(std::span<const std::string_view> records, std::span<Column* const> out) {
  const uint64_t before = out.empty() ? 0 : out.front()->rows();
  ExpectRows(records, out);
  for (size_t i = 0; i < records.size(); ++i) {
    if (i + 1 < records.size()) Prefetch(records[i + 1]);
    if (Status status = ParseRow(records[i], out); !status.ok()) {
      for (Column* column : out) column->Truncate(before + i);
      return std::move(status).With("row", std::to_string(i));
    }
  }
  return {};
}

Status ExampleParser::ParseRow(std::string_view record, std::span<Column* const> out) {
  if (!Locate(record)) {
    return Status(Code::kData,
                  "a record of " + std::to_string(record.size()) + " bytes is not a tf.Example: its Protocol Buffers encoding is damaged");
  }
  for (size_t i = 0; i < fields_.size(); ++i) {
    PENSTOCK_TRY(found_[i].kind == 0 ? AppendMissing(fields_[i], *out[i]) : Append(fields_[i], found_[i].list, found_[i].kind, *out[i]));
  }
  return {};
}

bool ExampleParser::Locate(std::string_view record) {
  std::fill(found_.begin(), found_.end(), Found{});
  position_ = 0;
  WireReader wire(record);
  while (!wire.done()) {
    WireTag tag;
    std::string_view features;
    if (!wire.Tag(tag)) return false;
    const bool known = tag.type == WireType::kBytes && tag.field == 1;
    if (!(known ? wire.Bytes(features) && LocateEntries(features) : wire.Skip(tag.type))) return false;
  }
  return true;
}

bool ExampleParser::LocateEntries(std::string_view features) {
  WireReader wire(features);
  while (!wire.done()) {
    WireTag tag;
    std::string_view entry;
    if (!wire.Tag(tag)) return false;
    if (tag.type != WireType::kBytes || tag.field != 1) {
      if (!wire.Skip(tag.type)) return false;
      continue;
    }
    std::string_view name;
    std::string_view feature;
    if (!wire.Bytes(entry) || !(ReadPlainEntry(entry, name, feature) || ReadEntry(entry, name, feature))) return false;
    const size_t field = FieldNamed(name);
    if (field == kNoField) continue;
    Found found;
    if (!ReadPlainFeature(feature, found.kind, found.list) && !ReadFeature(feature, found.kind, found.list)) return false;
    if (found.kind != 0) found_[field] = found;  // a feature without a list counts as missing
  }
  return true;
}

// Records of a file have their features in one order: the name is compared with the one that was here last time before it is looked up.
size_t ExampleParser::FieldNamed(std::string_view name) {
  const size_t position = position_++;
  if (position < seen_.size() && seen_[position].name == name) return seen_[position].field;
  const auto found = by_name_.find(name);
  const size_t field = found == by_name_.end() ? kNoField : found->second;
  if (position >= kMaxSeen) return field;
  if (position >= seen_.size()) seen_.resize(position + 1);
  seen_[position].name.assign(name);
  seen_[position].field = field;
  return field;
}

Status ExampleParser::Append(const Field& field, std::string_view list, uint64_t kind, Column& out) {
  const FeatureSpec& feature = field.feature;
  if (kind != KindOf(feature.dtype)) {
    const std::string found(KindName(kind));
    return Bad(feature, "has " + found + " values, expected " + Describe(feature), found);
  }
  const bool may_fit = field.values <= list.size();  // a value is a byte at least
  if (field.dense && may_fit) {
    std::byte* const to = out.AppendDense(1);
    if (ReadPacked(list, feature.dtype, field.values, to)) return {};
    out.Truncate(out.rows() - 1);
  }
  uint64_t count = 0;
  if (!CountValues(list, feature.dtype, count)) return Bad(feature, "is damaged: its list cannot be read", "damage");
  const bool fits = field.ragged ? count % field.values == 0 : count == field.values;
  if (!fits) {
    return Bad(feature,
               "has " + std::to_string(count) + " values, expected " + (field.ragged ? "a multiple of " : "") + std::to_string(field.values) + " (" +
                   Describe(feature) + ")",
               std::to_string(count) + " values");
  }
  if (field.ragged) out.PushOffset(0, count / field.values);
  const bool read = feature.dtype == DType::kFloat32 ? AppendFloats(list, count, out)
                    : feature.dtype == DType::kInt64 ? AppendInts(list, count, out)
                                                     : AppendStrings(list, field.ragged ? 1 : 0, out);
  if (!read) return Bad(feature, "is damaged: its list cannot be read", "damage");
  out.FinishRow();
  return {};
}

Status ExampleParser::AppendMissing(const Field& field, Column& out) {
  if (field.ragged) {
    out.PushOffset(0, 0);
  } else if (!field.feature.default_value.has_value()) {
    return Bad(field.feature, "is missing in the record, expected " + Describe(field.feature) + "; give it a default if records may lack it",
               "missing");
  } else if (field.feature.dtype == DType::kString) {
    for (uint64_t i = 0; i < field.values; ++i) {
      const std::string& text = field.default_strings[field.default_strings.size() == 1 ? 0 : i];
      out.PushOffset(0, text.size());
      CopyValues(out.ExtendValues(text.size()), text.data(), text.size());
    }
  } else if (field.feature.dtype == DType::kFloat32) {
    AppendDefault(field.default_floats, field.values, out);
  } else {
    AppendDefault(field.default_ints, field.values, out);
  }
  out.FinishRow();
  return {};
}

}  // namespace penstock
