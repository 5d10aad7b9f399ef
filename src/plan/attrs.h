// How an operator reads its attributes: typed, with errors that name the operator, the attribute and what was expected. What it did not ask for is
// refused at the end, so a misspelt attribute is never ignored.
//
//   AttrReader attrs(node);
//   PENSTOCK_ASSIGN(int64_t size, attrs.Int("buffer_size"));
//   PENSTOCK_ASSIGN(bool drop, attrs.Bool("drop_remainder", false));
//   PENSTOCK_TRY(attrs.Done());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/plan.h"
#include "penstock/status.h"

namespace penstock {

// Refers to the attributes, which outlive it. Without a default an attribute is required.
class AttrReader {
 public:
  explicit AttrReader(const PlanNode& node) : AttrReader(node.op, node.attrs) {}
  AttrReader(std::string who, const AttrMap& attrs) : who_(std::move(who)), attrs_(attrs) {}

  bool Has(std::string_view name) const { return attrs_.Find(name) != nullptr; }

  Result<bool> Bool(std::string_view name);
  Result<bool> Bool(std::string_view name, bool otherwise);
  Result<int64_t> Int(std::string_view name);
  Result<int64_t> Int(std::string_view name, int64_t otherwise);
  // At least `min`.
  Result<int64_t> IntFrom(std::string_view name, int64_t min);
  Result<int64_t> IntFrom(std::string_view name, int64_t min, int64_t otherwise);
  Result<double> Float(std::string_view name);  // an integer will do
  Result<double> Float(std::string_view name, double otherwise);
  Result<std::string> String(std::string_view name);
  Result<std::string> String(std::string_view name, std::string otherwise);
  Result<std::vector<int64_t>> Ints(std::string_view name);
  Result<std::vector<int64_t>> Ints(std::string_view name, std::vector<int64_t> otherwise);
  Result<std::vector<double>> Floats(std::string_view name);  // integers will do
  Result<std::vector<std::string>> Strings(std::string_view name);
  Result<std::vector<std::string>> Strings(std::string_view name, std::vector<std::string> otherwise);
  Result<Bytes> Blob(std::string_view name);
  Result<const std::vector<AttrMap>*> Maps(std::string_view name);

  // An error if there are attributes that nobody asked for.
  Status Done() const;
  // An error about the attribute, for checks of the operator's own: "batch: attribute 'n' " + what.
  Status Bad(std::string_view name, std::string_view what) const;

 private:
  const AttrValue* Ask(std::string_view name);  // and remembers that it was asked for
  template <class T>
  Result<T> Get(std::string_view name);

  std::string who_;
  const AttrMap& attrs_;
  std::vector<std::string_view> asked_;
};

bool SameAttr(const AttrValue& a, const AttrValue& b);

// Whether `<name>_digest` stands for the attribute: bytes that mean the same may differ, as pickled code does from process to process.
bool HasDigest(const AttrMap& attrs, const std::string& name);

// One attribute by itself.
inline Result<int64_t> IntAttr(const PlanNode& node, std::string_view name) { return AttrReader(node).Int(name); }
inline Result<std::string> StringAttr(const PlanNode& node, std::string_view name) { return AttrReader(node).String(name); }

}  // namespace penstock
