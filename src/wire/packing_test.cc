#include "wire/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/crc32c.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr PackCodec kCodecs[] = {PackCodec::kLz4, PackCodec::kZstd};

Bytes Noise(size_t size, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}
// Numbers that count: what ids and offsets look like.
Bytes Counting(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t number = i / 8;
    std::memcpy(bytes.data() + i, &number, sizeof number);
  }
  return bytes;
}

// Over the wire and back, in reads of at most `read` bytes.
Result<Bytes> Unpack(Unpacker& unpacker, std::string_view head, std::span<const std::byte> packed, size_t read) {
  PENSTOCK_ASSIGN(Packing packing, DecodePackedHead(std::as_bytes(std::span(head)), packed.size(), kMaxBlock));
  Bytes raw(packing.raw_bytes);
  unpacker.Begin(std::move(packing), raw);
  while (!unpacker.room().empty()) {
    const size_t piece = std::min({read, unpacker.room().size(), packed.size()});
    std::memcpy(unpacker.room().data(), packed.data(), piece);
    packed = packed.subspan(piece);
    PENSTOCK_TRY(unpacker.Wrote(piece));
  }
  return raw;
}

TEST(Packing, ComesBackAsItWas) {
  Packer packer;
  Unpacker unpacker;
  for (const PackCodec codec : kCodecs) {
    for (const size_t size :
         {size_t{16}, size_t{4096}, size_t{kPackPiece - 1}, size_t{kPackPiece}, size_t{kPackPiece + 1}, size_t{5 * kPackPiece + 77}}) {
      const Bytes raw(size, std::byte{7});
      Bytes block = raw;
      const Packing packing = packer.Pack(codec, block);
      if (size > 16) {
        ASSERT_EQ(packing.codec, codec);
        EXPECT_LT(packing.bytes, size / 2);
      }
      if (packing.codec == PackCodec::kNone) continue;
      for (const size_t read : {size_t{1} + size / 1000, size_t{100'000'000}}) {
        const auto back = Unpack(unpacker, EncodePackedHead(packing), std::span(block).first(packing.bytes), read);
        ASSERT_TRUE(back.ok()) << back.status();
        EXPECT_TRUE(*back == raw) << size;
        EXPECT_EQ(unpacker.crc(), Crc32c(std::span(block).first(packing.bytes)));
      }
    }
  }
}

TEST(Packing, OfWhatGetsNoSmallerLeavesEveryByteWhereItIs) {
  Packer packer;
  for (const PackCodec codec : {PackCodec::kLz4, PackCodec::kZstd, PackCodec::kNone}) {
    const Bytes raw = Noise(3 * kPackPiece + 5);
    Bytes block = raw;
    const Packing packing = packer.Pack(codec, block);
    EXPECT_EQ(packing.codec, PackCodec::kNone);
    EXPECT_EQ(packing.bytes, raw.size());
    EXPECT_TRUE(block == raw);
  }
  EXPECT_EQ(packer.Pack(PackCodec::kLz4, {}).codec, PackCodec::kNone);
}

TEST(Packing, KeepsPiecesThatGetNoSmallerBetweenOthers) {
  Packer packer;
  Unpacker unpacker;
  Bytes raw = Noise(kPackPiece);
  for (const Bytes& more : {Counting(2 * kPackPiece), Noise(2 * kPackPiece, 2), Bytes(99)}) raw.insert(raw.end(), more.begin(), more.end());
  for (const PackCodec codec : kCodecs) {
    Bytes block = raw;
    const Packing packing = packer.Pack(codec, block);
    ASSERT_EQ(packing.pieces.size(), 6U);
    EXPECT_EQ(packing.pieces[0], kPackPiece);
    EXPECT_LT(packing.pieces[1], kPackPiece);
    EXPECT_EQ(packing.pieces[3], kPackPiece);
    EXPECT_TRUE(Unpack(unpacker, EncodePackedHead(packing), std::span(block).first(packing.bytes), 70'000).value() == raw);
  }
}

// Blocks of runs, noise and numbers in any order, cut anywhere.
TEST(Packing, OfAnyBlockComesBackAsItWas) {
  Packer packer;
  Unpacker unpacker;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    Bytes raw;
    for (int part = 0; part < 6; ++part) {
      const size_t size = random() % (kPackPiece / 2);
      const Bytes more = part % 3 == 0 ? Noise(size, random()) : part % 3 == 1 ? Counting(size) : Bytes(size, std::byte(random()));
      raw.insert(raw.end(), more.begin(), more.end());
    }
    Bytes block = raw;
    const Packing packing = packer.Pack(kCodecs[seed % 2], block);
    if (packing.codec == PackCodec::kNone) continue;
    EXPECT_LE(packing.bytes, raw.size());
    EXPECT_TRUE(Unpack(unpacker, EncodePackedHead(packing), std::span(block).first(packing.bytes), 1 + random() % 200'000).value() == raw) << seed;
  }
}

TEST(Packing, ThatWasDamagedIsAnErrorOrOtherBytesAndNeverACrash) {
  Packer packer;
  Unpacker unpacker;
  for (const PackCodec codec : kCodecs) {
    Bytes block = Counting(kPackPiece + 1000);
    const Packing packing = packer.Pack(codec, block);
    const std::string head = EncodePackedHead(packing);
    int refused = 0;
    for (size_t at = 0; at < packing.bytes; at += 97) {
      Bytes bad(block.begin(), block.begin() + static_cast<ptrdiff_t>(packing.bytes));
      bad[at] ^= std::byte{0x55};
      const auto back = Unpack(unpacker, head, bad, 1'000'000);
      refused += back.ok() ? 0 : 1;
      if (!back.ok()) {
        EXPECT_THAT(back.status().message(), HasSubstr("damaged on its way (" + std::string(Name(codec))));
      }
    }
    EXPECT_GT(refused, 0);
  }
}

TEST(PackedHead, IsCheckedBeforeAnythingIsAllocated) {
  const Packing good{.codec = PackCodec::kLz4, .raw_bytes = kPackPiece + 10, .pieces = {100, 10}, .bytes = 110};
  const auto decode = [](const Packing& packing, uint64_t payload = 110) {
    const std::string head = EncodePackedHead(packing);
    return DecodePackedHead(std::as_bytes(std::span(head)), payload, kMaxBlock).status();
  };
  EXPECT_TRUE(decode(good).ok());
  const auto with = [&](auto change) {
    Packing bad = good;
    change(bad);
    return decode(bad);
  };
  EXPECT_EQ(with([](Packing& p) { p.raw_bytes = kMaxBlock + 1; }).code(), Code::kTooLarge);
  EXPECT_THAT(with([](Packing& p) { p.codec = PackCodec{9}; }).message(), HasSubstr("codec 9"));
  for (const Status& status : {with([](Packing& p) { p.codec = PackCodec::kNone; }), with([](Packing& p) { p.raw_bytes = 0; }),
                               with([](Packing& p) { p.raw_bytes = kPackPiece; }), with([](Packing& p) { p.raw_bytes = kMaxBlock; }),
                               with([](Packing& p) { p.pieces = {110}; }), with([](Packing& p) {
                                 p.pieces = {110, 0};
                               }),
                               with([](Packing& p) {
                                 p.pieces = {99, 11};
                               }),
                               decode(good, 109), decode(good, 111)}) {
    EXPECT_EQ(status.code(), Code::kData) << status;
  }
  const std::string head = EncodePackedHead(good);
  for (size_t size = 0; size < head.size(); ++size) EXPECT_FALSE(DecodePackedHead(std::as_bytes(std::span(head).first(size)), 110, kMaxBlock).ok());
}

}  // namespace
}  // namespace penstock
