// Protocol Buffers' wire format, as far as tf.Example needs it. Every read is bounded and says whether it worked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireTag {
  uint64_t field = 0;
  WireType type{};
};

// A cursor over a message. After a read that failed it is of no more use.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const char* at() const { return at_; }

  [[nodiscard, gnu::always_inline]] bool Varint(uint64_t& value) {
    if (at_ == end_) return false;
    const auto first = static_cast<uint8_t>(*at_);
    if (first < 0x80) {
      value = first;
      ++at_;
      return true;
    }
    if (left() > 1 && static_cast<uint8_t>(at_[1]) < 0x80) {
      value = (first & 0x7FU) | uint64_t{static_cast<uint8_t>(at_[1])} << 7;
      at_ += 2;
      return true;
    }
    return LongVarint(value);
  }
  [[nodiscard, gnu::always_inline]] bool Bytes(std::string_view& bytes) {
    uint64_t length = 0;
    if (!Varint(length) || length > left()) return false;
    bytes = {at_, static_cast<size_t>(length)};
    at_ += length;
    return true;
  }
  [[nodiscard, gnu::always_inline]] bool Tag(WireTag& tag) {
    uint64_t value = 0;
    if (!Varint(value)) return false;
    tag = {value >> 3, static_cast<WireType>(value & 7)};
    return tag.field != 0;
  }
  // Passes over this one byte, a short tag.
  [[nodiscard]] bool Expect(uint64_t field, WireType type) {
    if (at_ == end_ || static_cast<uint8_t>(*at_) != (field << 3 | static_cast<uint8_t>(type))) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] bool Advance(size_t bytes) {
    if (bytes > left()) return false;
    at_ += bytes;
    return true;
  }
  // Passes over a field's value. Groups, which tf.Example never had, are refused.
  [[nodiscard]] bool Skip(WireType type) {
    uint64_t number = 0;
    std::string_view bytes;
    switch (type) {
      case WireType::kVarint: return Varint(number);
      case WireType::kFixed64: return Advance(8);
      case WireType::kBytes: return Bytes(bytes);
      case WireType::kFixed32: return Advance(4);
    }
    return false;
  }

 private:
  [[gnu::noinline]] bool LongVarint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      value |= shift < 64 ? static_cast<uint64_t>(byte & 0x7F) << shift : 0;
      if (byte < 0x80) return true;
    }
    return false;
  }

  const char* at_;
  const char* end_;
};

}  // namespace penstock
