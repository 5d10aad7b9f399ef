// Any bytes as a tf.Example, before and after a good one: every column keeps as many rows as were parsed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "formats/example.h"
#include "formats/example_writer.h"

namespace penstock {
namespace {

ExampleParser MakeParser() {
  auto parser = ExampleParser::Create({
      {.name = "f", .dtype = DType::kFloat32, .shape = {2}, .default_value = FeatureDefault(std::vector<float>{0})},
      {.name = "i", .dtype = DType::kInt64, .shape = {kRagged, 2}, .default_value = {}},
      {.name = "s", .dtype = DType::kString, .shape = {kRagged}, .default_value = {}},
      {.name = "t", .dtype = DType::kString, .shape = {}, .default_value = FeatureDefault(std::vector<std::string>{"none"})},
  });
  return std::move(parser).value();
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  ExampleParser parser = MakeParser();
  Columns columns(parser.spec());
  const std::vector<int64_t> ints = {1, -1};
  const std::string good = ExampleWriter().Ints("i", ints).Finish();
  const std::string_view any(reinterpret_cast<const char*>(data), size);
  const bool parsed = parser.Parse(std::vector<std::string_view>{good, any, good}, columns).ok();
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].rows() != (parsed ? 3U : 1U)) std::abort();
  }
  const Columns copy = columns.Slice(0, columns.rows());
  for (size_t i = 0; i < columns.size(); ++i) {
    if (copy[i].bytes() != columns[i].bytes()) std::abort();
  }
  return 0;
}
