// Rows of a batch as JSON, for people and scripts.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/client.h"

namespace penstock::cli {

// {"id": 7, "words": ["a", "b"]}; a bare value stands alone. Bytes that are no UTF-8 are shown as {"base64": "…"}.
std::string RowAsJson(const Batch& batch, uint64_t row);

}  // namespace penstock::cli
