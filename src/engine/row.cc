#include "engine/row.h"

namespace penstock::engine {

void Detach(Row& row) {
  row.bytes.Detach();
  for (Row& part : row.parts) Detach(part);
}

void Clear(Row& row) {
  row.bytes.Clear();
  for (Row& part : row.parts) Clear(part);
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
