// Plan: building a graph from Python values, and what can be said of it without reading anything.
#include "penstock/plan.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "engine/pipeline.h"
#include "errors.h"
#include "gil.h"
#include "plan/check.h"
#include "spec.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

AttrMap ToAttrs(nb::dict items);

// nanobind's own error for what is no T does not say what it was.
template <class T>
T To(nb::handle value, const char* expected) {
  T out{};
  if (!nb::try_cast<T>(value, out)) {
    throw nb::value_error((std::string("an attribute is ") + nb::repr(value).c_str() + "; expected " + expected).c_str());
  }
  return out;
}

template <class T>
std::vector<T> ToVector(nb::sequence values, const char* expected) {
  std::vector<T> out;
  for (nb::handle value : values) out.push_back(To<T>(value, expected));
  return out;
}

constexpr const char* kWhole = "a whole number from -2**63 to 2**63-1";

std::vector<std::string> ToStrings(nb::sequence values) {
  std::vector<std::string> out;
  for (nb::handle value : values) {
    auto bytes = nb::cast<nb::bytes>(value);
    out.emplace_back(bytes.c_str(), bytes.size());
  }
  return out;
}

// A list is what its first element is; an empty one is a list of numbers (a scalar's shape).
AttrValue ToListAttr(nb::sequence values) {
  if (nb::len(values) == 0) return std::vector<int64_t>{};
  nb::object first = values[0];
  if (nb::isinstance<nb::str>(first)) return ToVector<std::string>(values, "a string");
  if (nb::isinstance<nb::bytes>(first)) return ToStrings(values);
  if (nb::isinstance<nb::float_>(first)) return ToVector<double>(values, "a number");
  if (!nb::isinstance<nb::dict>(first)) return ToVector<int64_t>(values, kWhole);
  std::vector<AttrMap> maps;
  for (nb::handle value : values) maps.push_back(ToAttrs(nb::cast<nb::dict>(value)));
  return maps;
}

AttrValue ToAttr(nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return To<int64_t>(value, kWhole);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<nb::bytes>(value)) {
    auto bytes = nb::cast<nb::bytes>(value);
    return std::make_shared<const std::string>(bytes.c_str(), bytes.size());
  }
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) return ToListAttr(nb::cast<nb::sequence>(value));
  throw nb::type_error("an attribute is a bool, int, float, str, bytes, or a list of ints, floats, strs, bytes or dicts");
}

AttrMap ToAttrs(nb::dict items) {
  AttrMap attrs;
  for (auto [name, value] : items) attrs.Set(nb::cast<std::string>(name), ToAttr(value));
  return attrs;
}

nb::dict FactsToPython(const PlanFacts& facts) {
  nb::dict out;
  std::string_view purity = Name(facts.purity);
  out["row_columns"] = ColumnsToPython(facts.row_spec);
  out["row_structure"] = StructureToPython(facts.row_spec.structure);
  out["element_columns"] = ColumnsToPython(facts.element_spec);
  out["element_structure"] = StructureToPython(facts.element_spec.structure);
  out["batch"] = facts.batch;
  out["drop_remainder"] = facts.drop_remainder;
  out["pad"] = facts.pad;
  out["purity"] = nb::str(purity.data(), purity.size());
  out["runs_code"] = facts.runs_code;
  out["cardinality"] = facts.cardinality;
  out["explain"] = nb::str(facts.explain.c_str(), facts.explain.size());
  return out;
}

// How the inputs that are there now would be cut into lanes. Lists files.
std::string ExplainCut(const Plan& plan, uint64_t seed) {
  Result<std::string> text = [&]() -> Result<std::string> {
    const GilReleased released;
    PENSTOCK_ASSIGN(Manifest manifest, ListInputs(plan));
    PENSTOCK_ASSIGN(auto pipeline, Pipeline::Compile(plan, manifest, seed));
    return pipeline->explain();
  }();
  return Unwrap(std::move(text));
}

nb::object FromAttr(const AttrValue& value);

nb::dict FromAttrs(const AttrMap& attrs) {
  nb::dict out;
  for (const Attr& attr : attrs.items) out[attr.name.c_str()] = FromAttr(attr.value);
  return out;
}

template <class T>
nb::list FromVector(const std::vector<T>& values) {
  nb::list out;
  for (const T& value : values) out.append(value);
  return out;
}

struct AttrToPython {
  nb::object operator()(const Bytes& bytes) const { return nb::bytes(bytes->data(), bytes->size()); }
  nb::object operator()(const std::string& text) const { return nb::str(text.data(), text.size()); }
  nb::object operator()(const std::vector<AttrMap>& maps) const {
    nb::list out;
    for (const AttrMap& map : maps) out.append(FromAttrs(map));
    return out;
  }
  nb::object operator()(const std::vector<std::string>& texts) const { return FromVector(texts); }
  nb::object operator()(const std::vector<int64_t>& numbers) const { return FromVector(numbers); }
  nb::object operator()(const std::vector<double>& numbers) const { return FromVector(numbers); }
  template <class T>
  nb::object operator()(T scalar) const {
    return nb::cast(scalar);
  }
};

nb::object FromAttr(const AttrValue& value) { return std::visit(AttrToPython{}, value); }

// [(operator, inputs, attributes), …]: what an executor makes its programs of. Attributes of operators that are not code are left out: they may be
// large, and strings that are not text.
nb::list Nodes(const Plan& plan) {
  nb::list out;
  for (const PlanNode& node : plan.nodes) {
    const bool code = node.attrs.Find("payload") != nullptr;
    out.append(nb::make_tuple(node.op, FromVector(node.inputs), code ? FromAttrs(node.attrs) : nb::dict()));
  }
  return out;
}

nb::bytes Serialize(const Plan& plan) {
  std::string bytes = SerializePlan(plan);
  return nb::bytes(bytes.data(), bytes.size());
}

Plan Parse(nb::bytes bytes) { return Unwrap(ParsePlan({bytes.c_str(), bytes.size()})); }

}  // namespace

void BindPlan(nb::module_& m) {
  m.attr("MAX_PLAN_NODES") = kMaxNodes;
  nb::class_<Plan>(m, "Plan")
      .def_static(
          "over", [](const std::vector<Plan>& inputs, std::string op, nb::dict attrs) { return Plan::Over(inputs, std::move(op), ToAttrs(attrs)); },
          nb::arg("inputs"), nb::arg("op"), nb::arg("attrs"))
      .def_static("parse", &Parse, nb::arg("data"))
      .def("serialize", &Serialize)
      .def("fingerprint", [](const Plan& plan) { return Unwrap(Fingerprint(plan)); })
      .def("facts", [](const Plan& plan) { return FactsToPython(Unwrap(CheckPlan(plan))); })
      .def("nodes", &Nodes)
      .def("explain", &ExplainCut, nb::arg("seed"))
      .def("__getstate__", &Serialize)
      .def("__setstate__", [](Plan& plan, nb::bytes bytes) { new (&plan) Plan(Parse(bytes)); });
}

}  // namespace penstock::python
