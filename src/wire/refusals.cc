#include "wire/refusals.h"

#include <utility>

namespace penstock {

std::optional<RefusalBook::Line> RefusalBook::Note(TimePoint now, const std::string& host, Line line) {
  const bool room = hosts_.size() < kMostHosts || hosts_.contains(host);
  const auto [at, added] = hosts_.try_emplace(room ? host : "others");
  Host& mine = at->second;
  if (mine.held) line.count += mine.held->count;
  if (!added && now - mine.spoken < kPause) {
    mine.held = std::move(line);
    return std::nullopt;
  }
  mine = {.spoken = now, .held = std::nullopt};
  return line;
}

std::vector<RefusalBook::Line> RefusalBook::Due(TimePoint now) {
  std::vector<Line> due;
  for (auto at = hosts_.begin(); at != hosts_.end();) {
    Host& host = at->second;
    const bool may_speak = now - host.spoken >= kPause;
    if (may_speak && !host.held) {
      at = hosts_.erase(at);
      continue;
    }
    if (may_speak) {
      due.push_back(*std::exchange(host.held, std::nullopt));
      host.spoken = now;
    }
    ++at;
  }
  return due;
}

}  // namespace penstock
