// One dispatcher a state directory. The kernel drops the lock with the process, however it ends.
#pragma once

#include <string>
#include <utility>

#include "penstock/status.h"

namespace penstock::dispatcher {

class StateLock {
 public:
  // Busy, with what the holder wrote, where another process has it: one that ends lets go of it.
  static Result<StateLock> Take(const std::string& dir);
  // Who holds it, for whoever comes second.
  Status Describe(const std::string& holder);
  StateLock(StateLock&& other) noexcept;
  StateLock& operator=(StateLock&&) = delete;
  ~StateLock();

 private:
  StateLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

}  // namespace penstock::dispatcher
