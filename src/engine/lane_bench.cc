// Rows a second and core of a whole lane: gzip TFRecords of tf.Examples of 2.4 KB, inflated, verified, parsed and cut into blocks of batches of 512.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/constants.h"
#include "engine/pipeline.h"
#include "formats/example_writer.h"
#include "formats/tfrecord_writer.h"

namespace penstock {
namespace {

constexpr int kRecords = 20'000;

std::string WriteExamples(const std::string& path, Compression compression) {
  auto writer = TfRecordWriter::Create(path, compression);
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < kRecords; ++i) {
    std::vector<float> image(400);
    for (float& value : image) value = static_cast<float>(random() % 256) / 255.0F;
    std::vector<int64_t> ids(60);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % 100'000);
    const std::vector<int64_t> row = {i};
    const std::string example = ExampleWriter().Floats("image", image).Ints("ids", ids).Ints("id", row).Finish();
    if (!(*writer)->Write(example).ok()) std::abort();
  }
  if (!(*writer)->Close().ok()) std::abort();
  return path;
}

AttrMap Feature(std::string name, std::string dtype, std::vector<int64_t> shape, bool var) {
  AttrMap map;
  map.Set("name", std::move(name));
  map.Set("dtype", std::move(dtype));
  map.Set("shape", std::move(shape));
  map.Set("var", var);
  return map;
}

Plan Training(const std::string& file, bool shuffle) {
  AttrMap source;
  source.Set("files", std::vector<std::string>{file});
  Plan plan = Plan::Over({}, "tfrecord", source);
  AttrMap features;
  features.Set("features",
               std::vector<AttrMap>{Feature("image", "float32", {400}, false), Feature("ids", "int64", {}, true), Feature("id", "int64", {}, false)});
  plan = Plan::Over({plan}, "parse_example", features);
  if (shuffle) {
    AttrMap buffer;
    buffer.Set("buffer_size", int64_t{2000});
    plan = Plan::Over({plan}, "shuffle", buffer);
  }
  AttrMap batch;
  batch.Set("n", int64_t{512});
  return Plan::Over({plan}, "batch", batch);
}

void ReadLanes(benchmark::State& state, Compression compression, bool shuffle) {
  const std::string file =
      WriteExamples((std::filesystem::temp_directory_path() / ("penstock-bench-" + std::to_string(getpid()))).string(), compression);
  const Plan plan = Training(file, shuffle);
  const auto pipeline = Pipeline::Compile(plan, *ListInputs(plan), 1);
  HeapExtents heap;
  uint64_t rows = 0;
  for (auto _ : state) {
    for (uint32_t lane = 0; lane < (*pipeline)->layout().lanes; ++lane) {
      LaneRequest request;
      request.key.lane = LaneId{lane};
      request.block_target = kBlockTarget;
      request.block_cap = 32 * kMiB;
      request.allocator = &heap;
      const auto run = (*pipeline)->OpenLane(request);
      for (StepResult step = (*run)->Step(); std::holds_alternative<Produced>(step); step = (*run)->Step())
        rows += std::get<Produced>(step).info.rows;
    }
  }
  std::filesystem::remove(file);
  if (rows != static_cast<uint64_t>(state.iterations()) * kRecords) state.SkipWithError("rows are missing");
  state.SetItemsProcessed(static_cast<int64_t>(rows));
}

BENCHMARK_CAPTURE(ReadLanes, gzip, Compression::kGzip, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ReadLanes, gzip_shuffled, Compression::kGzip, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ReadLanes, plain, Compression::kNone, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ReadLanes, plain_shuffled, Compression::kNone, true)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
