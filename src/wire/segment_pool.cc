// How a pool cuts extents from segments: size classes with a LIFO free list each, so that hot pages are used again first. What was trimmed is
// cold: its place in the segment is kept, its pages are the kernel's.
#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>

#include "wire/segments.h"

namespace penstock {
namespace {

constexpr uint64_t kPage = 4 * kKiB;
constexpr uint64_t kSmallest = kPage;

uint64_t PagesOf(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

uint64_t SegmentPool::ChargeOf(uint64_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const uint64_t step = std::max<uint64_t>(std::bit_floor(bytes - 1) / 4, 64);  // four classes a power of two: at most a quarter is lost
  return (bytes + step - 1) / step * step;
}

class SegmentPool::State final : public Extent::Home, public std::enable_shared_from_this<State> {
 public:
  State(std::shared_ptr<SegmentTable> table, uint64_t segment_bytes) : table_(std::move(table)), segment_bytes_(segment_bytes) {}

  Result<Extent> Allocate(uint64_t bytes) {
    if (bytes > kMaxBlock) {
      return Status(Code::kTooLarge, "a block of " + std::to_string(bytes) + " bytes is over the cap of " + std::to_string(kMaxBlock));
    }
    const uint64_t charge = ChargeOf(bytes);
    std::lock_guard lock(mutex_);
    auto place = FromList(free_[charge]);
    if (place.slab == nullptr) place = FromCold(charge);
    if (place.slab == nullptr) place = FromRoom(charge);
    if (place.slab == nullptr) place = FromIdleSlab(charge);
    if (place.slab == nullptr) {
      PENSTOCK_ASSIGN(auto segment, table_->Make(std::max(segment_bytes_, PagesOf(charge))));
      Slab& slab = slabs_[segment->id()];
      slab.segment = std::move(segment);
      place = Cut(slab, charge);
    }
    ++place.slab->out;
    bytes_out_ += charge;
    const Segment& segment = *place.slab->segment;
    return Extent(segment.memory().subspan(place.offset, bytes), ExtentTag(segment.id(), place.offset), shared_from_this());
  }

  void Return(std::span<std::byte> bytes, uint64_t tag) noexcept override {
    std::shared_ptr<Segment> dropped;  // unmapped after the lock
    std::lock_guard lock(mutex_);
    const uint64_t charge = ChargeOf(bytes.size());
    const auto found = slabs_.find(SegmentOf(tag));
    Slab& slab = found->second;
    bytes_out_ -= charge;
    --slab.out;
    const bool usable = !closed_ && !slab.segment->retired();
    if (usable) {
      free_[charge].push_back(tag);
    } else if (slab.out == 0) {
      dropped = std::move(slab.segment);
      slabs_.erase(found);
    }
  }

  void Trim(bool close) {
    std::vector<std::shared_ptr<Segment>> dropped;
    std::lock_guard lock(mutex_);
    closed_ = closed_ || close;
    for (auto it = slabs_.begin(); it != slabs_.end();) {
      if (it->second.out > 0) {
        if (!it->second.segment->retired()) Cool(it->first, it->second);
        ++it;
        continue;
      }
      ForgetFree(it->first);
      dropped.push_back(std::move(it->second.segment));
      it = slabs_.erase(it);
    }
  }

  uint64_t touched_bytes() const {
    std::lock_guard lock(mutex_);
    uint64_t sum = 0;
    for (const auto& [id, slab] : slabs_) sum += slab.high - slab.cold;
    return sum;
  }
  uint64_t bytes_out() const {
    std::lock_guard lock(mutex_);
    return bytes_out_;
  }

 private:
  struct Slab {
    std::shared_ptr<Segment> segment;
    uint64_t used = 0;  // extents were cut up to here
    uint64_t high = 0;  // there may be pages up to here,
    uint64_t cold = 0;  // but for so many bytes, which were given back
    uint64_t out = 0;   // extents that somebody holds
  };
  using FreeLists = std::map<uint64_t, std::vector<uint64_t>>;  // tags by size class
  struct Place {
    Slab* slab = nullptr;
    uint64_t offset = 0;
  };

  static Place Cut(Slab& slab, uint64_t charge) {
    const uint64_t offset = slab.used;
    slab.used += charge;
    slab.high = std::max(slab.high, slab.used);
    return {&slab, offset};
  }
  static bool HasRoom(const Slab& slab, uint64_t charge) { return !slab.segment->retired() && slab.segment->memory().size() - slab.used >= charge; }

  Place FromList(std::vector<uint64_t>& list) {
    while (!list.empty()) {
      const uint64_t tag = list.back();
      list.pop_back();
      const auto found = slabs_.find(SegmentOf(tag));
      if (found != slabs_.end() && !found->second.segment->retired()) return {&found->second, OffsetOf(tag)};
    }
    return {};
  }
  Place FromCold(uint64_t charge) {
    const Place place = FromList(cold_[charge]);
    if (place.slab != nullptr) place.slab->cold -= std::min(place.slab->cold, PagesOf(charge) + kPage);  // with the pages at its ends
    return place;
  }
  Place FromRoom(uint64_t charge) {
    for (auto& [id, slab] : slabs_) {
      if (HasRoom(slab, charge)) return Cut(slab, charge);
    }
    return {};
  }
  // A slab that is wholly free but cut into other sizes is cut anew.
  Place FromIdleSlab(uint64_t charge) {
    for (auto& [id, slab] : slabs_) {
      if (slab.out > 0 || slab.segment->retired() || slab.segment->memory().size() < charge) continue;
      ForgetFree(id);
      slab.used = slab.cold = 0;
      return Cut(slab, charge);
    }
    return {};
  }
  void ForgetFree(SegmentId id) {
    for (FreeLists* lists : {&free_, &cold_}) {
      for (auto& [size, list] : *lists) std::erase_if(list, [id](uint64_t tag) { return SegmentOf(tag) == id; });
    }
  }

  // Gives back the pages of all that is free in a slab. Neighbours are taken together: small extents share their pages.
  void Cool(SegmentId id, Slab& slab) {
    if (!MoveToCold(id)) return;
    std::map<uint64_t, uint64_t> free{{slab.used, slab.segment->memory().size() - slab.used}};  // offset -> bytes
    for (const auto& [size, list] : cold_) {
      for (const uint64_t tag : list) {
        if (SegmentOf(tag) == id) free.emplace(OffsetOf(tag), size);
      }
    }
    uint64_t given = 0;
    for (auto at = free.begin(); at != free.end();) {
      const uint64_t begin = at->first;
      uint64_t end = begin;
      for (; at != free.end() && at->first == end; ++at) end += at->second;
      given += GiveBack(slab, PagesOf(begin), end / kPage * kPage);
    }
    slab.high = slab.used;
    slab.cold = given;
  }
  // False: nothing of it was on a free list.
  bool MoveToCold(SegmentId id) {
    bool any = false;
    for (auto& [size, list] : free_) {
      const auto moved = std::stable_partition(list.begin(), list.end(), [id](uint64_t tag) { return SegmentOf(tag) != id; });
      any = any || moved != list.end();
      auto& cold = cold_[size];
      cold.insert(cold.end(), moved, list.end());
      list.erase(moved, list.end());
    }
    return any;
  }
  // How many bytes of what was cut are the kernel's now.
  static uint64_t GiveBack(const Slab& slab, uint64_t begin, uint64_t end) {
    if (begin >= end) return 0;
    const auto bytes = static_cast<off_t>(end - begin);
    if (fallocate(slab.segment->descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin), bytes) != 0) return 0;
    return std::min(end, slab.used) - std::min(begin, slab.used);
  }

  const std::shared_ptr<SegmentTable> table_;
  const uint64_t segment_bytes_;
  mutable std::mutex mutex_;
  std::map<SegmentId, Slab> slabs_;
  FreeLists free_;
  FreeLists cold_;  // without pages
  uint64_t bytes_out_ = 0;
  bool closed_ = false;  // the pool is gone: what comes home is not kept
};

SegmentPool::SegmentPool(std::shared_ptr<SegmentTable> table, uint64_t segment_bytes)
    : state_(std::make_shared<State>(std::move(table), segment_bytes)) {}
SegmentPool::~SegmentPool() { state_->Trim(true); }
Result<Extent> SegmentPool::Allocate(uint64_t bytes) { return state_->Allocate(bytes); }
uint64_t SegmentPool::touched_bytes() const { return state_->touched_bytes(); }
uint64_t SegmentPool::bytes_out() const { return state_->bytes_out(); }
void SegmentPool::Trim() { state_->Trim(false); }

}  // namespace penstock
