// Random specs and blocks, for tests of whatever makes, moves or reads blocks.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/extent.h"
#include "penstock/spec.h"
#include "wire/block.h"

namespace penstock {

// A block in memory of its own, and what was put into its buffers.
struct SampleBlock {
  Spec spec;
  BlockPlan plan;
  std::vector<RowCursor> cursors;
  std::vector<std::string> buffers;  // of the columns
  Extent extent;
};

class BlockSampler {
 public:
  explicit BlockSampler(uint64_t seed) : random_(seed) {}

  Spec RandomSpec() {
    std::vector<ColumnSpec> columns(1 + Below(4));
    for (size_t i = 0; i < columns.size(); ++i) {
      columns[i].name = "c" + std::to_string(i);
      columns[i].dtype = DType{static_cast<uint8_t>(1 + Below(16))};
      for (uint64_t d = Below(4); d > 0; --d) columns[i].shape.push_back(Below(2) == 0 ? kRagged : static_cast<int64_t>(Below(4)));
    }
    return DictSpec(std::move(columns));
  }

  SampleBlock RandomBlock(Spec spec, uint64_t rows, bool has_cursors) {
    SampleBlock block{.spec = std::move(spec), .plan = {}, .cursors = {}, .buffers = {}, .extent = {}};
    const Cursor first{Below(1000), has_cursors ? static_cast<uint32_t>(Below(3)) : 0};
    Cursor end = first;
    for (uint64_t i = 0; i < rows; ++i) {
      if (has_cursors && Below(2) == 0) end.seq += Below(3);
      block.cursors.push_back({end.seq, end.child, 0});
      end = has_cursors && Below(2) == 0 ? Cursor{end.seq, end.child + 1} : Cursor{end.seq + 1, 0};
    }
    for (const ColumnSpec& column : block.spec.columns) AddColumn(column, rows, block.buffers);
    std::vector<uint64_t> lengths;
    for (const std::string& buffer : block.buffers) lengths.push_back(buffer.size());
    block.plan = PlanBlock(rows, first, end, has_cursors, lengths);
    block.extent = HeapExtents().Allocate(block.plan.header.total_bytes).value();
    Fill(block);
    return block;
  }

  uint64_t Below(uint64_t n) { return random_() % n; }

 private:
  std::string RandomBytes(uint64_t length) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  uint64_t AddOffsets(uint64_t count, std::vector<std::string>& buffers) {
    std::vector<int64_t> offsets{0};
    for (uint64_t i = 0; i < count; ++i) offsets.push_back(offsets.back() + static_cast<int64_t>(Below(4)));
    buffers.emplace_back(reinterpret_cast<const char*>(offsets.data()), offsets.size() * sizeof(int64_t));
    return static_cast<uint64_t>(offsets.back());
  }

  void AddColumn(const ColumnSpec& column, uint64_t rows, std::vector<std::string>& buffers) {
    uint64_t count = rows;
    for (const int64_t dimension : column.shape) count = dimension == kRagged ? AddOffsets(count, buffers) : count * static_cast<uint64_t>(dimension);
    if (column.dtype == DType::kString) count = AddOffsets(count, buffers);
    buffers.push_back(RandomBytes(count * SizeOf(column.dtype)));
  }

  static void Fill(SampleBlock& block) {
    std::byte* out = block.extent.bytes().data();
    WriteBlockHead(block.plan, block.extent.bytes());
    size_t place = 0;
    if ((block.plan.header.flags & kHasCursors) != 0)
      Copy(out + block.plan.places[place++].offset, block.cursors.data(), block.cursors.size() * sizeof(RowCursor));
    for (const std::string& buffer : block.buffers) Copy(out + block.plan.places[place++].offset, buffer.data(), buffer.size());
  }
  static void Copy(std::byte* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  std::mt19937_64 random_;
};

}  // namespace penstock
