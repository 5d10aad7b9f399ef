// Plans by chaining: each method gives a new dataset with one operator more. Nothing is read, and nothing checked, before it is registered.
//
//   Dataset::TFRecord({"/data/*.tfrecord.gz"}).ParseExample({{.name = "id", .dtype = DType::kInt64}}).Shuffle(1000).Batch(32).plan()
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/plan.h"
#include "penstock/spec.h"

namespace penstock {

// What ParseExample looks for in a tf.Example, which holds int64, float32 or string.
struct Feature {
  std::string name;
  DType dtype = DType::kInt64;
  std::vector<int64_t> shape = {};  // of fixed length; {}: one value
  bool var = false;                 // any number of values: a ragged column; shape is not used
  // Stands in where the feature is missing: one value for all, or one each.
  std::variant<std::monostate, std::vector<int64_t>, std::vector<double>, std::vector<std::string>> default_values = {};
};

class Dataset {
 public:
  explicit Dataset(Plan plan) : plan_(std::move(plan)) {}

  // ---- sources
  static Dataset Range(int64_t start, int64_t stop, int64_t step = 1);
  // Paths or patterns, as the workers see them. compression: "auto" | "none" | "gzip" | "zlib".
  static Dataset TFRecord(std::vector<std::string> files, std::string compression = "auto", bool verify_crc = true);

  // ---- rows
  Dataset ParseExample(const std::vector<Feature>& features) const;
  Dataset Project(std::vector<std::string> columns) const;

  // ---- order
  Dataset Interleave(int64_t cycle_length = 16) const;
  Dataset Shuffle(int64_t buffer_size, std::optional<int64_t> seed = std::nullopt) const;
  Dataset Batch(int64_t n, bool drop_remainder = false) const;
  Dataset PaddedBatch(int64_t n, bool drop_remainder = false) const;  // ragged dimensions filled with zeros (strings: "") to the longest of a batch

  // ---- counts
  Dataset Take(int64_t count) const;
  Dataset Skip(int64_t count) const;
  Dataset Shard(int64_t num, int64_t index) const;
  Dataset Enumerate(int64_t start = 0) const;
  Dataset Repeat(int64_t count = -1) const;  // -1: without end

  // ---- several
  Dataset Zip(const std::vector<Dataset>& others) const;
  Dataset Concatenate(const std::vector<Dataset>& others) const;

  const Plan& plan() const { return plan_; }

 private:
  Dataset Then(std::string op, std::vector<Attr> attrs, const std::vector<Dataset>& others = {}) const;
  Plan plan_;
};

}  // namespace penstock
