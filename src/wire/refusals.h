// Who was not let in, for the log: a line a second at most for each address, which says how many it stands for. Whoever is refused decides how
// often, and must not decide how much is written. I/O thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace penstock {

class RefusalBook {
 public:
  struct Line {
    std::string_view event;  // "hello.refused"; a literal
    std::string peer;
    std::string why;
    uint64_t count = 1;  // of that address since its last line, of whatever kind; the rest is the last one's
  };
  // What to say now; nothing where `host` had its line within the second: Due says it then.
  std::optional<Line> Note(TimePoint now, const std::string& host, Line line);
  // What was held back and may be said now. To be asked each kPause until idle.
  std::vector<Line> Due(TimePoint now);
  bool idle() const { return hosts_.empty(); }

  static constexpr Duration kPause = std::chrono::seconds(1);

 private:
  static constexpr size_t kMostHosts = 1024;  // past that the others share a line
  struct Host {
    TimePoint spoken{};
    std::optional<Line> held;
  };
  std::map<std::string, Host> hosts_;
};

}  // namespace penstock
