// A row before it is evaluated: references to what the sources hold. Orders, counts and unions move such rows; columns are made of them only
// when they go into a block. So a shuffle buffer holds raw records, and skipping rows costs no parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// The bytes of a record: in the window that they were read into, which they keep alive, or in memory of their own.
class RecordBytes {
 public:
  std::string_view view() const { return window_ == nullptr ? std::string_view(own_) : shared_; }
  uint64_t held() const { return own_.capacity() + (window_ == nullptr ? 0 : shared_.size()); }

  // crc: that these bytes were checked against, where they were.
  void Share(std::string_view bytes, std::shared_ptr<const void> window, std::optional<uint32_t> crc) {
    shared_ = bytes;
    window_ = std::move(window);
    crc_ = crc;
  }
  // Memory of its own, to be filled.
  std::string& Own() {
    window_.reset();
    crc_.reset();
    return own_;
  }
  // For a row that stays longer than its neighbours, so that it does not keep their window.
  void Detach() {
    if (window_ == nullptr) return;
    // A string that grows takes twice what it had; records of about one size would all end with that.
    if (own_.capacity() < shared_.size()) {
      own_ = std::string();
      own_.reserve(shared_.size() + shared_.size() / 32);
    }
    own_.assign(shared_);
    window_.reset();
  }
  // No bytes; memory of its own is kept for the next.
  void Clear() { Own().clear(); }
  // A checksum of them; they are looked at only where nobody has done so before.
  uint32_t Checksum() const;

 private:
  std::shared_ptr<const void> window_;
  std::string_view shared_;  // in window_, where there is one
  std::string own_;
  std::optional<uint32_t> crc_;
};

struct Row {
  uint64_t number = 0;  // the operator's own: a value of a range, an index into arrays, an ordinal, a branch
  RecordBytes bytes;    // of a record
  Origin origin;
  std::vector<Row> parts;  // rows of the operator's inputs, or the rows of a batch
};

inline uint64_t HeldBytes(const Row& row) {
  uint64_t bytes = sizeof(Row) + row.bytes.held();
  for (const Row& part : row.parts) bytes += HeldBytes(part);
  return bytes;
}
void Detach(Row& row);  // its bytes, and those of its parts
void Clear(Row& row);   // likewise
// What its values are made of, in a number: whoever evaluates rows with one name gets the same values.
uint32_t NameOf(const Row& row);

// Rows one after the other. Used by one thread at a time; after an error or the end it is not asked again.
class RowStream {
 public:
  virtual ~RowStream() = default;
  // False: there are no more. What `row` was before is overwritten, and its memory used again where that helps.
  virtual Result<bool> Next(Row& row) = 0;
  // Passes over up to n rows as cheaply as the input allows; returns how many there were (fewer: the end).
  virtual Result<uint64_t> Skip(uint64_t n) = 0;
  // How many rows are still to come, where that is known.
  virtual std::optional<uint64_t> left() const { return std::nullopt; }
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
