// Shared memory of a worker for a job: blocks are written into it once, and a consumer on the same host reads them there (engine.md 2).
//
// A segment is a sealed memfd. The worker's SegmentPool cuts extents from it; a session lends an extent to its peer and takes it back when the
// peer says so. When the session ends before that, the segment is retired: nothing in it is used again, and the kernel frees it when the last
// mapping on either side is gone. So nobody cleans up after a crash, and a tensor outlives worker and session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/constants.h"
#include "base/extent.h"
#include "penstock/status.h"

namespace penstock {

enum class SegmentId : uint32_t {};  // below 2^24; 0 is no segment

// Extent::tag() of an extent in a segment.
constexpr uint64_t ExtentTag(SegmentId segment, uint64_t offset) { return uint64_t{static_cast<uint32_t>(segment)} << 40 | offset / 64; }
constexpr SegmentId SegmentOf(uint64_t tag) { return SegmentId{static_cast<uint32_t>(tag >> 40)}; }
constexpr uint64_t OffsetOf(uint64_t tag) { return (tag & ((uint64_t{1} << 40) - 1)) * 64; }

class Segment;

// The segments of a process that lends: one table for all its pools and listeners. Any thread.
class SegmentTable {
 public:
  SegmentTable();
  ~SegmentTable();
  Result<std::shared_ptr<Segment>> Make(uint64_t bytes);
  std::shared_ptr<Segment> Find(SegmentId id) const;  // null where it is gone or retired

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Where the blocks of one job on one worker live. Any thread; extents may outlive the pool.
class SegmentPool final : public ExtentAllocator {
 public:
  explicit SegmentPool(std::shared_ptr<SegmentTable> table, uint64_t segment_bytes = kSegmentBytes);
  ~SegmentPool() override;
  // Never says Busy for a budget: charge ChargeOf(bytes) before asking.
  Result<Extent> Allocate(uint64_t bytes) override;
  // What an allocation takes: its size class.
  static uint64_t ChargeOf(uint64_t bytes);
  // Memory that was ever touched and is not given back to the kernel: extents out, and free lists.
  uint64_t touched_bytes() const;
  uint64_t bytes_out() const;
  // Gives segments without extents out back to the kernel: when the job is idle, or others need the room.
  void Trim();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace penstock
