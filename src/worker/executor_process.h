// One executor: a child process that runs user code, and what watches over it.
//
// It is spawned, never forked, talks over a socket pair, and ends when that ends. A thread of its own reads its answers, and kills it when a call
// takes too long (after its stacks were written down) or it holds too much memory. Whatever it does, it costs its calls an error and nobody else
// anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "penstock/status.h"

namespace penstock::worker {

struct ExecutorOptions {
  std::string python;      // the interpreter; "": PENSTOCK_PYTHON, else python3
  Duration timeout{};      // for one call of user code
  uint64_t memory = 0;     // bytes that one executor may hold for itself
  uint32_t processes = 1;  // a job
  std::string worker;      // its name, for errors
};

// A message: JSON, and bytes behind it. Descriptors go beside it and stay the caller's.
struct ExecutorMessage {
  std::string text;
  std::string_view bytes = {};
  std::vector<int> descriptors = {};
};

class ExecutorProcess {
 public:
  static Result<std::shared_ptr<ExecutorProcess>> Start(const ExecutorOptions& options);
  ~ExecutorProcess();  // ends it
  ExecutorProcess(const ExecutorProcess&) = delete;

  // Waits for the answer, which is JSON. `id` is in the message, is not 0, and not used twice. Any thread; the child works on calls in the order
  // given. Unavailable: it is gone, and why; detail "guilty" is "1" where it was working on this call, "traceback" the stacks it left; then the
  // message says what it did, and detail "seq" at or from which row, where that is known.
  // When it works on this call for longer than `within` it is killed.
  Result<std::string> Call(uint64_t id, const ExecutorMessage& message, Duration within);
  // Says something that is not answered. Nothing happens where it is gone.
  void Tell(const ExecutorMessage& message);
  bool alive() const;
  // At once; calls under way fail. Idempotent.
  void Kill();

 private:
  class State;
  explicit ExecutorProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::worker
