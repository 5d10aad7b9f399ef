// Whatever comes as a message is refused, or is one that reads back as itself.
#include <cstdlib>
#include <vector>

#include "wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data), reinterpret_cast<const std::byte*>(data) + size);
  const auto message = penstock::DecodeMessage(bytes);
  if (!message.ok()) return 0;
  const std::string again = penstock::EncodeMessage(*message);
  const auto back = penstock::DecodeMessage(std::as_bytes(std::span(again.data(), again.size())));
  if (!back.ok() || !(*back == *message)) std::abort();
  return 0;
}
