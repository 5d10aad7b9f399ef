#include "base/extent.h"

#include <new>
#include <utility>

#include "base/constants.h"

namespace penstock {
namespace {
constexpr std::align_val_t kAlign{64};
}  // namespace

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
  if (bytes > kMaxBlock) {
    return Status(Code::kTooLarge, "a block of " + std::to_string(bytes) + " bytes is over the cap of " + std::to_string(kMaxBlock));
  }
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlign, std::nothrow));
  if (memory == nullptr) return Status(Code::kBusy, "out of memory for a block of " + std::to_string(bytes) + " bytes");
  heap_->out.fetch_add(bytes, std::memory_order_relaxed);
  return Extent({memory, bytes}, 0, heap_);
}

uint64_t HeapExtents::bytes_out() const { return heap_->out.load(std::memory_order_relaxed); }

}  // namespace penstock
