#include "wire/fork_marks.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace penstock {
namespace {

constexpr int kDescriptors = 1 << 16;  // one with a larger number stays open in the child
constexpr int kBits = 64;

// A bit a descriptor, without a lock: a thread that held it at the fork would hold it for ever in the child.
std::array<std::atomic<uint64_t>, kDescriptors / kBits> marks{};

bool Covered(int fd) { return fd >= 0 && fd < kDescriptors; }
std::atomic<uint64_t>& WordOf(int fd) { return marks[static_cast<size_t>(fd / kBits)]; }
uint64_t BitOf(int fd) { return uint64_t{1} << (fd % kBits); }

}  // namespace

ForkMark::ForkMark(int fd) : fd_(fd) {
  if (Covered(fd_)) WordOf(fd_).fetch_or(BitOf(fd_));
}

ForkMark::~ForkMark() {
  if (Covered(fd_)) WordOf(fd_).fetch_and(~BitOf(fd_));
}

void CloseMarkedAfterFork() {
  for (size_t word = 0; word < marks.size(); ++word) {
    for (uint64_t bits = marks[word].exchange(0); bits != 0; bits &= bits - 1) {
      close(static_cast<int>(word) * kBits + std::countr_zero(bits));
    }
  }
}

}  // namespace penstock
