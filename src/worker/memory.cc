#include "worker/memory.h"

#include <algorithm>
#include <string>
#include <utility>

namespace penstock::worker {
namespace {

std::atomic<uint64_t> next_handle{1};

}  // namespace

std::shared_ptr<SegmentPool> JobSegments::For(JobId job) {
  const std::lock_guard lock(mutex_);
  auto& pool = pools_[job];
  if (pool == nullptr) pool = std::make_shared<SegmentPool>(table_);
  return pool;
}

void JobSegments::Forget(JobId job) {
  const std::lock_guard lock(mutex_);
  pools_.erase(job);
}

// One at a time: two that looked before either took would both find room for one.
Result<Extent> JobSegments::Allocate(SegmentPool& pool, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (TouchedBytes() + SegmentPool::ChargeOf(bytes) > memory_) TrimPools();
  return pool.Allocate(bytes);
}

void JobSegments::TrimAll() {
  const std::lock_guard lock(mutex_);
  TrimPools();
}

void JobSegments::Shrink(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  memory_ -= std::min(bytes, memory_);
}

uint64_t JobSegments::TouchedBytes() const {
  uint64_t touched = 0;
  for (const auto& [job, pool] : pools_) touched += pool->touched_bytes();
  return touched;
}

void JobSegments::TrimPools() {
  for (const auto& [job, pool] : pools_) pool->Trim();
}

// Tells the core when the memory of a block is home.
class LaneAllocator::Home final : public Extent::Home {
 public:
  Home(Extent inner, BlockHandle handle, std::shared_ptr<Inbox> inbox) : inner_(std::move(inner)), handle_(handle), inbox_(std::move(inbox)) {}
  void Return(std::span<std::byte> /*bytes*/, uint64_t /*tag*/) noexcept override {
    inner_.Reset();
    inbox_->Push({BlockFreed{handle_}, {}});
  }

 private:
  Extent inner_;
  BlockHandle handle_;
  std::shared_ptr<Inbox> inbox_;
};

void LaneAllocator::BeginStep(uint64_t room) {
  room_ = room;
  pieces_.clear();
}

Result<Extent> LaneAllocator::Allocate(uint64_t bytes) {
  const uint64_t charge = SegmentPool::ChargeOf(bytes);
  if (charge > room_) return Status(Code::kBusy, "a block of " + std::to_string(bytes) + " bytes waits for room in the worker's budget");
  PENSTOCK_ASSIGN(Extent extent, segments_->Allocate(*pool_, bytes));
  room_ -= charge;
  const BlockHandle handle{next_handle.fetch_add(1, std::memory_order_relaxed)};
  pieces_.push_back({extent.bytes().data(), {handle, charge}});
  const auto span = extent.bytes();
  const uint64_t tag = extent.tag();
  return Extent(span, tag, std::make_shared<Home>(std::move(extent), handle, inbox_));
}

LaneAllocator::Given LaneAllocator::Of(const Extent& block) const {
  for (const Piece& piece : pieces_) {
    if (piece.at == block.bytes().data()) return piece.given;
  }
  DieOf(Status(Code::kInternal, "a step returned a block that it did not allocate"));
}

}  // namespace penstock::worker
