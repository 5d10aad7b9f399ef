#include "wire/segments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace penstock {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr uint32_t kLastSegment = (1U << 24) - 1;

Status Failed(const std::string& what, int error) { return Status(Code::kUnavailable, "shared memory: " + what + ": " + ErrorText(error)); }

Result<std::span<std::byte>> MapWhole(int fd, uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Failed("mapping " + std::to_string(bytes) + " bytes", errno);
  // A forked child of the trainer keeps the mapping on purpose: it may read batches that it inherited.
  return std::span(static_cast<std::byte*>(memory), bytes);
}

}  // namespace

Segment::~Segment() { munmap(memory_.data(), memory_.size()); }

Result<std::shared_ptr<Segment>> Segment::Make(SegmentId id, uint64_t bytes) {
  Fd fd(memfd_create("penstock", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Failed("memfd_create", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return Failed("a segment of " + std::to_string(bytes) + " bytes", errno);
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Failed("sealing", errno);
  PENSTOCK_ASSIGN(const auto memory, MapWhole(fd.get(), bytes));
  return std::shared_ptr<Segment>(new Segment(id, memory, std::move(fd)));
}

Result<std::shared_ptr<Segment>> Segment::Map(SegmentId id, uint64_t bytes, Fd fd) {
  struct stat facts {};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return Status(Code::kData, "a segment that is not sealed against shrinking and growing");
  if (fstat(fd.get(), &facts) != 0 || static_cast<uint64_t>(facts.st_size) != bytes || bytes == 0) {
    return Status(Code::kData, "a segment of " + std::to_string(facts.st_size) + " bytes that was said to have " + std::to_string(bytes));
  }
  PENSTOCK_ASSIGN(const auto memory, MapWhole(fd.get(), bytes));
  return std::shared_ptr<Segment>(new Segment(id, memory, Fd()));
}

Result<std::shared_ptr<Segment>> SegmentTable::Make(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (last_ == kLastSegment) return Status(Code::kUnavailable, "this worker has used up its segment numbers: restart it");
  std::erase_if(segments_, [](const auto& entry) { return entry.second.expired(); });
  PENSTOCK_ASSIGN(auto segment, Segment::Make(SegmentId{last_ + 1}, bytes));
  segments_.emplace(SegmentId{++last_}, segment);
  return segment;
}

std::shared_ptr<Segment> SegmentTable::Find(SegmentId id) const {
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end()) return nullptr;
  auto segment = found->second.lock();
  return segment == nullptr || segment->retired() ? nullptr : segment;
}

}  // namespace penstock
