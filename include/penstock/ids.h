// Ids are types: a lane is not an epoch, a fence is not a seq.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace penstock {

enum class Epoch : uint32_t {};
enum class LaneId : uint32_t {};      // the lane's ordinal in the epoch's seeded order
enum class ReplicaId : uint32_t {};   // 0 but in `replicated`, where each worker that joins is the next replica
enum class Generation : uint32_t {};  // how often the job's position was restored
enum class Fence : uint64_t {};       // rises each time a lane changes its consumer
enum class Term : uint64_t {};        // how often the dispatcher's store was started
enum class JobId : uint64_t {};
enum class WorkerId : uint64_t {};    // one incarnation of a worker: a restart is another worker
enum class ConsumerId : uint64_t {};  // one incarnation of a consumer

// The raw number of an id: for arithmetic, messages and print.
template <class Id>
requires std::is_enum_v<Id>
constexpr std::underlying_type_t<Id> Raw(Id id) { return static_cast<std::underlying_type_t<Id>>(id); }

// What names a lane within a job.
struct LaneKey {
  Epoch epoch{};
  ReplicaId replica{};
  LaneId lane{};
  friend auto operator<=>(const LaneKey&, const LaneKey&) = default;
};

std::string ToString(const LaneKey& key);  // "epoch 0 lane 3", with "replica 1" where there are replicas

// Rows of a lane are counted by seq: the ordinal of the source row in the lane's (shuffled) order, given before filter and flat_map.
using Seq = uint64_t;
inline constexpr Seq kLaneEnd = std::numeric_limits<Seq>::max();  // "to the end", where the end is not known yet

// The next row to deliver: a source row and, where it becomes several, which of them.
struct Cursor {
  Seq seq = 0;
  uint32_t child = 0;
  friend auto operator<=>(const Cursor&, const Cursor&) = default;
};

// Where rows end that go up to `to`, with no more than `last_children` of what the source row before it became; 0: with all of them.
constexpr Cursor EndOf(Seq to, uint32_t last_children) { return last_children == 0 || to == 0 ? Cursor{to, 0} : Cursor{to - 1, last_children}; }

// What names a grant within a job: the row it begins with, and its fence. A lane that comes back under another fence is another grant.
struct GrantName {
  LaneKey lane;
  Cursor from;
  Fence fence{};
  friend auto operator<=>(const GrantName&, const GrantName&) = default;
};

}  // namespace penstock

template <>
struct std::hash<penstock::LaneKey> {
  size_t operator()(const penstock::LaneKey& key) const noexcept {
    uint64_t mixed = (uint64_t{penstock::Raw(key.epoch)} << 32 | penstock::Raw(key.lane)) * 0x9E3779B97F4A7C15ULL;
    return static_cast<size_t>(mixed ^ (uint64_t{penstock::Raw(key.replica)} * 0xC2B2AE3D27D4EB4FULL));
  }
};
