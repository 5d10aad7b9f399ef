// Many varints of Protocol Buffers at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

// Decodes `run`, which has to be exactly `n` varints one after another, to n integers of 8 bytes at `out`. False where it is not: what was written
// until then is of no use.
[[nodiscard]] bool DecodeVarints(std::string_view run, uint64_t n, std::byte* out);

// A varint ends with the byte whose top bit is clear, so there are as many as such bytes.
uint64_t CountVarints(std::string_view run);

}  // namespace penstock
