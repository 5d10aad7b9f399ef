// SIGTERM and SIGINT as calls of a function, on a thread of its own.
#pragma once

#include <functional>
#include <thread>

namespace penstock::cli {

// Blocks both signals in the calling thread and those it starts later: construct it before any server.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int signal)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;

 private:
  void Run();
  std::function<void(int)> on_signal_;
  int signals_;
  int stop_;
  std::thread thread_;
};

}  // namespace penstock::cli
