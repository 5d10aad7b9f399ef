// What all runs of lanes do with a block and with an error.
#pragma once

#include <span>

#include "engine/pipeline.h"
#include "wire/block.h"

namespace penstock::engine {

// The buffers are in `memory` at their places: adds digest, head and padding.
void SealBlock(BlockPlan& block, std::span<std::byte> memory);
// The same with what stands for their content in the digest: the CRC-32C of each, which whoever wrote it has taken while it was in the caches, or
// names of what the rows were made of (NameOf). Runs of one plan all do the same.
void SealBlock(BlockPlan& block, std::span<const uint32_t> content, std::span<std::byte> memory);
// The same where the buffers stay elsewhere: `memory` is for the head alone.
void SealHead(BlockPlan& block, std::span<const uint32_t> content, std::span<std::byte> memory);

// An error of this lane.
Status InLane(const LaneRequest& request, Status status);
// The allocator's answer to a block of rows that begin at `seq`, as the run's.
StepResult NoRoom(const LaneRequest& request, const Status& status, Seq seq, uint64_t rows, uint64_t bytes);

}  // namespace penstock::engine
