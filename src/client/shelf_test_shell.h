// A shelf whose lanes a test fills by hand.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <variant>
#include <vector>

#include "client/shelf.h"

namespace penstock {

inline Layout Cut(uint64_t batch, uint32_t mix = 1, bool drop = false) {
  Layout layout;
  layout.batch = batch;
  layout.mix = mix;
  layout.drop_remainder = drop;
  return layout;
}

inline GrantName Grant(uint32_t lane, uint32_t epoch = 0) { return {{Epoch{epoch}, ReplicaId{}, LaneId{lane}}, {}, Fence{1}}; }

inline ShelfBlock Rows(uint64_t handle, uint64_t from, uint64_t to) {
  return {Handle{handle}, {to - from, {from, 0}, {to, 0}, 8 * (to - from), 0}, {}};
}

inline uint64_t Count(const std::vector<Slice>& slices) {
  uint64_t rows = 0;
  for (const Slice& slice : slices) rows += slice.rows;
  return rows;
}

class ShelfTest : public ::testing::Test {
 protected:
  void Start(Layout layout) {
    shelf_.Configure(layout, Epoch{0});
    shelf_.SetLease({std::chrono::seconds(12)});
  }
  void Open(const GrantName& grant) {
    shelf_.Add(grant, {}, Epoch{0});
    shelf_.SetOpen(grant, true);
  }
  std::vector<Slice> Batch() {
    Shelf::Taken taken = shelf_.Next();
    auto* slices = std::get_if<std::vector<Slice>>(&taken);
    return slices == nullptr ? std::vector<Slice>() : *slices;
  }
  bool Waits() { return std::holds_alternative<Shelf::Wait>(shelf_.Next()); }
  bool AtEnd() { return std::holds_alternative<Shelf::EpochEnd>(shelf_.Next()); }
  static const Mark* Find(const Progress& progress, const GrantName& grant) {
    for (const Mark& mark : progress.marks) {
      if (mark.grant == grant) return &mark;
    }
    return nullptr;
  }

  ManualClock clock_;
  Shelf shelf_{clock_};
};

}  // namespace penstock
