#include "plan/attrs.h"

#include <algorithm>

namespace penstock {
namespace {

// Names of AttrValue's alternatives, in their order.
constexpr std::string_view kKinds[] = {"a bool", "an int",        "a float", "a string", "a list of ints", "a list of floats", "a list of strings",
                                       "bytes",  "a list of maps"};
static_assert(std::size(kKinds) == std::variant_size_v<AttrValue>);

template <class T, size_t I = 0>
constexpr std::string_view KindOf() {
  if constexpr (std::is_same_v<T, std::variant_alternative_t<I, AttrValue>>) {
    return kKinds[I];
  } else {
    return KindOf<T, I + 1>();
  }
}

// What the caller of another language may have meant: ints are floats, an empty list has no type of its own.
template <class T>
bool Convert(const AttrValue& value, T& out) {
  if (const T* exact = std::get_if<T>(&value)) {
    out = *exact;
    return true;
  }
  const auto* ints = std::get_if<std::vector<int64_t>>(&value);
  if constexpr (std::is_same_v<T, double>) {
    const auto* number = std::get_if<int64_t>(&value);
    if (number != nullptr) out = static_cast<double>(*number);
    return number != nullptr;
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    if (ints != nullptr) out.assign(ints->begin(), ints->end());
    return ints != nullptr;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return ints != nullptr && ints->empty();
  }
  return false;
}

}  // namespace

const AttrValue* AttrReader::Ask(std::string_view name) {
  if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) asked_.push_back(name);
  return attrs_.Find(name);
}

template <class T>
Result<T> AttrReader::Get(std::string_view name) {
  const AttrValue* value = Ask(name);
  if (value == nullptr) {
    return Status(Code::kInvalid, who_ + " needs the attribute '" + std::string(name) + "' (" + std::string(KindOf<T>()) + ")");
  }
  T out{};
  if (!Convert(*value, out)) return Bad(name, "must be " + std::string(KindOf<T>()) + ", not " + std::string(kKinds[value->index()]));
  return out;
}

Result<bool> AttrReader::Bool(std::string_view name) { return Get<bool>(name); }
Result<int64_t> AttrReader::Int(std::string_view name) { return Get<int64_t>(name); }
Result<double> AttrReader::Float(std::string_view name) { return Get<double>(name); }
Result<std::string> AttrReader::String(std::string_view name) { return Get<std::string>(name); }
Result<std::vector<int64_t>> AttrReader::Ints(std::string_view name) { return Get<std::vector<int64_t>>(name); }
Result<std::vector<double>> AttrReader::Floats(std::string_view name) { return Get<std::vector<double>>(name); }
Result<std::vector<std::string>> AttrReader::Strings(std::string_view name) { return Get<std::vector<std::string>>(name); }
Result<Bytes> AttrReader::Blob(std::string_view name) { return Get<Bytes>(name); }

Result<bool> AttrReader::Bool(std::string_view name, bool otherwise) { return Ask(name) != nullptr ? Bool(name) : otherwise; }
Result<int64_t> AttrReader::Int(std::string_view name, int64_t otherwise) { return Ask(name) != nullptr ? Int(name) : otherwise; }
Result<double> AttrReader::Float(std::string_view name, double otherwise) { return Ask(name) != nullptr ? Float(name) : otherwise; }
Result<std::string> AttrReader::String(std::string_view name, std::string otherwise) {
  return Ask(name) != nullptr ? String(name) : Result<std::string>(std::move(otherwise));
}
Result<std::vector<int64_t>> AttrReader::Ints(std::string_view name, std::vector<int64_t> otherwise) {
  return Ask(name) != nullptr ? Ints(name) : Result<std::vector<int64_t>>(std::move(otherwise));
}
Result<std::vector<std::string>> AttrReader::Strings(std::string_view name, std::vector<std::string> otherwise) {
  return Ask(name) != nullptr ? Strings(name) : Result<std::vector<std::string>>(std::move(otherwise));
}

Result<int64_t> AttrReader::IntFrom(std::string_view name, int64_t min) {
  PENSTOCK_ASSIGN(const int64_t value, Int(name));
  if (value < min) return Bad(name, "must be at least " + std::to_string(min) + ", not " + std::to_string(value));
  return value;
}
Result<int64_t> AttrReader::IntFrom(std::string_view name, int64_t min, int64_t otherwise) {
  return Ask(name) != nullptr ? IntFrom(name, min) : otherwise;
}

Result<const std::vector<AttrMap>*> AttrReader::Maps(std::string_view name) {
  const AttrValue* value = Ask(name);
  const auto* maps = value == nullptr ? nullptr : std::get_if<std::vector<AttrMap>>(value);
  if (value == nullptr) return Status(Code::kInvalid, who_ + " needs the attribute '" + std::string(name) + "' (a list of maps)");
  if (maps == nullptr) return Bad(name, "must be a list of maps, not " + std::string(kKinds[value->index()]));
  return maps;
}

Status AttrReader::Done() const {
  for (const Attr& attr : attrs_.items) {
    if (std::find(asked_.begin(), asked_.end(), attr.name) != asked_.end()) continue;
    std::string known;
    for (std::string_view name : asked_) known += (known.empty() ? "" : ", ") + std::string(name);
    return Status(Code::kInvalid, who_ + " has no attribute '" + attr.name + "'; it has " + (known.empty() ? "none" : known));
  }
  return {};
}

Status AttrReader::Bad(std::string_view name, std::string_view what) const {
  return Status(Code::kInvalid, who_ + ": attribute '" + std::string(name) + "' " + std::string(what));
}

}  // namespace penstock
