// Waiting without the GIL, so that other Python threads run and Ctrl-C works.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "gil.h"

namespace penstock::python {

inline constexpr std::chrono::milliseconds kSlice{50};  // how long a signal may wait

// Lets Python handle what arrived meanwhile; throws its exception (KeyboardInterrupt). The GIL is held.
inline void CheckSignals() {
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

// Calls `work` on a thread of its own and returns its result. When a signal's handler raises, the call is left alone: it ends by its own
// deadline, and what it made is dropped there. So `work` owns all that it uses.
template <class Work>
auto Interruptible(Work work) {
  using Made = std::invoke_result_t<Work>;
  std::promise<Made> made;
  auto result = made.get_future();
  std::thread([work = std::make_optional(std::move(work)), made = std::move(made)]() mutable {
    try {
      Made value = (*work)();
      work.reset();  // before the caller goes on, and perhaps ends the program: what the work owns may be Python's
      made.set_value(std::move(value));
    } catch (...) {
      work.reset();
      made.set_exception(std::current_exception());
    }
  }).detach();
  for (;;) {
    {
      const GilReleased released;
      if (result.wait_for(kSlice) == std::future_status::ready) break;
    }
    CheckSignals();
  }
  return result.get();
}

}  // namespace penstock::python
