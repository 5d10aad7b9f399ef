#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "formats/compression.h"

namespace penstock {
namespace {

constexpr size_t kInputBytes = 128 * 1024;

std::string_view Why(int isal_error) {
  switch (isal_error) {
    case ISAL_INVALID_BLOCK: return "an invalid block";
    case ISAL_INVALID_SYMBOL: return "an invalid symbol";
    case ISAL_INVALID_LOOKBACK: return "a reference to before its start";
    case ISAL_INVALID_WRAPPER: return "an invalid header";
    case ISAL_UNSUPPORTED_METHOD: return "an unknown compression method";
    case ISAL_INCORRECT_CHECKSUM: return "a checksum that does not match";
    case ISAL_NEED_DICT: return "a preset dictionary, which is not supported";
    default: return "damage";
  }
}

class InflateStream final : public ByteStream {
 public:
  InflateStream(std::unique_ptr<ByteStream> in, Compression compression)
      : in_(std::move(in)), compression_(compression), state_(std::make_unique<inflate_state>()), input_(kInputBytes) {
    isal_inflate_init(state_.get());
    StartMember();
  }

  const std::string& name() const override { return in_->name(); }
  std::string where() const override { return "compressed offset " + std::to_string(offset()); }

  Result<size_t> Read(std::span<std::byte> out) override {
    for (;;) {
      PENSTOCK_TRY(failed_);
      if (!member_open_) {
        PENSTOCK_ASSIGN(const bool more, NextMember());
        if (!more) return size_t{0};
      }
      if (state_->avail_in == 0) PENSTOCK_TRY(Refill());
      PENSTOCK_ASSIGN(const size_t made, Step(out));
      const bool finished = state_->block_state == ISAL_BLOCK_FINISH;
      if (finished) member_open_ = false;
      if (made > 0) return made;
      if (!finished && ended_ && state_->avail_in == 0) return Truncated();
    }
  }

 private:
  uint64_t offset() const { return read_ - state_->avail_in; }

  void StartMember() {
    state_->crc_flag = compression_ == Compression::kGzip ? ISAL_GZIP : ISAL_ZLIB;
    member_open_ = false;
  }

  Result<size_t> Step(std::span<std::byte> out) {
    const auto room = static_cast<uint32_t>(std::min<size_t>(out.size(), 1U << 30));
    state_->next_out = reinterpret_cast<uint8_t*>(out.data());
    state_->avail_out = room;
    const int result = isal_inflate(state_.get());
    const size_t made = room - state_->avail_out;
    if (result == ISAL_DECOMP_OK) return made;
    failed_ = Error("the " + std::string(Name(compression_)) + " data has " + std::string(Why(result)));
    if (made == 0) return failed_;
    return made;  // what came before the damage is good
  }

  Status Refill() {
    if (ended_) return {};
    PENSTOCK_ASSIGN(const size_t read, in_->Read(input_));
    ended_ = read == 0;
    read_ += read;
    state_->next_in = reinterpret_cast<uint8_t*>(input_.data());
    state_->avail_in = static_cast<uint32_t>(read);
    return {};
  }

  // Whether there is one more gzip member (zlib: the only stream). Zero bytes after the last are padding.
  Result<bool> NextMember() {
    for (;;) {
      if (state_->avail_in == 0) PENSTOCK_TRY(Refill());
      if (state_->avail_in == 0) return false;
      if (members_ == 0 || *state_->next_in != 0) break;
      ++state_->next_in;
      --state_->avail_in;
    }
    if (members_ > 0 && (compression_ == Compression::kZlib || *state_->next_in != 0x1F)) {
      return Error("there is something after the end of the " + std::string(Name(compression_)) + " data");
    }
    // The reset keeps neither input nor mode.
    uint8_t* const next = state_->next_in;
    const uint32_t available = state_->avail_in;
    isal_inflate_reset(state_.get());
    state_->next_in = next;
    state_->avail_in = available;
    StartMember();
    member_open_ = true;
    ++members_;
    return true;
  }

  Status Truncated() const {
    return Error("the " + std::string(Name(compression_)) + " data ends too early: the file was cut off, or is still being written");
  }
  Status Error(const std::string& what) const {
    return Status(Code::kData, name() + " at " + where() + ": " + what).With("file", name()).With("offset", std::to_string(offset()));
  }

  std::unique_ptr<ByteStream> in_;
  Compression compression_;
  std::unique_ptr<inflate_state> state_;
  std::vector<std::byte> input_;
  uint64_t read_ = 0;  // bytes taken from in_
  uint64_t members_ = 0;
  bool member_open_ = false;
  bool ended_ = false;
  Status failed_;
};

struct CompressionName {
  std::string_view name;
  Compression compression;
};
constexpr std::array kNames = {CompressionName{"auto", Compression::kAuto}, CompressionName{"none", Compression::kNone},
                               CompressionName{"gzip", Compression::kGzip}, CompressionName{"zlib", Compression::kZlib},
                               CompressionName{"", Compression::kNone}};

}  // namespace

uint64_t InflateMemory() { return sizeof(inflate_state) + kInputBytes; }

std::string_view Name(Compression compression) {
  for (const CompressionName& entry : kNames) {
    if (entry.compression == compression) return entry.name;
  }
  return "unknown";
}

Result<Compression> CompressionFromName(std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const auto same = [&](char a, char b) { return lower(a) == b; };
  for (const CompressionName& entry : kNames) {
    if (std::equal(name.begin(), name.end(), entry.name.begin(), entry.name.end(), same)) return entry.compression;
  }
  return Status(Code::kInvalid, "unknown compression '" + std::string(name) + "'; known are auto, none, gzip, zlib");
}

Compression DetectCompression(std::span<const std::byte> head) {
  if (head.size() < 3) return Compression::kNone;
  const auto at = [&head](size_t i) { return static_cast<unsigned>(head[i]); };
  if (at(0) == 0x1F && at(1) == 0x8B && at(2) == 8) return Compression::kGzip;
  const bool deflate = (at(0) & 15) == 8 && at(0) >> 4 <= 7;  // RFC 1950: the method, and the window it needs
  if (deflate && (at(0) * 256 + at(1)) % 31 == 0 && (at(1) & 0x20) == 0) return Compression::kZlib;
  return Compression::kNone;
}

std::unique_ptr<ByteStream> Inflate(std::unique_ptr<ByteStream> in, Compression compression) {
  return std::make_unique<InflateStream>(std::move(in), compression);
}

}  // namespace penstock
