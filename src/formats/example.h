// tf.Example records into columns: one row a record, straight from the bytes, without an allocation a row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/columns.h"
#include "penstock/spec.h"
#include "penstock/status.h"

namespace penstock {

using FeatureDefault = std::variant<std::vector<float>, std::vector<int64_t>, std::vector<std::string>>;

// One feature, and the column of the same name that it becomes.
struct FeatureSpec {
  std::string name;
  DType dtype = DType::kFloat32;  // kFloat32, kInt64 or kString: what tf.Example can hold
  // Fixed lengths; or kRagged first and fixed ones behind it: as many as there are, none where the feature is missing.
  std::vector<int64_t> shape;
  // For records without the feature: as many values as the shape has, or one for all of them. Without it the feature is required. Not for ragged
  // ones.
  std::optional<FeatureDefault> default_value;
};

// As TensorFlow's parser: features that were not asked for are passed over, of a name that comes twice the last counts, packed and unpacked lists are
// both read. One thread at a time (it remembers the order of features); copies are independent.
class ExampleParser {
 public:
  static Result<ExampleParser> Create(std::vector<FeatureSpec> features);

  const std::shared_ptr<const Spec>& spec() const { return spec_; }  // a dict, columns in the order of the features

  // Appends a row for each record to `out`, one column for each of spec()'s. On an error they have the rows before the bad record; the error's
  // details are the record's place among `records` ("row"), the feature, what was expected and what was found.
  Status Parse(std::span<const std::string_view> records, std::span<Column* const> out);
  Status Parse(std::span<const std::string_view> records, Columns& out);

 private:
  struct Field {
    FeatureSpec feature;
    uint64_t values = 1;  // a row (a ragged entry) has
    bool ragged = false;
    bool dense = false;  // all rows have as many numbers
    std::vector<float> default_floats;
    std::vector<int64_t> default_ints;
    std::vector<std::string> default_strings;
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  // What the entry at some position of the last record was: its name, and the field, or kNoField.
  struct Seen {
    std::string name;
    size_t field = 0;
  };

  static Status Compile(const FeatureSpec& feature, Field& field);
  Status ParseRow(std::string_view record, std::span<Column* const> out);
  bool Locate(std::string_view record);  // fills found_; false: not a tf.Example
  bool LocateEntries(std::string_view features);
  size_t FieldNamed(std::string_view name);
  static Status Append(const Field& field, std::string_view list, uint64_t kind, Column& out);
  static Status AppendMissing(const Field& field, Column& out);

  std::vector<Field> fields_;
  std::unordered_map<std::string, size_t, NameHash, std::equal_to<>> by_name_;
  std::shared_ptr<const Spec> spec_;
  struct Found {
    uint64_t kind = 0;  // field number in tf.Feature; 0: not there
    std::string_view list;
  };
  std::vector<Found> found_;  // of each field, in the record at hand
  std::vector<Seen> seen_;
  size_t position_ = 0;
};

}  // namespace penstock
