#include "base/extent.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <mutex>
#include <new>
#include <utility>

#include "base/constants.h"

namespace penstock {
namespace {

constexpr std::align_val_t kAlign{64};
constexpr uint64_t kSmallestKept = 64 * kKiB;  // smaller ones are the allocator's daily bread

Result<std::byte*> NewBlock(uint64_t bytes) {
  if (bytes > kMaxBlock) {
    return Status(Code::kTooLarge, "a block of " + std::to_string(bytes) + " bytes is over the cap of " + std::to_string(kMaxBlock));
  }
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlign, std::nothrow));
  if (memory == nullptr) return Status(Code::kBusy, "out of memory for a block of " + std::to_string(bytes) + " bytes");
  return memory;
}

// Sizes of which one takes another's memory: eight a power of two.
uint64_t SizeClass(uint64_t bytes) {
  if (bytes < kSmallestKept) return bytes;
  const uint64_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

// Gone with the last of its extents, and the memory with it.
class Extent::SharedHome final : public Extent::Home {
 public:
  explicit SharedHome(Extent inner) : inner_(std::move(inner)) {}
  void Return(std::span<std::byte> /*bytes*/, uint64_t /*tag*/) noexcept override {}

 private:
  Extent inner_;
};

Extent Extent::Share() {
  const auto span = bytes_;
  const auto following = following_;
  const auto packing = packing_;
  const auto shared = std::make_shared<SharedHome>(std::move(*this));
  Extent other(span, tag_, shared);
  other.Follow(following);
  other.Pack(packing);
  *this = Extent(span, tag_, shared);
  Follow(following);
  Pack(packing);
  return other;
}

class HeapExtents::Heap final : public Extent::Home {
 public:
  void Return(std::span<std::byte> bytes, uint64_t /*tag*/) noexcept override {
    out.fetch_sub(bytes.size(), std::memory_order_relaxed);
    ::operator delete(bytes.data(), kAlign);
  }
  std::atomic<uint64_t> out{0};
};

HeapExtents::HeapExtents() : heap_(std::make_shared<Heap>()) {}

Result<Extent> HeapExtents::Allocate(uint64_t bytes) {
  PENSTOCK_ASSIGN(std::byte* const memory, NewBlock(bytes));
  heap_->out.fetch_add(bytes, std::memory_order_relaxed);
  return Extent({memory, bytes}, 0, heap_);
}

uint64_t HeapExtents::bytes_out() const { return heap_->out.load(std::memory_order_relaxed); }

class HotExtents::Shelf final : public Extent::Home {
 public:
  ~Shelf() override {
    for (const Piece& piece : kept_) ::operator delete(piece.memory, kAlign);
  }

  // Null: none of the size is kept.
  std::byte* Take(uint64_t size) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [size](const Piece& piece) { return piece.size == size; });
    if (found == kept_.rend()) return nullptr;
    std::byte* memory = found->memory;
    bytes_kept_ -= size;
    kept_.erase(std::next(found).base());
    return memory;
  }

  // The ones that lie there longest go.
  void Return(std::span<std::byte> bytes, uint64_t /*tag*/) noexcept override {
    out.fetch_sub(bytes.size(), std::memory_order_relaxed);
    const uint64_t size = SizeClass(bytes.size());
    if (size < kSmallestKept || size > kMaxKept) return ::operator delete(bytes.data(), kAlign);
    std::deque<Piece> dropped;
    {
      const std::lock_guard lock(mutex_);
      kept_.push_back({bytes.data(), size});
      for (bytes_kept_ += size; bytes_kept_ > kMaxKept; kept_.pop_front()) {
        bytes_kept_ -= kept_.front().size;
        dropped.push_back(kept_.front());
      }
    }
    for (const Piece& piece : dropped) ::operator delete(piece.memory, kAlign);
  }

  uint64_t bytes_kept() const {
    const std::lock_guard lock(mutex_);
    return bytes_kept_;
  }

  std::atomic<uint64_t> out{0};

 private:
  struct Piece {
    std::byte* memory = nullptr;
    uint64_t size = 0;
  };
  mutable std::mutex mutex_;
  std::deque<Piece> kept_;
  uint64_t bytes_kept_ = 0;
};

HotExtents::HotExtents() : shelf_(std::make_shared<Shelf>()) {}

Result<Extent> HotExtents::Allocate(uint64_t bytes) {
  const uint64_t size = SizeClass(bytes);
  std::byte* memory = size < kSmallestKept ? nullptr : shelf_->Take(size);
  if (memory == nullptr) {
    PENSTOCK_ASSIGN(memory, NewBlock(size));
  }
  shelf_->out.fetch_add(bytes, std::memory_order_relaxed);
  return Extent({memory, bytes}, 0, shelf_);
}

uint64_t HotExtents::bytes_out() const { return shelf_->out.load(std::memory_order_relaxed); }

uint64_t HotExtents::bytes_kept() const { return shelf_->bytes_kept(); }

}  // namespace penstock
