#include "cli/features.h"

#include <charconv>
#include <filesystem>
#include <utility>

namespace penstock::cli {
namespace {

Status BadFeature(const std::string& text) {
  return Status(Code::kInvalid,
                "--parse " + text +
                    ": write NAME:DTYPE, like id:int64, x:float32[3,4] or words:string[] (any number); a tf.Example holds int64, float32 and string");
}

Result<std::vector<int64_t>> ParseShape(std::string_view inside, const std::string& whole) {
  std::vector<int64_t> shape;
  while (!inside.empty()) {
    int64_t size = 0;
    const auto parsed = std::from_chars(inside.data(), inside.data() + inside.size(), size);
    if (parsed.ec != std::errc() || size <= 0) return BadFeature(whole);
    inside.remove_prefix(static_cast<size_t>(parsed.ptr - inside.data()));
    shape.push_back(size);
    if (inside.empty()) break;
    if (inside.front() != ',' || inside.size() == 1) return BadFeature(whole);
    inside.remove_prefix(1);
  }
  return shape;
}

}  // namespace

Result<Feature> ParseFeature(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return BadFeature(text);
  Feature feature{.name = text.substr(0, colon)};
  std::string dtype = text.substr(colon + 1);
  const size_t bracket = dtype.find('[');
  if (bracket != std::string::npos) {
    if (dtype.back() != ']') return BadFeature(text);
    const std::string inside = dtype.substr(bracket + 1, dtype.size() - bracket - 2);
    feature.var = inside.empty();
    PENSTOCK_ASSIGN(feature.shape, ParseShape(inside, text));
    dtype.resize(bracket);
  }
  const auto known = DTypeFromName(dtype == "bytes" ? "string" : dtype);
  if (!known.ok() || (*known != DType::kInt64 && *known != DType::kFloat32 && *known != DType::kString)) return BadFeature(text);
  feature.dtype = *known;
  return feature;
}

Result<Plan> FilesPlan(const std::vector<std::string>& files, const std::vector<std::string>& features) {
  std::vector<std::string> paths;
  for (const std::string& file : files) paths.push_back(file.find("://") == std::string::npos ? std::filesystem::absolute(file).string() : file);
  const Dataset records = Dataset::TFRecord(std::move(paths));
  if (features.empty()) return records.plan();
  std::vector<Feature> parsed;
  for (const std::string& feature : features) {
    PENSTOCK_ASSIGN(parsed.emplace_back(), ParseFeature(feature));
  }
  return records.ParseExample(parsed).plan();
}

}  // namespace penstock::cli
