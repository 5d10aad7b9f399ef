// Whatever comes as a header is refused, or is one that would be written the same. An input one byte longer gets its crc put right, to come further.
#include <cstdlib>
#include <cstring>

#include "base/crc32c.h"
#include "wire/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < penstock::kFrameHeaderBytes) return 0;
  penstock::FrameHeaderBytes bytes;
  std::memcpy(bytes.data(), data, bytes.size());
  if (size > bytes.size()) {
    const uint32_t crc = penstock::Crc32c(std::span(bytes).first(bytes.size() - sizeof(uint32_t)));
    std::memcpy(bytes.data() + bytes.size() - sizeof crc, &crc, sizeof crc);
  }
  const auto header = penstock::DecodeFrameHeader(bytes, penstock::FrameCaps{});
  if (!header.ok()) return 0;
  if (header->body_bytes > penstock::kMaxControlBody || header->payload_bytes > penstock::kMaxBlock) std::abort();
  if (penstock::EncodeFrameHeader(*header) != bytes) std::abort();
  return 0;
}
