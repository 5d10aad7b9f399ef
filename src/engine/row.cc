#include "engine/row.h"

#include <span>

#include "base/crc32c.h"

namespace penstock::engine {
namespace {

// Every bit of both goes into every bit of the result (the finish of SplitMix64).
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t mixed = a * 0x9E3779B97F4A7C15 + b;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
  return mixed ^ mixed >> 31;
}

}  // namespace

uint32_t RecordBytes::Checksum() const { return crc_.has_value() ? *crc_ : Crc32c(std::as_bytes(std::span(view()))); }

uint32_t NameOf(const Row& row) {
  const std::string_view bytes = row.bytes.view();
  uint64_t name = Mix(row.number, row.parts.size());
  if (!bytes.empty()) name = Mix(name, uint64_t{bytes.size()} << 32 | row.bytes.Checksum());
  for (const Row& part : row.parts) name = Mix(name, NameOf(part));
  return static_cast<uint32_t>(name);
}

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
