// The last batches that a loop got, found by the memory of any of their columns: a loop that prefetches says with a tensor how far it is.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "penstock/client.h"

namespace penstock {

// One thread at a time. Keeps no memory of batches; whoever let go of a batch cannot ask for it, since others may use its memory by then.
class RecentBatches {
 public:
  static constexpr size_t kKept = 64;

  // Where the plan does not batch, the loop hands out the rows of what it gets one by one.
  explicit RecentBatches(const Layout& layout) : rows_alone_(layout.batch == 0), spec_(layout.row_spec) {}

  void Add(const Batch& batch);

  // Of the batch that has memory there; nullopt where none has.
  std::optional<std::vector<Piece>> PiecesAt(uint64_t address) const;
  // The same; of the row, where rows are alone. nullopt also where no row is there.
  std::optional<BatchTag> TagAt(uint64_t address) const;

 private:
  struct Known {
    std::weak_ptr<const void> hold;
    std::vector<std::pair<uint64_t, uint64_t>> memory;  // of the values of each column: from, to
    std::vector<ColumnData> columns;                    // where rows are alone; to be read while the hold lives
    std::vector<Piece> pieces;
    uint64_t rows = 0;
    BatchTag tag;
  };
  // With its hold, for as long as it is looked at.
  struct Found {
    std::shared_ptr<const void> hold;
    const Known* known = nullptr;
    size_t column = 0;
  };
  std::optional<Found> Find(uint64_t address) const;

  bool rows_alone_;
  Spec spec_;
  std::deque<Known> kept_;
};

}  // namespace penstock
