#include "penstock/dataset.h"

#include <filesystem>
#include <type_traits>

namespace penstock {
namespace {

AttrMap Attrs(std::vector<Attr> items) {
  AttrMap attrs;
  for (Attr& item : items) attrs.Set(std::move(item.name), std::move(item.value));
  return attrs;
}

// A worker has another working directory.
std::string Absolute(const std::string& file) {
  return file.find("://") != std::string::npos ? file : std::filesystem::absolute(file).lexically_normal().string();
}

AttrMap FeatureAttrs(const Feature& feature) {
  AttrMap attrs = Attrs({{"name", feature.name}, {"dtype", std::string(Name(feature.dtype))}, {"var", feature.var}});
  if (!feature.var) attrs.Set("shape", feature.shape);
  std::visit(
      [&](const auto& values) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(values)>, std::monostate>) attrs.Set("default", values);
      },
      feature.default_values);
  return attrs;
}

}  // namespace

Dataset Dataset::Then(std::string op, std::vector<Attr> attrs, const std::vector<Dataset>& others) const {
  std::vector<Plan> inputs{plan_};
  for (const Dataset& other : others) inputs.push_back(other.plan_);
  return Dataset(Plan::Over(inputs, std::move(op), Attrs(std::move(attrs))));
}

Dataset Dataset::Range(int64_t start, int64_t stop, int64_t step) {
  return Dataset(Plan::Over({}, "range", Attrs({{"start", start}, {"stop", stop}, {"step", step}})));
}

Dataset Dataset::TFRecord(std::vector<std::string> files, std::string compression, bool verify_crc) {
  for (std::string& file : files) file = Absolute(file);
  return Dataset(
      Plan::Over({}, "tfrecord", Attrs({{"files", std::move(files)}, {"compression", std::move(compression)}, {"verify_crc", verify_crc}})));
}

Dataset Dataset::ParseExample(const std::vector<Feature>& features) const {
  std::vector<AttrMap> maps;
  for (const Feature& feature : features) maps.push_back(FeatureAttrs(feature));
  return Then("parse_example", {{"features", std::move(maps)}});
}

Dataset Dataset::Project(std::vector<std::string> columns) const { return Then("project", {{"columns", std::move(columns)}}); }

Dataset Dataset::Interleave(int64_t cycle_length) const { return Then("interleave", {{"cycle_length", cycle_length}}); }

Dataset Dataset::Shuffle(int64_t buffer_size, std::optional<int64_t> seed) const {
  std::vector<Attr> attrs{{"buffer_size", buffer_size}};
  if (seed) attrs.push_back({"seed", *seed});
  return Then("shuffle", std::move(attrs));
}

Dataset Dataset::Batch(int64_t n, bool drop_remainder) const { return Then("batch", {{"n", n}, {"drop_remainder", drop_remainder}}); }
Dataset Dataset::PaddedBatch(int64_t n, bool drop_remainder) const { return Then("padded_batch", {{"n", n}, {"drop_remainder", drop_remainder}}); }

Dataset Dataset::Take(int64_t count) const { return Then("take", {{"count", count}}); }
Dataset Dataset::Skip(int64_t count) const { return Then("skip", {{"count", count}}); }
Dataset Dataset::Shard(int64_t num, int64_t index) const { return Then("shard", {{"num", num}, {"index", index}}); }
Dataset Dataset::Enumerate(int64_t start) const { return Then("enumerate", {{"start", start}}); }
Dataset Dataset::Repeat(int64_t count) const { return Then("repeat", {{"count", count}}); }

Dataset Dataset::Zip(const std::vector<Dataset>& others) const { return Then("zip", {}, others); }
Dataset Dataset::Concatenate(const std::vector<Dataset>& others) const { return Then("concatenate", {}, others); }

}  // namespace penstock
