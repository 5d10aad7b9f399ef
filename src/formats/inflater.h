// A gzip or zlib file inflated into a window of its own: headers, members and checksums around the DEFLATE data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/compression.h"
#include "formats/deflate_decoder.h"
#include "penstock/status.h"

namespace penstock {

// Thread-compatible. What is made before an error is good, and comes before it.
class Inflater {
 public:
  static constexpr size_t kInputBytes = 64 * 1024;
  static constexpr size_t kAtOnce = 64 * 1024;  // bytes made for one that asks: still cached when they are taken
  static constexpr size_t kWindow = DeflateDecoder::kHistory + kAtOnce + kAtOnce / 2;  // what matches refer to, what was made, room for more
  // Bytes of memory beside the object.
  static constexpr size_t kBuffers = kInputBytes + DeflateDecoder::kInputSlack + kWindow + DeflateDecoder::kOutputSlack;

  using ReadInput = std::function<Result<size_t>(std::span<std::byte>)>;  // as ByteStream::Read

  Inflater(std::string name, ReadInput read, Compression compression);

  // Makes room for kAtOnce bytes, where few were made that nobody took.
  void Slide();
  // A step of its reader, behind Slide(): decodes until so many bytes are there to be taken (kAtOnce at the most) or the input that lies in memory
  // ends, and reads more of it, or what is around the data. Several steps may be wanted. This and ReadAhead() alone read.
  void Step(size_t bytes);
  // Reads input where little is left, so that it can go along with others until its reader comes again. What fails is tried again by Step().
  void ReadAhead();
  // Whether there is much to decode without reading.
  bool HasInMemory() const { return member_open_ && !over() && !decoder_.over() && at_.in_end - at_.in >= kMuchInput; }
  // And room for it, before its reader asks.
  bool CanGoAlong() const { return HasInMemory() && room() >= kAtOnce / 2; }
  // A step of the first's reader, where it has input in memory, with one that can go along: decodes both in one loop, which takes less than one after
  // the other, until so many bytes of the first are there to be taken, the second's window is full, or the input of one of them ends. Reads nothing.
  static void StepTogether(Inflater& first, size_t bytes, Inflater& second);

  std::span<const uint8_t> made() const { return {taken_, at_.out}; }
  void Take(size_t bytes) { taken_ += bytes; }
  bool over() const { return ended_ || !failed_.ok(); }  // nothing more is made
  const Status& failed() const { return failed_; }

  const std::string& name() const { return name_; }
  std::string where() const { return "compressed offset " + std::to_string(offset()); }

 private:
  static constexpr ptrdiff_t kMuchInput = 4 * 1024;  // more than the head of a block: what has it goes on

  uint64_t offset() const { return read_ - static_cast<uint64_t>(at_.in_end - at_.in) - decoder_.unread(); }
  size_t room() const;
  bool SlidesCheaply() const { return made().size() <= kAtOnce / 4; }
  uint8_t* end() const { return window_.get() + kWindow; }
  uint8_t* Limit(size_t bytes) const { return window_.get() + std::min<size_t>(static_cast<size_t>(taken_ - window_.get()) + bytes, kWindow); }
  Status Between(DeflateDecoder::Stop stop);
  void Digest();

  Status Refill();
  Result<uint8_t> Byte();
  Result<bool> NextMember();
  Status GzipHeader();
  Status ZlibHeader();
  Status Trailer();
  Status Truncated();
  Status Error(const std::string& what) const;
  Status Has(std::string_view what) const;

  std::string name_;
  ReadInput read_input_;
  Compression compression_;
  std::unique_ptr<uint8_t[]> input_;
  std::unique_ptr<uint8_t[]> window_;
  DeflateDecoder decoder_;
  DeflateBytes at_;
  const uint8_t* taken_;
  const uint8_t* digested_;
  uint32_t checksum_ = 0;  // of what the member gave so far
  uint32_t length_ = 0;    // of that, modulo 2^32 as gzip has it
  uint64_t read_ = 0;      // bytes of input
  uint64_t members_ = 0;
  bool member_open_ = false;
  bool ended_ = false;
  Status failed_;
};

}  // namespace penstock
