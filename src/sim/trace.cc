#include "sim/trace.h"

#include <cstdio>
#include <utility>

namespace penstock::sim {

void TraceLog::Add(std::string line) {
  if (keep_ == Keep::kPrint) std::printf("%s\n", line.c_str());
  if (keep_ != Keep::kLast) return;
  lines_.push_back(std::move(line));
  if (lines_.size() > kLines) lines_.pop_front();
}

}  // namespace penstock::sim
