// The loops that every row passes, each by itself, for bench/instructions.py to count: what runs inside Measured() is what is counted.
//   bench_hot_loops LOOP ROWS DIRECTORY
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "formats/example.h"
#include "formats/example_writer.h"
#include "formats/tfrecord.h"
#include "formats/tfrecord_writer.h"
#include "penstock/client.h"
#include "storage/file.h"

using namespace penstock;  // NOLINT: a program of one file

// By name for the counter, so neither inlined nor mangled.
extern "C" [[gnu::noinline]] void Measured(const std::function<uint64_t()>& loop, uint64_t rows) {
  if (const uint64_t done = loop(); done != rows) {
    std::fprintf(stderr, "%llu rows instead of %llu\n", static_cast<unsigned long long>(done), static_cast<unsigned long long>(rows));
    std::exit(1);
  }
}

namespace {

constexpr uint64_t kBatch = 512;
constexpr uint64_t kShuffle = 1000;  // fewer than the rows, so that it turns over

struct Shape {
  const char* name;
  const char* dtype;
  int64_t length;
};
constexpr std::array kFeatures = {Shape{"context", "float32", 60}, Shape{"dense", "float32", 400}, Shape{"history", "int64", 60},
                                  Shape{"ids", "int64", 13}};

template <class T>
T OrExit(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}

// As those of bench/records.py: 2.4 KB, six of ten of the 400 floats are zero.
std::string Example(std::mt19937_64& random) {
  ExampleWriter writer;
  for (const Shape& feature : kFeatures) {
    const auto length = static_cast<size_t>(feature.length);
    if (feature.dtype == std::string_view("int64")) {
      std::vector<int64_t> ids(length);
      for (int64_t& id : ids) id = static_cast<int64_t>(random() >> 16);
      writer.Ints(feature.name, ids);
    } else {
      std::vector<float> floats(length);
      for (float& value : floats) value = length == 400 && random() % 10 < 6 ? 0 : static_cast<float>(random() >> 40) / (1 << 24);
      writer.Floats(feature.name, floats);
    }
  }
  return writer.Finish();
}

std::vector<std::string> Examples(uint64_t rows) {
  std::mt19937_64 random(1);
  std::vector<std::string> examples(rows);
  for (std::string& example : examples) example = Example(random);
  return examples;
}

std::string WriteFile(const std::string& path, uint64_t rows, Compression compression) {
  const auto writer = OrExit(TfRecordWriter::Create(path, compression));
  for (const std::string& example : Examples(rows)) {
    if (!writer->Write(example).ok()) std::exit(1);
  }
  if (!writer->Close().ok()) std::exit(1);
  return path;
}

void Parse(uint64_t rows, const std::string&) {
  const std::vector<std::string> examples = Examples(rows);
  const std::vector<std::string_view> records(examples.begin(), examples.end());
  std::vector<FeatureSpec> features;
  for (const Shape& feature : kFeatures) {
    features.push_back({feature.name, OrExit(DTypeFromName(feature.dtype)), {feature.length}, {}});
  }
  ExampleParser parser = OrExit(ExampleParser::Create(features));
  Columns columns(parser.spec());
  Measured([&] { return parser.Parse(records, columns).ok() ? columns.rows() : 0; }, rows);
}

void ReadRecords(uint64_t rows, const std::string& directory, Compression compression) {
  const std::shared_ptr<const ByteSource> source = OrExit(File::Open(WriteFile(directory + "/records", rows, compression)));
  Measured(
      [&] {
        const auto reader = OrExit(RecordReader::Open(source, compression, {}));
        uint64_t read = 0;
        for (auto records = OrExit(reader->Next(64)); !records.empty(); records = OrExit(reader->Next(64))) read += records.size();
        return read;
      },
      rows);
}

AttrMap Feature(const Shape& shape) {
  AttrMap map;
  map.Set("name", std::string(shape.name));
  map.Set("dtype", std::string(shape.dtype));
  map.Set("shape", std::vector<int64_t>{shape.length});
  return map;
}

Plan Pipeline(const std::string& file, bool shuffle) {
  AttrMap source;
  source.Set("files", std::vector<std::string>{file});
  Plan plan = Plan::Over({}, "tfrecord", source);
  if (shuffle) {
    AttrMap buffer;
    buffer.Set("buffer_size", int64_t{kShuffle});
    plan = Plan::Over({plan}, "shuffle", buffer);
  }
  AttrMap features;
  std::vector<AttrMap> maps;
  for (const Shape& feature : kFeatures) maps.push_back(Feature(feature));
  features.Set("features", maps);
  plan = Plan::Over({plan}, "parse_example", features);
  AttrMap batch;
  batch.Set("n", int64_t{kBatch});
  return Plan::Over({plan}, "batch", batch);
}

// From the file to the loop's batches, in this process.
void ReadBatches(uint64_t rows, const std::string& directory, Compression compression, bool shuffle) {
  const Plan plan = Pipeline(WriteFile(directory + "/batches", rows, compression), shuffle);
  Measured(
      [&] {
        const auto reader = OrExit(ReadInline(plan, {}));
        uint64_t read = 0;
        for (auto batch = OrExit(reader->Next()); batch.has_value(); batch = OrExit(reader->Next())) read += batch->rows();
        return read;
      },
      rows);
}

using Loop = std::function<void(uint64_t rows, const std::string& directory)>;
const std::map<std::string, Loop> kLoops = {
    {"parse", Parse},
    {"records", [](uint64_t rows, const std::string& directory) { ReadRecords(rows, directory, Compression::kNone); }},
    {"records of gzip", [](uint64_t rows, const std::string& directory) { ReadRecords(rows, directory, Compression::kGzip); }},
    {"batches", [](uint64_t rows, const std::string& directory) { ReadBatches(rows, directory, Compression::kNone, false); }},
    {"batches, shuffled", [](uint64_t rows, const std::string& directory) { ReadBatches(rows, directory, Compression::kNone, true); }},
    {"batches of gzip", [](uint64_t rows, const std::string& directory) { ReadBatches(rows, directory, Compression::kGzip, false); }},
};

}  // namespace

int main(int count, char** arguments) {
  const auto loop = count == 4 ? kLoops.find(arguments[1]) : kLoops.end();
  if (loop == kLoops.end()) {
    std::fprintf(stderr, "bench_hot_loops LOOP ROWS DIRECTORY\n");
    for (const auto& [name, ignored] : kLoops) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  loop->second(std::strtoull(arguments[2], nullptr, 10), arguments[3]);
}
