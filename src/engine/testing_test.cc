#include "engine/testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/columns.h"
#include "formats/tfrecord_writer.h"

namespace penstock::engine::testing {
namespace {

AttrMap ToMap(Attrs attrs) {
  AttrMap map;
  for (const auto& [name, value] : attrs) map.Set(name, value);
  return map;
}

template <class T>
void PrintValues(std::span<const std::byte> bytes, std::string& text) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (at > 0) text += ",";
    if constexpr (std::is_floating_point_v<T>) {
      text += std::to_string(static_cast<double>(value)).substr(0, 6);
    } else {
      text += std::to_string(value);
    }
  }
}

std::string PrintColumn(const ColumnSpec& spec, const ColumnView& view, uint64_t row) {
  std::vector<uint64_t> lengths;
  view.BufferLengths(row, 1, lengths);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> buffers;
  for (const uint64_t length : lengths) memory.emplace_back(length);
  for (auto& buffer : memory) buffers.emplace_back(buffer);
  view.CopyTo(row, 1, buffers);
  std::string text;
  const bool plain_string = spec.dtype == DType::kString && spec.shape.empty();
  for (size_t level = 0; level + 1 < buffers.size() && !plain_string; ++level) {
    std::vector<int64_t> offsets(buffers[level].size() / sizeof(int64_t));
    std::memcpy(offsets.data(), buffers[level].data(), buffers[level].size());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) text += std::to_string(offsets[i + 1] - offsets[i]) + (i + 2 < offsets.size() ? "," : ":");
    if (offsets.size() < 2) text += ":";
  }
  switch (spec.dtype) {
    case DType::kString: text.append(reinterpret_cast<const char*>(buffers.back().data()), buffers.back().size()); break;
    case DType::kFloat32: PrintValues<float>(buffers.back(), text); break;
    case DType::kInt32: PrintValues<int32_t>(buffers.back(), text); break;
    default: PrintValues<int64_t>(buffers.back(), text); break;
  }
  return text;
}

void PrintBlock(const Spec& spec, std::span<const std::byte> bytes, std::vector<std::string>& rows) {
  const Result<BlockView> block = CheckBlock(spec, bytes);
  ASSERT_TRUE(block.ok()) << block.status();
  std::vector<ColumnShape> shapes;
  for (const ColumnSpec& column : spec.columns) shapes.emplace_back(column);
  std::vector<ColumnView> views;
  size_t next = 0;
  for (size_t i = 0; i < spec.columns.size(); ++i) {
    std::vector<std::span<const std::byte>> buffers;
    for (size_t b = 0; b < BufferCount(spec.columns[i]); ++b) buffers.push_back(block->buffer(next++));
    views.push_back(ColumnView::Of(shapes[i], block->rows(), buffers));
  }
  for (uint64_t row = 0; row < block->rows(); ++row) {
    std::string text;
    for (size_t i = 0; i < views.size(); ++i) {
      const std::string column = PrintColumn(spec.columns[i], views[i], row);
      text += views.size() == 1 ? column : "[" + column + "]";
    }
    rows.push_back(text);
  }
}

// Reads up to LaneOver or an error.
Status Read(const Pipeline& pipeline, uint32_t lane, const ReadOptions& options, std::vector<std::string>& rows) {
  HeapExtents heap;
  LaneRequest request;
  request.key = {Epoch{options.epoch}, ReplicaId{options.replica}, LaneId{lane}};
  request.from = {options.from, 0};
  request.to = options.to;
  request.block_target = options.block_target;
  request.block_cap = options.block_cap;
  request.allocator = &heap;
  PENSTOCK_ASSIGN(const auto run, pipeline.OpenLane(request));
  Seq next = options.from;
  for (;;) {
    StepResult step = run->Step();
    if (auto* produced = std::get_if<Produced>(&step)) {
      EXPECT_EQ(produced->info.first.seq, next);
      EXPECT_EQ(produced->info.bytes, produced->extent.size());
      PrintBlock(pipeline.layout().row_spec, produced->extent.bytes(), rows);
      next += produced->info.rows;
      EXPECT_EQ(produced->info.end.seq, next);
      if (options.on_block) options.on_block(produced->info);
    } else if (const auto* over = std::get_if<LaneOver>(&step)) {
      EXPECT_EQ(over->end.seq, next);
      return {};
    } else if (const auto* status = std::get_if<Status>(&step)) {
      return *status;
    } else {
      return Status(Code::kInternal, "the heap said busy");
    }
  }
}

}  // namespace

Plan Source(std::string op, Attrs attrs) { return Plan::Over({}, std::move(op), ToMap(attrs)); }
Plan Over(const Plan& input, std::string op, Attrs attrs) { return Plan::Over({input}, std::move(op), ToMap(attrs)); }
Plan Over(const std::vector<Plan>& inputs, std::string op) { return Plan::Over(inputs, std::move(op), {}); }
Plan Numbers(int64_t stop) { return Source("range", {{"stop", stop}}); }

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "penstock-engine-XXXXXX").string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  path_ = name;
}
TempDir::~TempDir() { std::filesystem::remove_all(path_); }

std::vector<std::string> WriteFiles(const TempDir& dir, int files, int records, Compression compression, size_t padding) {
  std::vector<std::string> paths;
  std::mt19937_64 random(1);
  for (int file = 0; file < files; ++file) {
    const std::string number = std::to_string(file);
    paths.push_back(dir.Path("part-" + std::string(4 - std::min<size_t>(number.size(), 4), '0') + number));
    auto writer = TfRecordWriter::Create(paths.back(), compression);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (int record = 0; record < records; ++record) {
      std::string text = "f" + number + "r" + std::to_string(record);
      if (padding > 0) text += " ";
      for (size_t i = 0; i < padding; ++i) text.push_back(static_cast<char>('!' + random() % 90));
      EXPECT_TRUE((*writer)->Write(text).ok());
    }
    EXPECT_TRUE((*writer)->Close().ok());
  }
  return paths;
}

Plan Records(const std::vector<std::string>& files) { return Source("tfrecord", {{"files", files}}); }

std::string NameOf(const std::string& row) { return row.substr(0, row.find(' ')); }

std::shared_ptr<const Pipeline> Compile(const Plan& plan, uint64_t seed) {
  const Result<Manifest> manifest = ListInputs(plan);
  EXPECT_TRUE(manifest.ok()) << manifest.status();
  auto pipeline = Pipeline::Compile(plan, *manifest, seed);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return *pipeline;
}

std::vector<std::string> ReadLane(const Pipeline& pipeline, uint32_t lane, const ReadOptions& options) {
  std::vector<std::string> rows;
  const Status status = Read(pipeline, lane, options, rows);
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

std::vector<std::string> ReadEpoch(const Pipeline& pipeline, const ReadOptions& options) {
  std::vector<std::string> all;
  for (uint32_t lane = 0; lane < pipeline.layout().lanes; ++lane) {
    const std::vector<std::string> rows = ReadLane(pipeline, lane, options);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

Status ReadError(const Pipeline& pipeline, uint32_t lane, std::vector<std::string>* rows) {
  std::vector<std::string> unwanted;
  return Read(pipeline, lane, {}, rows == nullptr ? unwanted : *rows);
}

std::vector<std::string> Sorted(std::vector<std::string> rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace penstock::engine::testing
