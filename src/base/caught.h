// Exceptions at the edge of a thread: code of ours does not throw, but memory runs out and libraries have habits of their own.
#pragma once

#include "penstock/status.h"

namespace penstock {

// In a catch block: what was caught, as an error. Memory that there is not is kTooLarge, anything else kInternal.
Status CaughtStatus();

// What `work` returns, which can be made of a Status; what it throws becomes one.
template <class Work>
auto Caught(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (...) {
    return CaughtStatus();
  }
}

}  // namespace penstock
