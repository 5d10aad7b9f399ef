#include "plan/check.h"

#include <string>
#include <vector>

namespace penstock {
namespace {

Status CheckAttrs(const AttrMap& attrs, size_t depth) {
  if (depth > kMaxAttrDepth) return Status(Code::kInvalid, "attributes are nested deeper than " + std::to_string(kMaxAttrDepth));
  for (size_t i = 0; i < attrs.items.size(); ++i) {
    const Attr& attr = attrs.items[i];
    if (attr.name.empty() || attr.name.size() > kMaxNameBytes) {
      return Status(Code::kInvalid,
                    "an attribute's name has " + std::to_string(attr.name.size()) + " bytes; 1 to " + std::to_string(kMaxNameBytes) + " are allowed");
    }
    if (i > 0 && attrs.items[i - 1].name >= attr.name) {
      return Status(Code::kInvalid, "attribute '" + attr.name + "' is not in order or stands twice; use AttrMap::Set");
    }
    if (const auto* maps = std::get_if<std::vector<AttrMap>>(&attr.value)) {
      for (const AttrMap& map : *maps) PENSTOCK_TRY(CheckAttrs(map, depth + 1));
    }
  }
  return {};
}

}  // namespace

Status CheckGraph(const Plan& plan) {
  if (plan.nodes.empty()) return Status(Code::kInvalid, "the plan is empty: begin with a source");
  if (plan.nodes.size() > kMaxNodes) {
    return Status(Code::kInvalid,
                  "the plan has " + std::to_string(plan.nodes.size()) + " nodes; at most " + std::to_string(kMaxNodes) + " are allowed");
  }
  std::vector<bool> used(plan.nodes.size(), false);
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& node = plan.nodes[i];
    const std::string who = "node " + std::to_string(i) + " (" + node.op.substr(0, 64) + ")";
    if (node.op.empty() || node.op.size() > kMaxNameBytes) return Status(Code::kInvalid, who + " of the plan has no valid operator name");
    if (node.inputs.size() > kMaxNodes) return Status(Code::kInvalid, who + " of the plan has too many inputs");
    for (uint32_t input : node.inputs) {
      if (input >= i) return Status(Code::kInvalid, who + " of the plan takes node " + std::to_string(input) + ", which does not come before it");
      used[input] = true;
    }
    PENSTOCK_TRY(CheckAttrs(node.attrs, 1));
  }
  for (size_t i = 0; i + 1 < plan.nodes.size(); ++i) {
    if (!used[i]) return Status(Code::kInvalid, "node " + std::to_string(i) + " (" + plan.nodes[i].op + ") of the plan is used by none");
  }
  return {};
}

}  // namespace penstock
