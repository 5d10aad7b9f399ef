// Where parsers get bytes from: a file of known size, or a stream (a file read forward, or what comes out of a decompressor).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/status.h"

namespace penstock {

// Bytes at any offset. Thread-safe. Errors name the file and the offset.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;
  virtual uint64_t size() const = 0;
  // Reads until `out` is full or the source ends; how much it was.
  virtual Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const = 0;
  // Says that [offset, offset + bytes) will be read soon.
  virtual void WillRead(uint64_t /*offset*/, uint64_t /*bytes*/) const {}
};

// Bytes one after the other. One thread at a time.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual const std::string& name() const = 0;
  // Where the next byte comes from, in words for errors: "offset 12".
  virtual std::string where() const = 0;
  // Reads at least one byte into `out`, which is not empty; 0 at the end.
  virtual Result<size_t> Read(std::span<std::byte> out) = 0;
  // Passes over up to `bytes`; how many it were. Fewer at the end.
  virtual Result<uint64_t> Skip(uint64_t bytes);
};

inline Result<uint64_t> ByteStream::Skip(uint64_t bytes) {
  std::vector<std::byte> sink(std::min<uint64_t>(bytes, 64 * 1024));
  uint64_t skipped = 0;
  while (skipped < bytes) {
    PENSTOCK_ASSIGN(const size_t read, Read({sink.data(), std::min<uint64_t>(sink.size(), bytes - skipped)}));
    if (read == 0) break;
    skipped += read;
  }
  return skipped;
}

// A source from an offset on, with read-ahead, though not beyond `end`.
class SourceStream final : public ByteStream {
 public:
  static constexpr uint64_t kAhead = 1 << 20;

  explicit SourceStream(std::shared_ptr<const ByteSource> source, uint64_t offset = 0, uint64_t end = std::numeric_limits<uint64_t>::max())
      : source_(std::move(source)), offset_(offset), hinted_(offset), hints_end_(std::min(end, source_->size())) {}
  const std::string& name() const override { return source_->name(); }
  std::string where() const override { return "offset " + std::to_string(offset_); }
  Result<size_t> Read(std::span<std::byte> out) override {
    const uint64_t wanted = std::min(offset_ + out.size() + kAhead, hints_end_);
    if (hinted_ < std::min(offset_ + out.size() + kAhead / 2, hints_end_)) {
      source_->WillRead(hinted_, wanted - hinted_);
      hinted_ = wanted;
    }
    PENSTOCK_ASSIGN(const size_t read, source_->ReadAt(offset_, out));
    offset_ += read;
    return read;
  }
  Result<uint64_t> Skip(uint64_t bytes) override {
    const uint64_t skipped = std::min(bytes, source_->size() - std::min(offset_, source_->size()));
    offset_ += skipped;
    hinted_ = std::max(hinted_, offset_);
    return skipped;
  }

 private:
  std::shared_ptr<const ByteSource> source_;
  uint64_t offset_;
  uint64_t hinted_;
  uint64_t hints_end_;
};

// Bytes in memory.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes, std::string name = "memory") : bytes_(std::move(bytes)), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  Result<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t n = std::min<size_t>(out.size(), bytes_.size() - offset);
    if (n > 0) std::memcpy(out.data(), bytes_.data() + offset, n);
    return n;
  }

 private:
  std::string bytes_;
  std::string name_;
};

}  // namespace penstock
