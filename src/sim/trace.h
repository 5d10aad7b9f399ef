// What happened, in words: the last lines of a run, or all of them as they come.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

namespace penstock::sim {

class TraceLog {
 public:
  enum class Keep : unsigned char { kNothing, kLast, kPrint };
  explicit TraceLog(Keep keep) : keep_(keep) {}

  bool on() const { return keep_ != Keep::kNothing; }
  void Add(std::string line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static constexpr size_t kLines = 80;
  const Keep keep_;
  std::deque<std::string> lines_;
};

}  // namespace penstock::sim
