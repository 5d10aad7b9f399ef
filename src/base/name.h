// Names that people and peers give: of jobs, consumers and workers. They are in logs, tables, keys and messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "penstock/status.h"

namespace penstock {

inline constexpr size_t kMostNameBytes = 200;

// 1 to 200 bytes without control characters.
bool IsName(std::string_view text);
// Invalid says what is allowed, and shows what was given as far as it can be shown. `what`: "job_name", "--job", "a consumer's name".
Status CheckName(std::string_view what, std::string_view name);

// The text with its control characters escaped ("\n", "\x1b"): for terminals, which would obey them.
std::string Printable(std::string_view text);

}  // namespace penstock
