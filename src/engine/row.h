// A row before it is evaluated: references to what the sources hold. Orders, counts and unions move such rows; columns are made of them only
// when they go into a block. So a shuffle buffer holds raw records, and skipping rows costs no parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/manifest.h"
#include "penstock/status.h"

namespace penstock::engine {

// Where a record came from, for errors.
struct Origin {
  const InputFile* file = nullptr;  // of the manifest, which outlives the lane
  uint64_t offset = 0;
  int64_t record = -1;  // its number in the file; -1 where the reading began inside
};

struct Row {
  uint64_t number = 0;  // the operator's own: a value of a range, an index into arrays, an ordinal, a branch
  std::string bytes;    // of a record
  Origin origin;
  std::vector<Row> parts;  // rows of the operator's inputs, or the rows of a batch
};

uint64_t HeldBytes(const Row& row);

// Rows one after the other. Used by one thread at a time; after an error or the end it is not asked again.
class RowStream {
 public:
  virtual ~RowStream() = default;
  // False: there are no more.
  virtual Result<bool> Next(Row& row) = 0;
  // Passes over up to n rows as cheaply as the input allows; returns how many there were (fewer: the end).
  virtual Result<uint64_t> Skip(uint64_t n) = 0;
  // Bytes held, those of the inputs included.
  virtual uint64_t state_bytes() const { return 0; }
  // Where it is, in words.
  virtual std::string where() const { return {}; }
};

using RowStreamPtr = std::unique_ptr<RowStream>;

// The rows of a counted input, by number.
class RowIndex {
 public:
  virtual ~RowIndex() = default;
  virtual Row At(uint64_t i) = 0;
};

using RowIndexPtr = std::unique_ptr<RowIndex>;

// Passes over rows one by one: for streams that have nothing better.
Result<uint64_t> SkipByReading(RowStream& stream, uint64_t n);

}  // namespace penstock::engine
