// TFRecord files: records one after the other, each
//
//   uint64 length | uint32 masked crc32c of the length | data | uint32 masked crc32c of the data        (little-endian)
//
// plain, or the whole file as gzip or zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/columns.h"
#include "formats/compression.h"
#include "penstock/status.h"

namespace penstock {

inline constexpr size_t kRecordHeader = 12;
inline constexpr size_t kRecordFooter = 4;
inline constexpr uint64_t kToEnd = std::numeric_limits<uint64_t>::max();

struct RecordOptions {
  bool verify_crc = true;            // of the data; lengths are always verified
  uint64_t max_record = 1ULL << 30;  // bytes; a longer record is an error
  uint64_t memory = 0;               // that a record may take, with what is made of it; 0: as much as it likes. One passed over takes none
  size_t window = 256 * 1024;        // bytes read at once; grows for a record that is larger
};

// Reads records in order. One thread at a time. Errors name file, offset and record; after an error it stays at that record.
class RecordReader {
 public:
  // The whole file, or the records of a plain one whose headers start in [from, to).
  // A range finds its first record by itself (FindRecord), and checks at its end that the range behind it will find the same.
  static Result<std::unique_ptr<RecordReader>> Open(std::shared_ptr<const ByteSource> source, Compression compression, const RecordOptions& options,
                                                    uint64_t from = 0, uint64_t to = kToEnd);

  // The next records: at least one, as many as are in memory, at most `max`; none at the end. The views of them last until the next call, their
  // bytes as long as somebody holds the window that is then current.
  // Records before a damaged one are given first, the error comes with the next call.
  Result<std::span<const std::string_view>> Next(size_t max);
  // Passes over up to `n` records, verifying lengths only; how many it were. Fewer at the end. Plain files are not read in between.
  Result<uint64_t> Skip(uint64_t n);

  std::shared_ptr<const void> window() const { return window_; }
  // Whether that is much more memory than what was read into it.
  bool sparse() const { return window_->size() < window_->capacity() / 4; }
  uint64_t record() const { return record_; }  // ordinal of the next record in this range
  uint64_t offset() const { return offset_; }  // of its header; in the inflated bytes where the file is compressed
  uint64_t bytes_held() const { return window_->capacity() + (compressed_ ? InflateMemory() : 0); }
  std::string where() const;  // "read /data/a at offset 4096", for a stalled loop

 private:
  RecordReader(std::shared_ptr<const ByteSource> source, Compression compression, const RecordOptions& options, uint64_t from, uint64_t to);

  std::string_view held() const { return {reinterpret_cast<const char*>(window_->data()) + taken_, window_->size() - taken_}; }
  Result<bool> Hold(uint64_t bytes);  // makes held() at least so long; false where the stream ends before
  void MakeRoom(size_t capacity);     // in the window, behind held()
  uint64_t LeftOfRange(size_t held) const;
  Result<std::optional<uint64_t>> Header();  // length of the next record's data; nullopt at the end
  Result<std::string_view> Data(uint64_t length);
  Result<bool> AtEnd();
  void Take(uint64_t bytes);
  Status CheckEdge() const;
  Status TooLarge(uint64_t length) const;
  Status Error(const std::string& what, Code code = Code::kData) const;

  std::shared_ptr<const ByteSource> source_;
  std::unique_ptr<ByteStream> stream_;
  bool compressed_;
  RecordOptions options_;
  uint64_t to_;
  uint64_t offset_;
  uint64_t record_ = 0;
  bool edge_checked_ = false;
  std::shared_ptr<ByteBuffer> window_;
  size_t taken_ = 0;  // bytes of the window that were handed out
  std::vector<std::string_view> records_;
};

// The masked CRC that lies behind a record's data in its reader's window.
uint32_t CrcBehind(std::string_view record);

// Bytes of memory that a reader holds while no record is larger than its window.
inline uint64_t RecordMemory(Compression compression, const RecordOptions& options) {
  return options.window + (compression == Compression::kNone ? 0 : InflateMemory());
}

// kNone if the file begins with a valid record header (a length may look like zlib's magic), else by magic bytes.
Result<Compression> DetectRecordCompression(const ByteSource& source);

// In a plain file, the first header at or after `from` and before `to`: a valid length CRC, and behind that record another valid header or the
// file's end. `to` (or the size, if less) where there is none.
Result<uint64_t> FindRecord(const ByteSource& source, uint64_t from, uint64_t to);

// Appends a record to `out`.
void AppendRecord(std::string_view data, std::string& out);

}  // namespace penstock
