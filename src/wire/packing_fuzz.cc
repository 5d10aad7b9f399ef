// Any bytes as a packed block, with the head that they begin with or one that is put right; and what is packed comes back the same.
#include <cstdlib>
#include <cstring>

#include "wire/packing.h"

namespace penstock {
namespace {

constexpr uint64_t kMost = 1 << 20;  // of raw bytes

Status UnpackAll(Packing packing, std::span<const std::byte> packed, std::vector<std::byte>& raw) {
  static Unpacker unpacker;
  raw.assign(packing.raw_bytes, std::byte{});
  unpacker.Begin(std::move(packing), raw);
  while (!unpacker.room().empty()) {
    const size_t piece = std::min(unpacker.room().size(), packed.size());
    if (piece == 0) std::abort();  // a head that was let pass names exactly what comes
    std::memcpy(unpacker.room().data(), packed.data(), piece);
    packed = packed.subspan(piece);
    PENSTOCK_TRY(unpacker.Wrote(piece));
  }
  return {};
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 4) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> raw;
  // As a head of `data[0]` bytes and what comes with it.
  const size_t head = std::min<size_t>(data[0], size - 1);
  const auto rest = bytes.subspan(1 + head);
  if (auto packing = DecodePackedHead(bytes.subspan(1, head), rest.size(), kMost); packing.ok()) (void)UnpackAll(std::move(*packing), rest, raw).ok();
  // As one piece, of any codec and raw size.
  const auto codec = data[0] % 2 == 0 ? PackCodec::kLz4 : PackCodec::kZstd;
  const uint64_t raw_bytes = 1 + (uint64_t{data[1]} << 8 | data[2]);
  const auto piece = bytes.subspan(3).first(std::min<size_t>(size - 3, raw_bytes));
  (void)UnpackAll({.codec = codec, .raw_bytes = raw_bytes, .pieces = {static_cast<uint32_t>(piece.size())}, .bytes = piece.size()}, piece, raw).ok();
  // There and back.
  static Packer packer;
  std::vector<std::byte> block(bytes.begin(), bytes.end());
  const Packing packed = packer.Pack(codec, block);
  if (packed.codec == PackCodec::kNone) return std::equal(block.begin(), block.end(), bytes.begin()) ? 0 : (std::abort(), 0);
  const std::string encoded = EncodePackedHead(packed);
  auto decoded = DecodePackedHead(std::as_bytes(std::span(encoded)), packed.bytes, kMost + size);
  if (!decoded.ok() || !UnpackAll(std::move(*decoded), std::span(block).first(packed.bytes), raw).ok()) std::abort();
  if (!std::equal(raw.begin(), raw.end(), bytes.begin(), bytes.end())) std::abort();
  return 0;
}
