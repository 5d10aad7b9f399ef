#include "penstock/plan.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/sha256.h"
#include "plan/attrs.h"
#include "plan/check.h"

namespace penstock {
namespace {

bool SameAttrs(const AttrMap& a, const AttrMap& b) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [](const Attr& x, const Attr& y) { return x.name == y.name && SameAttr(x.value, y.value); });
}

// Stands for an input that is no node (of an empty plan, say). Building a plan cannot fail; CheckGraph refuses it later.
constexpr uint32_t kNoNode = std::numeric_limits<uint32_t>::max();

// The index of an equal node, which is added if there is none.
uint32_t Place(std::vector<PlanNode>& nodes, PlanNode node) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].op == node.op && nodes[i].inputs == node.inputs && SameAttrs(nodes[i].attrs, node.attrs)) return static_cast<uint32_t>(i);
  }
  nodes.push_back(std::move(node));
  return static_cast<uint32_t>(nodes.size() - 1);
}

// The canonical encoding that the fingerprint is taken of. Every length stands before its content, so no two plans encode alike.
class Encoder {
 public:
  void Add(const PlanNode& node) {
    Add(node.op);
    sha_.AddNumber(node.inputs.size());
    for (uint32_t input : node.inputs) sha_.AddNumber(input);
    Add(node.attrs);
  }
  void AddNumber(uint64_t number) { sha_.AddNumber(number); }
  std::string Hex() { return sha_.Hex(); }

 private:
  void Add(const std::string& text) {
    sha_.AddNumber(text.size());
    sha_.Add(text);
  }
  void Add(bool value) { sha_.AddNumber(value ? 1 : 0); }
  void Add(int64_t value) { sha_.AddNumber(static_cast<uint64_t>(value)); }
  void Add(double value) { sha_.AddNumber(std::bit_cast<uint64_t>(value)); }
  void Add(const Bytes& value) { Add(value == nullptr ? std::string() : *value); }
  void Add(const AttrMap& attrs) {
    const auto told_by_digest = [&attrs](const Attr& attr) { return HasDigest(attrs, attr.name); };
    sha_.AddNumber(attrs.items.size() - static_cast<size_t>(std::count_if(attrs.items.begin(), attrs.items.end(), told_by_digest)));
    for (const Attr& attr : attrs.items) {
      if (told_by_digest(attr)) continue;
      Add(attr.name);
      sha_.AddNumber(attr.value.index());
      std::visit([this](const auto& value) { Add(value); }, attr.value);
    }
  }
  template <class T>
  void Add(const std::vector<T>& values) {
    sha_.AddNumber(values.size());
    for (const T& value : values) Add(value);
  }

  Sha256 sha_;
};

}  // namespace

bool HasDigest(const AttrMap& attrs, const std::string& name) { return attrs.Find(name + "_digest") != nullptr; }

bool SameAttr(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, Bytes>) {
          return x == y || (x != nullptr && y != nullptr && *x == *y);
        } else if constexpr (std::is_same_v<T, std::vector<AttrMap>>) {
          return std::equal(x.begin(), x.end(), y.begin(), y.end(), SameAttrs);
        } else {
          return x == y;
        }
      },
      a);
}

void AttrMap::Set(std::string name, AttrValue value) {
  const auto at = std::lower_bound(items.begin(), items.end(), name, [](const Attr& attr, const std::string& wanted) { return attr.name < wanted; });
  if (at != items.end() && at->name == name) {
    at->value = std::move(value);
  } else {
    items.insert(at, Attr{std::move(name), std::move(value)});
  }
}

const AttrValue* AttrMap::Find(std::string_view name) const {
  const auto at = std::lower_bound(items.begin(), items.end(), name, [](const Attr& attr, std::string_view wanted) { return attr.name < wanted; });
  return at != items.end() && at->name == name ? &at->value : nullptr;
}

Plan Plan::Over(const std::vector<Plan>& inputs, std::string op, AttrMap attrs) {
  Plan plan;
  PlanNode root{std::move(op), {}, std::move(attrs)};
  for (const Plan& input : inputs) {
    if (inputs.size() == 1) {  // nothing to have in common with: a chain of thousands is not compared with itself again and again
      plan = input;
      root.inputs.push_back(plan.nodes.empty() ? kNoNode : static_cast<uint32_t>(plan.nodes.size() - 1));
      break;
    }
    std::vector<uint32_t> placed;
    for (PlanNode node : input.nodes) {
      for (uint32_t& from : node.inputs) from = from < placed.size() ? placed[from] : kNoNode;
      placed.push_back(Place(plan.nodes, std::move(node)));
    }
    root.inputs.push_back(placed.empty() ? kNoNode : placed.back());
  }
  plan.nodes.push_back(std::move(root));
  return plan;
}

// Nodes are encoded in their order, not as a tree: an operator's random stream is keyed by its node's index, so plans that order equal nodes
// differently are different datasets.
Result<std::string> Fingerprint(const Plan& plan) {
  PENSTOCK_TRY(CheckGraph(plan));
  Encoder encoder;
  encoder.AddNumber(1);  // version of this encoding
  encoder.AddNumber(plan.nodes.size());
  for (const PlanNode& node : plan.nodes) encoder.Add(node);
  return encoder.Hex().substr(0, 32);
}

}  // namespace penstock
