// One io_context on one thread: where sessions live. Signals are blocked on it, so that they reach the program's own threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"

namespace asio {
class io_context;
}

namespace penstock {

// Something that lives on the I/O thread and must let go of its sockets and timers before the thread ends.
class IoResident {
 public:
  virtual ~IoResident() = default;
  virtual void OnIoStop() = 0;  // on the thread; the last call
};

class IoThread {
 public:
  explicit IoThread(const std::string& name);  // the thread's name, at most 15 letters
  ~IoThread();                                 // stops
  IoThread(const IoThread&) = delete;

  // Any thread. Functions run on this thread in the order posted; many posts cost one wake. Never runs `fn` inside the call. After Stop it
  // is destroyed without being run.
  void Post(std::function<void()> fn);
  // Runs what was posted before, then ends the thread. Sessions that are still open are dropped without OnClosed. Idempotent; not from this thread.
  void Stop();
  bool OnThread() const;
  // Whether it comes to run something within this time. Not from this thread; false after Stop.
  bool Answers(Duration within);
  void Add(IoResident& resident);     // on the thread
  void Remove(IoResident& resident);  // on the thread; not needed after OnIoStop
  asio::io_context& context();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Calls a function once, later, on the I/O thread. Used and destroyed on that thread, or after Stop; never outlives the IoThread.
class Timer {
 public:
  explicit Timer(IoThread& io);
  ~Timer();  // cancels
  Timer(const Timer&) = delete;

  void After(Duration wait, std::function<void()> fn);  // replaces what it waited for
  void Cancel();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace penstock
