// Counter-based randomness: what is drawn for a row is a function of (seed, epoch, replica, lane, operator, seq), whoever draws it, on whatever
// thread, in whatever order. Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
//
// These numbers decide which rows a lane has and in which order: changing any of them changes datasets that were already checkpointed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "penstock/ids.h"

namespace penstock {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

// The numbers of one row, one after the other.
class Draws {
 public:
  constexpr Draws(PhiloxKey key, uint32_t stream, Seq seq) : key_(key), stream_(stream), seq_(seq) {}

  constexpr uint32_t Next32() {
    if (used_ == 4) {
      words_ = Philox4x32({static_cast<uint32_t>(seq_), static_cast<uint32_t>(seq_ >> 32), block_++, stream_}, key_);
      used_ = 0;
    }
    return words_[used_++];
  }
  constexpr uint64_t Next64() {
    const uint64_t low = Next32();
    return uint64_t{Next32()} << 32 | low;
  }
  // Uniform in [0, bound), bound > 0, without modulo bias (Lemire's multiplication with rejection).
  constexpr uint64_t Below(uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    Wide product = Wide{Next64()} * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = (0 - bound) % bound;
      while (static_cast<uint64_t>(product) < threshold) product = Wide{Next64()} * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }
  constexpr double Unit() { return static_cast<double>(Next64() >> 11) * 0x1.0p-53; }  // uniform in [0, 1)

 private:
  PhiloxKey key_;
  uint32_t stream_;
  Seq seq_;
  uint32_t block_ = 0;
  uint32_t used_ = 4;
  PhiloxCounter words_{};
};

struct RandomKey {
  uint64_t seed = 0;
  Epoch epoch{};
  ReplicaId replica{};
  LaneId lane{};
  uint32_t op = 0;  // the operator's node in the plan
};

// The random stream of one operator in one lane.
class RandomStream {
 public:
  constexpr explicit RandomStream(const RandomKey& key) {
    // The key has more bits than Philox takes: a first application with the seed as key makes the second one's key and part of its counter.
    const PhiloxCounter derived = Philox4x32({Raw(key.epoch), Raw(key.replica), Raw(key.lane), key.op},
                                             {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
    key_ = {derived[0], derived[1]};
    stream_ = derived[2];
  }
  constexpr Draws At(Seq seq) const { return {key_, stream_, seq}; }

 private:
  PhiloxKey key_{};
  uint32_t stream_ = 0;
};

// A seeded permutation of [0, n) with random access and constant memory: a Feistel network over the smallest power of two that holds n, walked
// until it lands below n (fewer than two steps on average). Up to kTable elements, where such networks are poor, it is a shuffled table.
class Permutation {
 public:
  static constexpr uint64_t kTable = 256;

  Permutation(uint64_t n, Draws draws) : n_(n) {
    if (n <= kTable) {
      FillTable(draws);
      return;
    }
    uint32_t bits = 0;
    while (bits < 64 && (n - 1) >> bits != 0) ++bits;
    low_bits_ = bits / 2;
    low_mask_ = (uint64_t{1} << low_bits_) - 1;
    high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
    for (uint64_t& key : keys_) key = draws.Next64();
  }

  uint64_t size() const { return n_; }
  // Where i goes; i < size().
  uint64_t operator()(uint64_t i) const {
    if (!table_.empty()) return table_[i];
    do i = Encrypt(i);
    while (i >= n_);
    return i;
  }

 private:
  static constexpr uint64_t Mix(uint64_t x) {  // the finalizer of SplitMix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }
  uint64_t Encrypt(uint64_t x) const {
    uint64_t low = x & low_mask_;
    uint64_t high = x >> low_bits_;
    for (size_t round = 0; round < keys_.size(); round += 2) {
      low ^= Mix(high + keys_[round]) & low_mask_;
      high ^= Mix(low + keys_[round + 1]) & high_mask_;
    }
    return high << low_bits_ | low;
  }
  void FillTable(Draws& draws) {
    table_.resize(n_);
    for (uint64_t i = 0; i < n_; ++i) {
      const uint64_t j = draws.Below(i + 1);
      table_[i] = table_[j];
      table_[j] = static_cast<uint8_t>(i);
    }
  }

  uint64_t n_;
  uint32_t low_bits_ = 0;
  uint64_t low_mask_ = 0;
  uint64_t high_mask_ = 0;
  std::array<uint64_t, 8> keys_{};
  std::vector<uint8_t> table_;
};

}  // namespace penstock
