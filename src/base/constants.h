// The protocol's defaults, in one table (protocol.md 6). Flags may override them; nothing else repeats them.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock {

using namespace std::chrono_literals;

inline constexpr auto kDispatcherLease = 15s;  // the dispatcher counts from receipt…
inline constexpr auto kClientLease = 12s;      // …the consumer from sending, and shorter
inline constexpr auto kHeartbeatEvery = 1s;
inline constexpr auto kPingEvery = 1s;
inline constexpr auto kSilence = 3s;          // a session that says nothing for so long is broken
inline constexpr auto kProgressWithin = 60s;  // one that takes longer to send one message, or to read what it was sent, is broken too
inline constexpr auto kWorkerLease = 5s;
inline constexpr uint32_t kHedgeFactor = 4;  // a lane is behind when it took so many times as long as its peers…
inline constexpr auto kHedgeAfter = 500ms;   // …and so much longer
inline constexpr auto kStoreTick = 5ms;
inline constexpr auto kHelloWithin = 5s;

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
inline constexpr uint64_t kBlockTarget = 1 * kMiB;
inline constexpr uint64_t kLargeBlockTarget = 4 * kMiB;  // where what each block costs beside its rows shows (Pipeline::block_target)
inline constexpr uint64_t kLaneInput = 64 * kMiB;        // input bytes a lane: about a second of work
inline constexpr uint32_t kOpenLanes = 4;
inline constexpr uint32_t kSpareGrants = 2;
inline constexpr uint64_t kLaneCredit = 8 * kMiB;  // or 4 blocks, whichever is less, but at least one block
inline constexpr uint32_t kCreditBlocks = 4;
inline constexpr uint32_t kMaxMix = 8;                   // lanes a batch is joined from where lanes are single large files
inline constexpr uint32_t kLaneFiles = 16;               // files a lane interleaves
inline constexpr uint64_t kMaxControlBody = 256 * kMiB;  // a plan may carry arrays
inline constexpr uint64_t kMaxBeforeHello = 64 * kKiB;   // a peer that has not shown its token gets no more
inline constexpr uint64_t kMaxBlock = 8 * kGiB;
inline constexpr uint64_t kSegmentBytes = 32 * kMiB;
inline constexpr uint16_t kDefaultPort = 5050;

}  // namespace penstock
