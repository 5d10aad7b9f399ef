// How rows are made: a graph of operators, by name, with attributes. A plan is data: it does nothing until a worker (or `inline`) runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock {

struct AttrMap;

// Bytes that a plan carries (an array's values); shared, so that plans are cheap to copy.
using Bytes = std::shared_ptr<const std::string>;

using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>, Bytes,
                               std::vector<AttrMap>>;

struct Attr;

// Attributes by name, kept sorted, so that equal maps are equal bytes.
struct AttrMap {
  std::vector<Attr> items;
  void Set(std::string name, AttrValue value);
  const AttrValue* Find(std::string_view name) const;
};

struct Attr {
  std::string name;
  AttrValue value;
};

struct PlanNode {
  std::string op;                // a name in the operator table
  std::vector<uint32_t> inputs;  // indices of earlier nodes
  AttrMap attrs;
};

struct Plan {
  std::vector<PlanNode> nodes;  // inputs before users; the last node is the root

  // Appends a node over the roots of `inputs` (their graphs are joined) and returns the new plan.
  static Plan Over(const std::vector<Plan>& inputs, std::string op, AttrMap attrs);
};

// The id of a dataset: 32 hex digits of a SHA-256 over its canonical encoding, the same everywhere; `x_digest` is encoded in place of `x`.
Result<std::string> Fingerprint(const Plan& plan);

// FlatBuffers (schema/plan.fbs). Parse verifies before it trusts: structure, caps, topological order.
std::string SerializePlan(const Plan& plan);
Result<Plan> ParsePlan(std::string_view bytes);

}  // namespace penstock
