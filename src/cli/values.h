// Values of flags and of the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "penstock/status.h"

namespace penstock::cli {

Result<uint64_t> ParseBytes(std::string_view text);     // "256MiB", "4GiB", "1.5GB", "65536"
Result<Duration> ParseDuration(std::string_view text);  // "30s", "500ms", "2m", "1h"
std::string FormatBytes(uint64_t bytes);                // "1.5 MiB"

// Tells who started this process where it listens: on the descriptor that it gave, else (-1) on stdout.
Status ReportReady(int fd, const std::string& address, bool json);

}  // namespace penstock::cli
