#include "engine/row.h"

namespace penstock::engine {

uint64_t HeldBytes(const Row& row) {
  uint64_t bytes = sizeof(Row) + row.bytes.capacity();
  for (const Row& part : row.parts) bytes += HeldBytes(part);
  return bytes;
}

Result<uint64_t> SkipByReading(RowStream& stream, uint64_t n) {
  Row row;
  for (uint64_t skipped = 0; skipped < n; ++skipped) {
    PENSTOCK_ASSIGN(const bool more, stream.Next(row));
    if (!more) return skipped;
  }
  return n;
}

}  // namespace penstock::engine
