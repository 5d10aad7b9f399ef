#include "plan/difference.h"

#include <algorithm>

#include "plan/attrs.h"

namespace penstock {
namespace {

constexpr size_t kShown = 60;  // of a value's letters

std::string Short(std::string text) {
  if (text.size() <= kShown) return text;
  return text.substr(0, kShown) + "…";
}

struct ValueWords {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return "'" + value + "'"; }
  std::string operator()(const Bytes& value) const { return std::to_string(value == nullptr ? 0 : value->size()) + " bytes"; }
  std::string operator()(const std::vector<AttrMap>& value) const { return std::to_string(value.size()) + " entries"; }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text;
    for (const T& value : values) text += (text.empty() ? "" : ", ") + (*this)(value);
    return "[" + text + "]";
  }
};

std::string WordsOf(const AttrValue* value) { return value == nullptr ? "nothing" : Short(std::visit(ValueWords{}, *value)); }

struct Sides {
  const std::string& first;
  const std::string& second;
  std::string Say(const std::string& what, const std::string& a, const std::string& b) const {
    if (a == b) return what + " of another content (" + a + ") " + first + " than " + second;
    return what + " " + a + " " + first + " and " + b + " " + second;
  }
};

std::string AttrDifference(const AttrMap& a, const AttrMap& b, const Sides& sides);

// Within lists of maps (features, columns) the entry that differs is what one looks for.
std::string ValueDifference(const std::string& name, const AttrValue* a, const AttrValue* b, const Sides& sides) {
  if (a == nullptr || b == nullptr) return sides.Say(name, WordsOf(a), WordsOf(b));
  const auto* maps = std::get_if<std::vector<AttrMap>>(a);
  const auto* others = std::get_if<std::vector<AttrMap>>(b);
  if (maps == nullptr || others == nullptr) return SameAttr(*a, *b) ? "" : sides.Say(name, WordsOf(a), WordsOf(b));
  if (maps->size() != others->size()) return sides.Say(name, WordsOf(a), WordsOf(b));
  for (size_t i = 0; i < maps->size(); ++i) {
    const std::string inner = AttrDifference((*maps)[i], (*others)[i], sides);
    if (!inner.empty()) return name + "[" + std::to_string(i) + "]." + inner;
  }
  return "";
}

std::string AttrDifference(const AttrMap& a, const AttrMap& b, const Sides& sides) {
  for (const Attr& attr : a.items) {
    if (HasDigest(a, attr.name) && HasDigest(b, attr.name)) continue;
    const std::string differs = ValueDifference(attr.name, &attr.value, b.Find(attr.name), sides);
    if (!differs.empty()) return differs;
  }
  for (const Attr& attr : b.items) {
    if (a.Find(attr.name) == nullptr) return ValueDifference(attr.name, nullptr, &attr.value, sides);
  }
  return "";
}

}  // namespace

std::string Difference(const Plan& a, const Plan& b, const std::string& first, const std::string& second) {
  const Sides sides{first, second};
  for (size_t i = 0; i < std::min(a.nodes.size(), b.nodes.size()); ++i) {
    const PlanNode& one = a.nodes[i];
    const PlanNode& other = b.nodes[i];
    const std::string which = "operator " + std::to_string(i + 1);
    if (one.op != other.op) return sides.Say(which + " is", one.op, other.op);
    if (one.inputs != other.inputs) return which + " (" + one.op + ") has other inputs " + first + " than " + second;
    const std::string differs = AttrDifference(one.attrs, other.attrs, sides);
    if (!differs.empty()) return which + " (" + one.op + ") has " + differs;
  }
  if (a.nodes.size() == b.nodes.size()) return "";
  const bool longer = a.nodes.size() > b.nodes.size();
  const std::string& op = (longer ? a : b).nodes[std::min(a.nodes.size(), b.nodes.size())].op;
  return op + " is only " + (longer ? first : second);
}

}  // namespace penstock
