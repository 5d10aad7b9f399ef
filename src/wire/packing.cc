#include "wire/packing.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/crc32c.h"

namespace penstock {

struct PackTools {
  std::vector<std::byte> packed;  // a piece
  std::vector<std::byte> lz4;
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd{nullptr, ZSTD_freeCCtx};
};
struct UnpackTools {
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd{nullptr, ZSTD_freeDCtx};
};

namespace {

constexpr int kZstdLevel = 1;  // the next ones take more time than they save bytes of rows
constexpr size_t kFixedHead = 12;

using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;
const char* Chars(Bytes bytes) { return reinterpret_cast<const char*>(bytes.data()); }
char* Chars(Room room) { return reinterpret_cast<char*>(room.data()); }

size_t PackLz4(PackTools& tools, Bytes from, Room to) {
  tools.lz4.resize(static_cast<size_t>(LZ4_sizeofState()));
  return static_cast<size_t>(
      LZ4_compress_fast_extState(tools.lz4.data(), Chars(from), Chars(to), static_cast<int>(from.size()), static_cast<int>(to.size()), 1));
}
bool UnpackLz4(UnpackTools& /*tools*/, Bytes from, Room to) {
  const int got = LZ4_decompress_safe(Chars(from), Chars(to), static_cast<int>(from.size()), static_cast<int>(to.size()));
  return got >= 0 && static_cast<size_t>(got) == to.size();
}

size_t PackZstd(PackTools& tools, Bytes from, Room to) {
  if (tools.zstd == nullptr) tools.zstd.reset(ZSTD_createCCtx());
  if (tools.zstd == nullptr) return 0;
  const size_t packed = ZSTD_compressCCtx(tools.zstd.get(), to.data(), to.size(), from.data(), from.size(), kZstdLevel);
  return ZSTD_isError(packed) != 0 ? 0 : packed;
}
bool UnpackZstd(UnpackTools& tools, Bytes from, Room to) {
  if (tools.zstd == nullptr) tools.zstd.reset(ZSTD_createDCtx());
  if (tools.zstd == nullptr) return false;
  const size_t got = ZSTD_decompressDCtx(tools.zstd.get(), to.data(), to.size(), from.data(), from.size());
  return ZSTD_isError(got) == 0 && got == to.size();
}

// A codec: its name, how it packs (0: it does not fit) and how it unpacks (false: not to exactly so many bytes).
struct Method {
  PackCodec codec;
  std::string_view name;
  size_t (*pack)(PackTools& tools, Bytes from, Room to);
  bool (*unpack)(UnpackTools& tools, Bytes from, Room to);
};
constexpr std::array kMethods = {Method{PackCodec::kLz4, "lz4", PackLz4, UnpackLz4}, Method{PackCodec::kZstd, "zstd", PackZstd, UnpackZstd}};

const Method* Find(PackCodec codec) {
  const auto* found = std::find_if(kMethods.begin(), kMethods.end(), [codec](const Method& method) { return method.codec == codec; });
  return found == kMethods.end() ? nullptr : found;
}

uint64_t PieceCount(uint64_t raw_bytes) { return raw_bytes / kPackPiece + (raw_bytes % kPackPiece == 0 ? 0 : 1); }
uint64_t RawPiece(uint64_t raw_bytes, size_t piece) { return std::min(kPackPiece, raw_bytes - piece * kPackPiece); }

template <class T>
T Read(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
void Append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string_view Name(PackCodec codec) {
  const Method* method = Find(codec);
  return method == nullptr ? "none" : method->name;
}

// ---- packing

Packer::Packer() : tools_(std::make_unique<PackTools>()) {}
Packer::~Packer() = default;

Packing Packer::Pack(PackCodec codec, std::span<std::byte> block) {
  const Packing as_it_is{.raw_bytes = block.size(), .bytes = block.size()};
  const Method* method = Find(codec);
  if (method == nullptr) return as_it_is;
  tools_->packed.resize(kPackPiece);
  Packing packing{.codec = codec, .raw_bytes = block.size()};
  packing.pieces.reserve(PieceCount(block.size()));
  for (size_t piece = 0; piece < PieceCount(block.size()); ++piece) {
    const Room raw = block.subspan(piece * kPackPiece, RawPiece(block.size(), piece));
    const Room room = Room(tools_->packed).first(raw.size() - raw.size() / 16);
    const size_t packed = raw.size() < 16 ? 0 : method->pack(*tools_, raw, room);
    const Bytes piece_bytes = packed > 0 ? Bytes(room.first(packed)) : Bytes(raw);
    std::byte* to = block.data() + packing.bytes;
    if (to != piece_bytes.data()) std::memmove(to, piece_bytes.data(), piece_bytes.size());
    packing.pieces.push_back(static_cast<uint32_t>(piece_bytes.size()));
    packing.bytes += piece_bytes.size();
  }
  return packing.bytes == block.size() ? as_it_is : packing;
}

// ---- heads

std::string EncodePackedHead(const Packing& packing) {
  std::string head;
  head.reserve(kFixedHead + packing.pieces.size() * sizeof(uint32_t));
  Append(head, packing.raw_bytes);
  Append(head, static_cast<uint32_t>(packing.codec));
  for (const uint32_t piece : packing.pieces) Append(head, piece);
  return head;
}

Result<Packing> DecodePackedHead(std::span<const std::byte> head, uint64_t payload_bytes, uint64_t cap) {
  const auto wrong = [](const std::string& what) { return Status(Code::kData, "a packed block whose head " + what); };
  if (head.size() < kLeastPackedHead) return wrong("is too short");
  const auto raw_bytes = Read<uint64_t>(head, 0);
  const auto codec = Read<uint32_t>(head, 8);
  if (codec > UINT8_MAX || Find(static_cast<PackCodec>(codec)) == nullptr)
    return wrong("names codec " + std::to_string(codec) + ", which is unknown here");
  if (raw_bytes > cap) {
    return Status(Code::kTooLarge, "a packed block of " + std::to_string(raw_bytes) + " bytes; at most " + std::to_string(cap) + " are taken");
  }
  const uint64_t count = PieceCount(raw_bytes);
  if (count == 0 || head.size() != kFixedHead + count * sizeof(uint32_t)) return wrong("is not as long as its pieces are many");
  Packing packing{.codec = static_cast<PackCodec>(codec), .raw_bytes = raw_bytes};
  packing.pieces.reserve(count);
  for (size_t piece = 0; piece < count; ++piece) {
    const auto bytes = Read<uint32_t>(head, kFixedHead + piece * sizeof(uint32_t));
    if (bytes == 0 || bytes > RawPiece(raw_bytes, piece)) return wrong("has a piece of " + std::to_string(bytes) + " bytes");
    packing.pieces.push_back(bytes);
    packing.bytes += bytes;
  }
  if (packing.bytes != payload_bytes) return wrong("names other bytes than come with it");
  return packing;
}

// ---- unpacking

Unpacker::Unpacker() : tools_(std::make_unique<UnpackTools>()) {}
Unpacker::~Unpacker() = default;

void Unpacker::Begin(Packing packing, std::span<std::byte> into) {
  packing_ = std::move(packing);
  into_ = into;
  piece_ = got_ = 0;
  crc_ = 0;
  packed_.resize(kPackPiece);
}

// A piece that is not packed goes to where it belongs at once.
std::span<std::byte> Unpacker::room() {
  if (piece_ == packing_.pieces.size()) return {};
  const uint64_t raw = RawPiece(packing_.raw_bytes, piece_);
  const uint32_t bytes = packing_.pieces[piece_];
  const Room whole = bytes == raw ? into_.subspan(piece_ * kPackPiece, raw) : Room(packed_).first(bytes);
  return whole.subspan(got_);
}

Status Unpacker::Wrote(size_t bytes) {
  got_ += bytes;
  if (got_ < packing_.pieces[piece_]) return {};
  PENSTOCK_TRY(UnpackPiece(into_.subspan(piece_ * kPackPiece, RawPiece(packing_.raw_bytes, piece_))));
  ++piece_;
  got_ = 0;
  return {};
}

Status Unpacker::UnpackPiece(std::span<std::byte> raw) {
  const size_t bytes = packing_.pieces[piece_];
  const bool stored = bytes == raw.size();
  const Bytes packed = stored ? Bytes(raw) : Bytes(packed_).first(bytes);
  crc_ = Crc32c(packed, crc_);
  if (stored || Find(packing_.codec)->unpack(*tools_, packed, raw)) return {};
  return Status(Code::kData, "a packed block was damaged on its way (" + std::string(Name(packing_.codec)) + ")");
}

}  // namespace penstock
