// What all runs of lanes do with a block and with an error.
#pragma once

#include <span>

#include "engine/pipeline.h"
#include "wire/block.h"

namespace penstock::engine {

// The buffers are in `memory` at their places: adds digest, head and padding.
void SealBlock(BlockPlan& block, std::span<std::byte> memory);
// The buffers are elsewhere, as long as planned: copies them to their places, and adds the rest.
void CopyAndSealBlock(BlockPlan& block, std::span<const std::span<const std::byte>> buffers, std::span<std::byte> memory);
// The buffers stay where they are: adds the digest, and writes the head to `memory`.
void SealHead(BlockPlan& block, std::span<const std::span<const std::byte>> buffers, std::span<std::byte> memory);

// An error of this lane.
Status InLane(const LaneRequest& request, Status status);
// The allocator's answer to a block of rows that begin at `seq`, as the run's.
StepResult NoRoom(const LaneRequest& request, const Status& status, Seq seq, uint64_t rows, uint64_t bytes);

}  // namespace penstock::engine
