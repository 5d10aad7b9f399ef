// Memory for blocks. An Extent is a piece of memory with an owner to whom it goes back when the last holder lets go, on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "penstock/status.h"

namespace penstock {

// What comes behind the bytes of an extent, piece by piece, and is not the extent's: `owner` keeps it as it is.
struct Following {
  std::vector<std::span<const std::byte>> pieces;
  uint64_t bytes = 0;  // of all pieces
  std::shared_ptr<const void> owner;
};

// How bytes are packed for their way; the numbers are on the wire.
enum class PackCodec : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2 };

// What became of a block that was to be packed where it lies (wire/packing.h). Of codec kNone: it would not have become smaller, and is as it was.
struct Packing {
  PackCodec codec = PackCodec::kNone;
  uint64_t raw_bytes = 0;
  std::vector<uint32_t> pieces{};  // how long each is, packed
  uint64_t bytes = 0;              // of all pieces
  std::chrono::nanoseconds cpu{};  // that it took; does not travel
};

// Moves; gives the memory back when destroyed. 64-byte aligned.
class Extent {
 public:
  // Takes the memory back. Called once an extent, on the thread that let go, without locks of the caller held.
  class Home {
   public:
    virtual ~Home() = default;
    virtual void Return(std::span<std::byte> bytes, uint64_t tag) noexcept = 0;
  };

  Extent() = default;
  Extent(std::span<std::byte> bytes, uint64_t tag, std::shared_ptr<Home> home) : bytes_(bytes), tag_(tag), home_(std::move(home)) {}
  Extent(Extent&& other) noexcept { *this = std::move(other); }
  Extent& operator=(Extent&& other) noexcept {
    if (this != &other) {
      Reset();
      bytes_ = std::exchange(other.bytes_, {});
      tag_ = other.tag_;
      home_ = std::move(other.home_);
      following_ = std::move(other.following_);
      packing_ = std::move(other.packing_);
    }
    return *this;
  }
  ~Extent() { Reset(); }

  std::span<std::byte> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  // Where it lies, for its home: segment << 40 | offset / 64 in shared memory; 0 on the heap.
  uint64_t tag() const { return tag_; }
  bool empty() const { return bytes_.data() == nullptr; }

  // A block whose buffers stay where they are: it goes over a socket from there. Null: all of it is in bytes().
  void Follow(std::shared_ptr<const Following> following) { following_ = std::move(following); }
  const Following* following() const { return following_.get(); }

  // Its block was to be packed in place. Where it was, only the first bytes are of use, and only to who unpacks them. Null: nobody tried.
  void Pack(std::shared_ptr<const Packing> packing) { packing_ = std::move(packing); }
  const Packing* packing() const { return packing_.get(); }
  bool packed() const { return packing_ != nullptr && packing_->codec != PackCodec::kNone; }

  // What goes over a socket: these bytes, then what follows.
  std::span<std::byte> sent() const { return packed() ? bytes_.first(packing_->bytes) : bytes_; }
  uint64_t sent_size() const { return sent().size() + (following_ == nullptr ? 0 : following_->bytes); }
  // Of the block, packed or not.
  uint64_t whole_size() const { return bytes_.size() + (following_ == nullptr ? 0 : following_->bytes); }

  // Another holder of the same memory, which goes home when both have let go. Whoever holds it reads only.
  Extent Share();

  void Reset() noexcept {
    if (home_ != nullptr) home_->Return(bytes_, tag_);
    home_.reset();
    following_.reset();
    packing_.reset();
    bytes_ = {};
  }

 private:
  class SharedHome;

  std::span<std::byte> bytes_;
  uint64_t tag_ = 0;
  std::shared_ptr<Home> home_;
  std::shared_ptr<const Following> following_;
  std::shared_ptr<const Packing> packing_;
};

// Where a lane gets memory for its blocks. Waiting is the answer to a full budget: Busy means ask again when told; TooLarge means never.
class ExtentAllocator {
 public:
  virtual ~ExtentAllocator() = default;
  virtual Result<Extent> Allocate(uint64_t bytes) = 0;
};

// Plain aligned memory without a budget: for `inline`, tools and tests. Counts what is out.
class HeapExtents final : public ExtentAllocator {
 public:
  HeapExtents();
  Result<Extent> Allocate(uint64_t bytes) override;
  uint64_t bytes_out() const;

 private:
  class Heap;
  std::shared_ptr<Heap> heap_;
};

// The same for blocks that come and go: what was let go of last is handed out first, since fresh pages cost more than a copy. Keeps at most
// kMaxKept bytes that nobody uses, and lets go of them with itself and the last of its extents. Any thread.
class HotExtents final : public ExtentAllocator {
 public:
  static constexpr uint64_t kMaxKept = uint64_t{64} << 20;
  HotExtents();
  Result<Extent> Allocate(uint64_t bytes) override;
  uint64_t bytes_out() const;
  uint64_t bytes_kept() const;

 private:
  class Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace penstock
