// Descriptors that a forked child must not keep. As long as a copy of a socket is open anywhere, its peer does not see it close: a child that
// outlives its parent would hold the parent's lanes.
#pragma once

namespace penstock {

// Names a descriptor as such while it lives. Goes before the descriptor is closed: its number may be somebody else's a moment later.
class ForkMark {
 public:
  explicit ForkMark(int fd);
  ForkMark(const ForkMark&) = delete;
  ~ForkMark();

 private:
  const int fd_;
};

// In a forked child, before anything else runs there: closes what is marked. Plain close, no destructors: closing a socket through Asio would
// take it out of the epoll set that is still the parent's.
void CloseMarkedAfterFork();

}  // namespace penstock
