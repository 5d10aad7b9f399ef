#include "client/recent_batches.h"

#include <algorithm>

#include "base/columns.h"

namespace penstock {
namespace {

std::span<const int64_t> OffsetsOf(const ColumnData& column, size_t level) {
  const std::span<const std::byte> bytes = column.buffers[level];
  return {reinterpret_cast<const int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t)};
}

// The row that has this byte of the values: from the innermost ragged level to the outermost.
std::optional<uint64_t> RowWith(uint64_t byte, const ColumnSpec& spec, const ColumnData& column) {
  const ColumnShape shape(spec);
  uint64_t entry = byte / shape.fan[shape.levels];
  for (size_t level = shape.levels; level-- > 0;) {
    const std::span<const int64_t> offsets = OffsetsOf(column, level);
    const auto after = std::upper_bound(offsets.begin(), offsets.end(), static_cast<int64_t>(entry));
    if (after == offsets.begin() || after == offsets.end()) return std::nullopt;
    entry = static_cast<uint64_t>(after - offsets.begin() - 1) / shape.fan[level];
  }
  return entry;
}

}  // namespace

void RecentBatches::Add(const Batch& batch) {
  Known known{.hold = batch.hold(), .memory = {}, .columns = {}, .pieces = batch.pieces(), .rows = batch.rows(), .tag = batch.tag()};
  for (size_t i = 0; i < batch.column_count(); ++i) {
    const std::span<const std::byte> values = batch.column(i).values();
    const auto begin = reinterpret_cast<uintptr_t>(values.data());
    known.memory.emplace_back(begin, begin + values.size());
    if (rows_alone_) known.columns.push_back(batch.column(i));
  }
  if (kept_.size() == kKept) kept_.pop_front();
  kept_.push_back(std::move(known));
}

std::optional<RecentBatches::Found> RecentBatches::Find(uint64_t address) const {
  for (auto known = kept_.rbegin(); known != kept_.rend(); ++known) {
    for (size_t i = 0; i < known->memory.size(); ++i) {
      const auto& [begin, end] = known->memory[i];
      if (address < begin || address >= end) continue;
      if (std::shared_ptr<const void> hold = known->hold.lock()) return Found{std::move(hold), &*known, i};
    }
  }
  return std::nullopt;
}

std::optional<std::vector<Piece>> RecentBatches::PiecesAt(uint64_t address) const {
  const std::optional<Found> found = Find(address);
  return found ? std::optional(found->known->pieces) : std::nullopt;
}

std::optional<BatchTag> RecentBatches::TagAt(uint64_t address) const {
  const std::optional<Found> found = Find(address);
  if (!found) return std::nullopt;
  const Known& known = *found->known;
  if (!rows_alone_) return known.tag;
  const size_t column = found->column;
  const std::optional<uint64_t> row = RowWith(address - known.memory[column].first, spec_.columns[column], known.columns[column]);
  if (!row || *row >= known.rows) return std::nullopt;
  return BatchTag{known.tag.generation, known.tag.step - (known.rows - 1 - *row)};
}

}  // namespace penstock
