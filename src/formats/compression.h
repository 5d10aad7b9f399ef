// gzip (RFC 1952, any number of members) and zlib (RFC 1950) streams, in and out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_source.h"
#include "penstock/status.h"

namespace penstock {

enum class Compression : uint8_t { kAuto, kNone, kGzip, kZlib };
std::string_view Name(Compression compression);
Result<Compression> CompressionFromName(std::string_view name);  // "auto", "none" (or ""), "gzip", "zlib"; TensorFlow's capitals too

// By the magic bytes at the start of a file: kGzip, kZlib or kNone.
Compression DetectCompression(std::span<const std::byte> head);

// What comes out of the compressed bytes of `in`. Checksums are verified; damage and truncation are errors that name the file and the offset in the
// compressed bytes. An empty input is an empty stream.
//
// Streams that are read in turns, by whichever threads, are inflated two at a time: a stream that is read takes another one along, whose input lies
// in memory already, as far as that one's window goes. `in` is read by the stream's own reader alone, with no lock held. A stream that another thread
// was using when the process forked is an error in the child, which says to open the file again; it never waits there.
std::unique_ptr<ByteStream> Inflate(std::unique_ptr<ByteStream> in, Compression compression);

// Bytes of memory that such a stream holds, what it is ahead of its reader included.
uint64_t InflateMemory();

// Compresses piece by piece into a string.
class Deflater {
 public:
  explicit Deflater(Compression compression);  // kGzip or kZlib
  ~Deflater();
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void Add(std::string_view bytes, std::string& out);  // appends what is ready to `out`
  void Finish(std::string& out);                       // the last call

 private:
  struct State;
  void Run(std::string& out);
  std::unique_ptr<State> state_;
};

}  // namespace penstock
