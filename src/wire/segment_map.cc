#include <unistd.h>

#include <atomic>
#include <string>

#include "wire/segments.h"

namespace penstock {
namespace {

std::atomic<uint64_t> forks{0};

}  // namespace

void KeepBorrowed() { forks.fetch_add(1, std::memory_order_relaxed); }

// What to give back. Tensors die on any thread, and in forked children too: pushing takes no lock that a fork could leave locked.
class SegmentMap::Freed {
 public:
  explicit Freed(std::function<void()> on_freed) : on_freed_(std::move(on_freed)) {}
  ~Freed() { Take(); }

  void Push(uint64_t tag, bool kept) noexcept {
    if (getpid() != pid_) return;
    Node* before = head_.load(std::memory_order_relaxed);
    Node* node = new Node{tag, kept, before};
    // Once it is in the list the node belongs to whoever takes it: `before` is looked at, never the node.
    while (!head_.compare_exchange_weak(before, node, std::memory_order_release, std::memory_order_relaxed)) node->next = before;
    if (before != nullptr) return;
    std::lock_guard lock(mutex_);
    if (on_freed_) on_freed_();
  }
  ReturnedExtents Take() {
    ReturnedExtents returned;
    for (Node* node = head_.exchange(nullptr, std::memory_order_acquire); node != nullptr;) {
      (node->kept ? returned.kept : returned.free).push_back(node->tag);
      delete std::exchange(node, node->next);
    }
    return returned;
  }
  void Detach() {
    std::lock_guard lock(mutex_);
    on_freed_ = nullptr;
  }

 private:
  struct Node {
    uint64_t tag;
    bool kept;
    Node* next;
  };
  const pid_t pid_ = getpid();
  std::atomic<Node*> head_{nullptr};
  std::mutex mutex_;  // of on_freed_: taken in this process only
  std::function<void()> on_freed_;
};

// An extent that was borrowed: keeps its segment mapped.
class SegmentMap::Loan final : public Extent::Home {
 public:
  Loan(std::shared_ptr<Segment> segment, std::shared_ptr<Freed> freed) : segment_(std::move(segment)), freed_(std::move(freed)) {}
  void Return(std::span<std::byte> /*bytes*/, uint64_t tag) noexcept override { freed_->Push(tag, forks_ != forks.load(std::memory_order_relaxed)); }

 private:
  const std::shared_ptr<Segment> segment_;
  const std::shared_ptr<Freed> freed_;
  const uint64_t forks_ = forks.load(std::memory_order_relaxed);
};

SegmentMap::SegmentMap(std::function<void()> on_freed) : freed_(std::make_shared<Freed>(std::move(on_freed))) {}
SegmentMap::~SegmentMap() { freed_->Detach(); }

Status SegmentMap::Add(SegmentId id, uint64_t bytes, Fd fd) {
  if (segments_.contains(id)) return Status(Code::kData, "segment " + std::to_string(static_cast<uint32_t>(id)) + " was announced twice");
  PENSTOCK_ASSIGN(auto segment, Segment::Map(id, bytes, std::move(fd)));
  segments_.emplace(id, std::move(segment));
  return {};
}

void SegmentMap::Remove(SegmentId id) { segments_.erase(id); }

Result<Extent> SegmentMap::Borrow(uint64_t tag, uint64_t bytes) {
  const auto found = segments_.find(SegmentOf(tag));
  if (found == segments_.end()) {
    return Status(Code::kData, "a block in segment " + std::to_string(static_cast<uint32_t>(SegmentOf(tag))) + ", which was never announced");
  }
  const std::span<std::byte> memory = found->second->memory();
  const uint64_t offset = OffsetOf(tag);
  if (offset > memory.size() || bytes > memory.size() - offset) {
    return Status(Code::kData, "a block of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + " of a segment of " +
                                   std::to_string(memory.size()) + " bytes");
  }
  return Extent(memory.subspan(offset, bytes), tag, std::make_shared<Loan>(found->second, freed_));
}

ReturnedExtents SegmentMap::TakeReturned() { return freed_->Take(); }

}  // namespace penstock
