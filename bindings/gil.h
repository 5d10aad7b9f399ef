// Leaving and taking the GIL, and calling Python, on threads that the interpreter may end before.
//
// A thread that asks for the GIL of an interpreter that ends is ended by Python (pthread_exit, up to 3.13), which unwinds its stack: C++ code that
// may not throw, as destructors, would end the program with it, and what holds Python's objects would let go of them without the GIL. Such a thread
// stops for good instead: it has nothing left to do.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace penstock::python {

// What `call` returns, if it returns. It owns no Python object while it asks for the GIL.
template <class Call>
auto StoppedByTheEnd(const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    StoppedByTheEnd([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

class GilTaken {
 public:
  GilTaken() : state_(StoppedByTheEnd([] { return PyGILState_Ensure(); })) {}
  GilTaken(const GilTaken&) = delete;
  GilTaken& operator=(const GilTaken&) = delete;
  ~GilTaken() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

template <class... Args>
nanobind::object CallMethod(const nanobind::object& object, const char* name, const Args&... args) {
  const nanobind::object method = object.attr(name);
  return StoppedByTheEnd([&] { return nanobind::object(method(args...)); });
}

}  // namespace penstock::python
