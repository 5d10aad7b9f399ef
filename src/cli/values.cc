#include "cli/values.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/constants.h"

namespace penstock::cli {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 11> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"KiB", 1024},
                                           {"MiB", 1048576},
                                           {"GiB", 1073741824},
                                           {"TiB", 1099511627776},
                                           {"kB", 1e3},
                                           {"KB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12}}};
constexpr std::array<Unit, 6> kTimeUnits{{{"ms", 1e6}, {"s", 1e9}, {"", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}}};

template <size_t N>
Result<double> ParseWithUnit(std::string_view text, const std::array<Unit, N>& units, const char* what) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest = text.substr(static_cast<size_t>(parsed.ptr - text.data()));
  if (parsed.ec == std::errc() && std::isfinite(number) && number >= 0) {
    for (const Unit& unit : units) {
      if (unit.name == rest && number * unit.factor < 9e18) return number * unit.factor;
    }
  }
  return Status(Code::kInvalid, "\"" + std::string(text) + "\" is no " + what);
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  PENSTOCK_ASSIGN(const double bytes, ParseWithUnit(text, kByteUnits, "size; write it like 256MiB, 4GiB or 65536"));
  return static_cast<uint64_t>(bytes);
}

Result<Duration> ParseDuration(std::string_view text) {
  PENSTOCK_ASSIGN(const double nanoseconds, ParseWithUnit(text, kTimeUnits, "time; write it like 30s, 500ms, 2m or 1h"));
  return Duration(static_cast<int64_t>(nanoseconds));
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < kNames.size(); ++unit) amount /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", amount, kNames[unit]);
  return text.data();
}

Status ReportReady(int fd, const std::string& address, bool json) {
  if (fd < 0) {
    std::printf(json ? "{\"address\": \"%s\"}\n" : "%s\n", address.c_str());
    std::fflush(stdout);
    return {};
  }
  const std::string line = address + "\n";
  const ssize_t written = write(fd, line.data(), line.size());
  close(fd);
  if (written == static_cast<ssize_t>(line.size())) return {};
  return Status(Code::kInternal, "cannot report that this server is ready on descriptor " + std::to_string(fd));
}

}  // namespace penstock::cli
