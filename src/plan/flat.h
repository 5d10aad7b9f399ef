// Reading FlatBuffers that came from outside.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/status.h"

namespace penstock {

// Bytes at an address that FlatBuffers may read from: as they are where that is so, else a copy.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::string_view bytes) : bytes_(bytes) {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % sizeof(uint64_t) == 0) return;
    copy_.resize(bytes.size() / sizeof(uint64_t) + 1);
    std::memcpy(copy_.data(), bytes.data(), bytes.size());
    bytes_ = {reinterpret_cast<const char*>(copy_.data()), bytes.size()};
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes_.data()); }
  size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  std::vector<uint64_t> copy_;
};

// The smallest table takes more than 8 bytes: a buffer that reaches more tables than that shares them, and would unfold to more than was sent.
inline flatbuffers::Verifier MakeVerifier(const AlignedBytes& bytes) {
  return {bytes.data(), bytes.size(), /*max_depth=*/64, /*max_tables=*/static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 1)};
}

// Content copied out of a buffer, which can be no more than the buffer holds unless it refers to the same bytes twice.
class CopyBudget {
 public:
  explicit CopyBudget(size_t bytes) : left_(bytes) {}
  Status Take(size_t bytes) {
    if (bytes > left_) return Status(Code::kInvalid, "its content is larger than the message: parts are shared, which is not allowed");
    left_ -= bytes;
    return {};
  }

 private:
  size_t left_;
};

}  // namespace penstock
