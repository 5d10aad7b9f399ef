// Blocks that batches in the loop's hands point into, and whether one more may be lent (engine.md 5).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "client/shelf.h"

namespace penstock {

// Any thread: batches are taken on the loop's, and die on whichever lets go of them.
class LentBlocks {
 public:
  explicit LentBlocks(uint64_t memory) : memory_(memory) {}

  // A batch was made of blocks of so many bytes: the next may need as many.
  void Took(uint64_t bytes);
  // False: beside it and what else is lent there would be no room for the next batch, and the loop, which may hold them all while it waits, is to
  // get a copy.
  bool Lend(Handle handle, uint64_t bytes);
  void Freed(Handle handle);  // lent or not

 private:
  const uint64_t memory_;
  std::mutex mutex_;
  std::map<Handle, uint64_t> lent_;
  uint64_t lent_bytes_ = 0;
  uint64_t largest_batch_ = 0;
};

}  // namespace penstock
