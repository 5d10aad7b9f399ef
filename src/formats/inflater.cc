#include "formats/inflater.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstring>

namespace penstock {

Inflater::Inflater(std::string name, ReadInput read, Compression compression)
    : name_(std::move(name)),
      read_input_(std::move(read)),
      compression_(compression),
      input_(new uint8_t[kInputBytes + DeflateDecoder::kInputSlack]()),
      window_(new uint8_t[kWindow + DeflateDecoder::kOutputSlack]) {
  at_.in = at_.in_end = input_.get();
  taken_ = digested_ = at_.begin = at_.out = window_.get();
}

void Inflater::Step(size_t bytes) {
  Status status;
  if (member_open_) {
    at_.out_end = Limit(bytes);
    status = Between(decoder_.Run(at_));
  } else {
    auto more = NextMember();
    ended_ = more.ok() && !*more;
    status = more.status();
  }
  if (!status.ok()) failed_ = std::move(status);
  Digest();
}

void Inflater::ReadAhead() {
  if (member_open_ && !over() && !at_.last && at_.in_end - at_.in < static_cast<ptrdiff_t>(kInputBytes / 2)) (void)Refill().ok();
}

void Inflater::StepTogether(Inflater& first, size_t bytes, Inflater& second) {
  second.Slide();
  uint8_t* const limit = first.Limit(bytes);
  const auto run_alone = [](Inflater& one, uint8_t* end) {
    one.at_.out_end = std::min(end, one.at_.out + 1);
    (void)one.decoder_.Run(one.at_);  // why it stopped is asked by its reader's next step
  };
  while (first.HasInMemory() && first.at_.out < limit && second.HasInMemory() && second.at_.out < second.end()) {
    first.at_.out_end = limit;
    second.at_.out_end = second.end();
    DeflateDecoder::RunTogether(first.decoder_, first.at_, second.decoder_, second.at_);
    run_alone(first, limit);
    run_alone(second, second.end());
  }
  first.Digest();
  second.Digest();
}

size_t Inflater::room() const {
  if (SlidesCheaply()) return kWindow - DeflateDecoder::kHistory - made().size();
  return at_.out < end() ? static_cast<size_t>(end() - at_.out) : 0;
}

// Leaves out of the window what is wanted no more.
void Inflater::Slide() {
  if (end() - at_.out >= static_cast<ptrdiff_t>(kAtOnce) || !SlidesCheaply()) return;
  const auto history = std::min<ptrdiff_t>(at_.out - at_.begin, DeflateDecoder::kHistory);
  const uint8_t* const from = std::min<const uint8_t*>(taken_, at_.out - history);
  const ptrdiff_t kept = at_.out - from;
  if (kept > 0) std::memmove(window_.get(), from, static_cast<size_t>(kept));
  const auto moved = [&](const uint8_t* at) { return window_.get() + (std::max(at, from) - from); };
  taken_ = moved(taken_);
  digested_ = moved(digested_);
  at_.begin = moved(at_.begin);
  at_.out = window_.get() + kept;
}

// What there is to do before the decoder goes on, which may be nothing.
Status Inflater::Between(DeflateDecoder::Stop stop) {
  using Stop = DeflateDecoder::Stop;
  if (stop == Stop::kDamaged) return Has(decoder_.why());
  if (stop == Stop::kInput) return at_.last ? Truncated() : Refill();
  if (stop == Stop::kOutput) return {};
  Digest();
  member_open_ = false;
  return Trailer();
}

void Inflater::Digest() {
  const auto bytes = static_cast<size_t>(at_.out - digested_);
  if (bytes == 0) return;
  checksum_ = compression_ == Compression::kGzip ? crc32_gzip_refl(checksum_, digested_, bytes) : isal_adler32(checksum_, digested_, bytes);
  length_ += static_cast<uint32_t>(bytes);
  digested_ = at_.out;
}

Status Inflater::Refill() {
  const size_t unread = decoder_.unread();  // the decoder may give them back
  const size_t rest = unread + static_cast<size_t>(at_.in_end - at_.in);
  std::memmove(input_.get(), at_.in - unread, rest);
  at_.in = input_.get() + unread;
  at_.in_end = input_.get() + rest;
  if (at_.last) return {};
  PENSTOCK_ASSIGN(const size_t read, read_input_(std::as_writable_bytes(std::span(input_.get() + rest, kInputBytes - rest))));
  at_.in_end += read;
  at_.last = read == 0;
  read_ += read;
  return {};
}

Result<uint8_t> Inflater::Byte() {
  if (at_.in == at_.in_end) PENSTOCK_TRY(Refill());
  if (at_.in == at_.in_end) return Truncated();
  return *at_.in++;
}

// Whether there is one more gzip member (zlib: the only stream). Zero bytes after the last are padding.
Result<bool> Inflater::NextMember() {
  for (;;) {
    if (at_.in == at_.in_end) PENSTOCK_TRY(Refill());
    if (at_.in == at_.in_end) return false;
    if (members_ == 0 || *at_.in != 0) break;
    ++at_.in;
  }
  if (members_ > 0 && (compression_ == Compression::kZlib || *at_.in != 0x1F)) {
    return Error("there is something after the end of the " + std::string(Name(compression_)) + " data");
  }
  const bool gzip = compression_ == Compression::kGzip;
  PENSTOCK_TRY(gzip ? GzipHeader() : ZlibHeader());
  decoder_.Reset();
  checksum_ = gzip ? 0 : 1;
  length_ = 0;
  at_.begin = at_.out;  // nothing refers to the member before
  member_open_ = true;
  ++members_;
  return true;
}

// RFC 1952, 2.3.
Status Inflater::GzipHeader() {
  enum : uint8_t { kHeaderCrc = 2, kExtra = 4, kFileName = 8, kComment = 16 };
  uint32_t crc = 0;
  const auto next = [&]() -> Result<uint8_t> {
    PENSTOCK_ASSIGN(const uint8_t byte, Byte());
    crc = crc32_gzip_refl(crc, &byte, 1);
    return byte;
  };
  const auto skip = [&](size_t bytes) -> Status {
    for (size_t i = 0; i < bytes; ++i) PENSTOCK_TRY(next().status());
    return {};
  };
  const auto word = [&]() -> Result<uint32_t> {
    PENSTOCK_ASSIGN(const uint32_t low, next());
    PENSTOCK_ASSIGN(const uint32_t high, next());
    return low | high << 8;
  };
  PENSTOCK_ASSIGN(const uint32_t magic, word());
  if (magic != 0x8B1F) return Has("an invalid header");
  PENSTOCK_ASSIGN(const uint8_t method, next());
  if (method != 8) return Has("an unknown compression method");
  PENSTOCK_ASSIGN(const uint8_t flags, next());
  PENSTOCK_TRY(skip(6));  // time, how hard it was compressed, the system
  if (flags & kExtra) {
    PENSTOCK_ASSIGN(const uint32_t bytes, word());
    PENSTOCK_TRY(skip(bytes));
  }
  for (const uint8_t text : {kFileName, kComment}) {
    for (bool more = (flags & text) != 0; more;) {
      PENSTOCK_ASSIGN(const uint8_t byte, next());
      more = byte != 0;
    }
  }
  if (!(flags & kHeaderCrc)) return {};
  const uint32_t expected = crc & 0xFFFF;
  PENSTOCK_ASSIGN(const uint32_t found, word());
  return found == expected ? Status() : Has("a checksum that does not match");
}

// RFC 1950, 2.2.
Status Inflater::ZlibHeader() {
  PENSTOCK_ASSIGN(const uint32_t method, Byte());
  PENSTOCK_ASSIGN(const uint32_t flags, Byte());
  if ((method & 15) != 8) return Has("an unknown compression method");
  if (method >> 4 > 7 || (method * 256 + flags) % 31 != 0) return Has("an invalid header");
  return flags & 0x20 ? Has("a preset dictionary, which is not supported") : Status();
}

Status Inflater::Trailer() {
  const bool gzip = compression_ == Compression::kGzip;
  const auto word = [&]() -> Result<uint32_t> {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      PENSTOCK_ASSIGN(const uint32_t byte, Byte());
      value = gzip ? value | byte << 8 * i : value << 8 | byte;
    }
    return value;
  };
  PENSTOCK_ASSIGN(const uint32_t checksum, word());
  if (checksum != checksum_) return Has("a checksum that does not match");
  if (!gzip) return {};
  PENSTOCK_ASSIGN(const uint32_t length, word());
  return length == length_ ? Status() : Has("a checksum that does not match");
}

Status Inflater::Truncated() {
  at_.in = at_.in_end;
  decoder_.Reset();
  return Error("the " + std::string(Name(compression_)) + " data ends too early: the file was cut off, or is still being written");
}

Status Inflater::Has(std::string_view what) const { return Error("the " + std::string(Name(compression_)) + " data has " + std::string(what)); }

Status Inflater::Error(const std::string& what) const {
  return Status(Code::kData, name() + " at " + where() + ": " + what).With("file", name()).With("offset", std::to_string(offset()));
}

}  // namespace penstock
