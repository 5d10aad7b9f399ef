// Shared memory of a worker for a job: blocks are written into it once, and a consumer on the same host reads them there (engine.md 2).
//
// A segment is a sealed memfd. The worker's SegmentPool cuts extents from it; a session lends an extent to its peer and takes it back when the
// peer says so. When the session ends before that, the segment is retired: nothing in it is used again, and the kernel frees it when the last
// mapping on either side is gone. So nobody cleans up after a crash, and a tensor outlives worker and session.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/constants.h"
#include "base/extent.h"
#include "penstock/status.h"
#include "wire/socket.h"

namespace penstock {

enum class SegmentId : uint32_t {};  // below 2^24; 0 is no segment

// Extent::tag() of an extent in a segment.
constexpr uint64_t ExtentTag(SegmentId segment, uint64_t offset) { return uint64_t{static_cast<uint32_t>(segment)} << 40 | offset / 64; }
constexpr SegmentId SegmentOf(uint64_t tag) { return SegmentId{static_cast<uint32_t>(tag >> 40)}; }
constexpr uint64_t OffsetOf(uint64_t tag) { return (tag & ((uint64_t{1} << 40) - 1)) * 64; }

// One piece of shared memory, mapped. Any thread.
class Segment {
 public:
  ~Segment();
  Segment(const Segment&) = delete;

  SegmentId id() const { return id_; }
  std::span<std::byte> memory() const { return memory_; }
  int descriptor() const { return fd_.get(); }
  // Nothing in it is handed out again: somebody who is gone may still read it.
  void Retire() { retired_ = true; }
  bool retired() const { return retired_; }

  static Result<std::shared_ptr<Segment>> Make(SegmentId id, uint64_t bytes);
  // Maps what a peer has made. Refuses what is not sealed at exactly this size: it could be cut off under a reader's eyes.
  static Result<std::shared_ptr<Segment>> Map(SegmentId id, uint64_t bytes, Fd fd);

 private:
  Segment(SegmentId id, std::span<std::byte> memory, Fd fd) : id_(id), memory_(memory), fd_(std::move(fd)) {}
  const SegmentId id_;
  const std::span<std::byte> memory_;
  const Fd fd_;
  std::atomic<bool> retired_{false};
};

// The segments of a process that lends: one table for all its pools and listeners. Any thread.
class SegmentTable {
 public:
  Result<std::shared_ptr<Segment>> Make(uint64_t bytes);
  std::shared_ptr<Segment> Find(SegmentId id) const;  // null where it is gone or retired

 private:
  mutable std::mutex mutex_;
  uint32_t last_ = 0;
  std::unordered_map<SegmentId, std::weak_ptr<Segment>> segments_;
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
  // Memory that was touched and not given back to the kernel: extents out, free lists, and what small extents out share pages with.
  uint64_t touched_bytes() const;
  uint64_t bytes_out() const;
  // Gives what is free back to the kernel: when the job is idle, or blocks elsewhere or of other sizes need the room.
  void Trim();

 private:
  class State;
  std::shared_ptr<State> state_;
};

// Tags of extents that were let go of.
struct ReturnedExtents {
  std::vector<uint64_t> free;
  std::vector<uint64_t> kept;  // a forked child may read them still: their memory must not be used again
  bool empty() const { return free.empty() && kept.empty(); }
};

// The consumer's side: a peer's segments, mapped once each, and what is borrowed from them. On the I/O thread, but for extents that go home.
class SegmentMap {
 public:
  // `on_freed` is called on the thread that let go of an extent, when there was nothing else to give back; never after the map is gone.
  explicit SegmentMap(std::function<void()> on_freed);
  ~SegmentMap();

  Status Add(SegmentId id, uint64_t bytes, Fd fd);
  void Remove(SegmentId id);  // its memory stays as long as extents of it live
  // The extent that a peer lent; its tag is given back once it was let go of. Refuses what is not inside a known segment.
  Result<Extent> Borrow(uint64_t tag, uint64_t bytes);
  ReturnedExtents TakeReturned();

 private:
  class Freed;
  class Loan;
  std::unordered_map<SegmentId, std::shared_ptr<Segment>> segments_;
  std::shared_ptr<Freed> freed_;
};

// Extents borrowed so far come back as `kept`, since a child may read them. Called before the fork, and again after it in the parent: what another
// thread let go of or borrowed in between is kept, too.
void KeepBorrowed();

}  // namespace penstock
