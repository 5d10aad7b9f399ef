// Records a second and core: tf.Examples of 2.4 KB, parsed alone, and read with CRC first.
#include <benchmark/benchmark.h>

#include "formats/example.h"
#include "formats/example_writer.h"
#include "formats/tfrecord.h"

namespace penstock {
namespace {

std::vector<std::string> MakeRecords(size_t n) {
  std::vector<std::string> records;
  for (size_t i = 0; i < n; ++i) {
    const std::vector<float> image(400, static_cast<float>(i)), dense(60, 0.5F);
    std::vector<int64_t> ids(60), few(13, 1);
    for (size_t k = 0; k < ids.size(); ++k) ids[k] = static_cast<int64_t>((i * 7919 + k * 104'729) % 100'000);
    records.push_back(ExampleWriter().Floats("image", image).Floats("dense", dense).Ints("ids", ids).Ints("few", few).Finish());
  }
  return records;
}

ExampleParser MakeParser() {
  auto parser = ExampleParser::Create({
      {.name = "dense", .dtype = DType::kFloat32, .shape = {60}, .default_value = {}},
      {.name = "few", .dtype = DType::kInt64, .shape = {13}, .default_value = {}},
      {.name = "ids", .dtype = DType::kInt64, .shape = {kRagged}, .default_value = {}},
      {.name = "image", .dtype = DType::kFloat32, .shape = {400}, .default_value = {}},
  });
  return std::move(parser).value();
}

void ParseExamples(benchmark::State& state) {
  const std::vector<std::string> records = MakeRecords(256);
  const std::vector<std::string_view> views(records.begin(), records.end());
  ExampleParser parser = MakeParser();
  Columns columns(parser.spec());
  for (auto _ : state) {
    columns.Clear();
    if (!parser.Parse(views, columns).ok()) state.SkipWithError("parse");
    benchmark::DoNotOptimize(columns[0].buffer(0).data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(records.size()));
  state.SetLabel(std::to_string(records[0].size()) + " bytes a record");
}
BENCHMARK(ParseExamples);

void ReadAndParse(benchmark::State& state, Compression compression) {
  std::string bytes;
  for (const std::string& record : MakeRecords(4096)) AppendRecord(record, bytes);
  if (compression == Compression::kGzip) {
    std::string deflated;
    Deflater deflater(compression);
    deflater.Add(bytes, deflated);
    deflater.Finish(deflated);
    bytes = deflated;
  }
  const auto source = std::make_shared<MemorySource>(std::move(bytes));
  ExampleParser parser = MakeParser();
  Columns columns(parser.spec());
  int64_t rows = 0;
  for (auto _ : state) {
    auto reader = RecordReader::Open(source, compression, {});
    for (;;) {
      const auto records = (*reader)->Next(256);
      if (!records.ok() || records->empty()) break;
      columns.Clear();
      if (!parser.Parse(*records, columns).ok()) state.SkipWithError("parse");
      rows += static_cast<int64_t>(records->size());
    }
  }
  state.SetItemsProcessed(rows);
}
BENCHMARK_CAPTURE(ReadAndParse, plain, Compression::kNone);
BENCHMARK_CAPTURE(ReadAndParse, gzip, Compression::kGzip);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
