#include "engine/kept_run.h"

#include <gmock/gmock.h>

#include <numeric>

#include "base/constants.h"
#include "engine/testing.h"

namespace penstock::engine::testing {
namespace {

constexpr uint64_t kKeptRows = 100;

AttrMap KeptColumn(const std::string& name, int64_t width) {
  std::string values(kKeptRows * static_cast<uint64_t>(width), '\0');
  std::iota(values.begin(), values.end(), static_cast<char>(width));
  AttrMap map;
  map.Set("name", name);
  map.Set("dtype", std::string("uint8"));
  map.Set("shape", std::vector<int64_t>{width});
  map.Set("values", std::make_shared<const std::string>(std::move(values)));
  return map;
}

// Rows whose columns leave gaps between the buffers of a block.
Plan KeptPlan() {
  return Source("arrays", {{"rows", static_cast<int64_t>(kKeptRows)}, {"columns", std::vector<AttrMap>{KeptColumn("a", 3), KeptColumn("b", 64)}}});
}

struct ReadBlock {
  BlockInfo info;
  std::string bytes;
  bool in_place = false;
};

struct Reading {
  std::vector<ReadBlock> blocks;
  LaneOver over;
};

std::string WholeOf(const Extent& block) {
  const auto text = [](std::span<const std::byte> bytes) { return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()); };
  std::string whole = text(block.bytes());
  if (block.following() == nullptr) return whole;
  for (const auto piece : block.following()->pieces) whole += text(piece);
  return whole;
}

Reading ReadBlocks(const Pipeline& pipeline, LaneRequest request) {
  HeapExtents heap;
  request.allocator = &heap;
  const auto run = pipeline.OpenLane(request).value();
  Reading reading;
  for (StepResult step = run->Step(); !std::holds_alternative<LaneOver>(step); step = run->Step()) {
    const Produced& produced = std::get<Produced>(step);
    reading.blocks.push_back({produced.info, WholeOf(produced.extent), produced.extent.following() != nullptr});
    if (reading.blocks.size() > kKeptRows) break;
  }
  const StepResult last = run->Step();
  reading.over = std::get<LaneOver>(last);
  return reading;
}

LaneRequest LaneZero(bool in_place) { return {.key = {}, .from = {}, .block_target = kMiB, .block_cap = kMiB, .in_place = in_place}; }

TEST(KeptRows, AreTheSameBlocksAsThoseOfOtherOperators) {
  const auto kept = Compile(Over(KeptPlan(), "batch", {{"n", int64_t{7}}}));
  const Plan projected = Over(KeptPlan(), "project", {{"columns", std::vector<std::string>{"a", "b"}}});
  const auto all_columns = Compile(Over(projected, "batch", {{"n", int64_t{7}}}));
  LaneRequest request = LaneZero(false);
  request.by_group = true;
  const Reading copied = ReadBlocks(*kept, request);
  const Reading evaluated = ReadBlocks(*all_columns, request);
  ASSERT_EQ(copied.blocks.size(), evaluated.blocks.size());
  const auto rows_of = [](const ReadBlock& block) {  // their digests come about in another way
    return std::string(block.bytes).replace(offsetof(BlockHeader, digest), sizeof(BlockHeader::digest), sizeof(BlockHeader::digest), '\0');
  };
  for (size_t i = 0; i < copied.blocks.size(); ++i) EXPECT_EQ(rows_of(copied.blocks[i]), rows_of(evaluated.blocks[i])) << "block " << i;
}

TEST(KeptRows, AreTheSameBlocksWhereverTheyLie) {
  const auto pipeline = Compile(Over(KeptPlan(), "batch", {{"n", int64_t{7}}}));
  for (const Seq from : {Seq{0}, Seq{9}}) {
    LaneRequest request = LaneZero(false);
    request.by_group = true;
    request.from = {from, 0};
    const Reading copied = ReadBlocks(*pipeline, request);
    request.in_place = true;
    const Reading kept = ReadBlocks(*pipeline, request);
    ASSERT_EQ(kept.blocks.size(), copied.blocks.size());
    EXPECT_EQ(kept.over.end, copied.over.end);
    for (size_t i = 0; i < kept.blocks.size(); ++i) {
      EXPECT_TRUE(kept.blocks[i].in_place);
      EXPECT_FALSE(copied.blocks[i].in_place);
      EXPECT_EQ(kept.blocks[i].bytes, copied.blocks[i].bytes) << "block " << i << " from row " << from;
      EXPECT_EQ(kept.blocks[i].info.digest, copied.blocks[i].info.digest);
      EXPECT_TRUE(i == 0 || kept.blocks[i].info.digest != kept.blocks[i - 1].info.digest);
    }
  }
}

TEST(KeptRows, AreCutAtGroupsUpToTheTargetAndNeverOverTheCap) {
  const auto pipeline = Compile(Over(KeptPlan(), "batch", {{"n", int64_t{8}}}));
  LaneRequest request = LaneZero(true);
  request.block_target = 67 * 3;
  for (const ReadBlock& block : ReadBlocks(*pipeline, request).blocks) EXPECT_EQ(block.info.end.seq % 8, 0U);
  request.block_cap = 67 * 5 + 6 * kBlockAlign;
  for (const ReadBlock& block : ReadBlocks(*pipeline, request).blocks) {
    EXPECT_LE(block.bytes.size(), request.block_cap);
    EXPECT_LE(block.info.rows, 5U);
  }
}

TEST(KeptRows, EndWhereTheRangeDoesAndGoOnWhenItIsExtended) {
  const auto pipeline = Compile(KeptPlan());
  HeapExtents heap;
  LaneRequest request = LaneZero(true);
  request.to = 5;
  request.allocator = &heap;
  const auto run = pipeline->OpenLane(request).value();
  EXPECT_EQ(std::get<Produced>(run->Step()).info.rows, 5U);
  EXPECT_FALSE(std::get<LaneOver>(run->Step()).lane_ended);
  run->Extend(kLaneEnd);
  EXPECT_EQ(std::get<Produced>(run->Step()).info.first.seq, 5U);
  EXPECT_TRUE(std::get<LaneOver>(run->Step()).lane_ended);
}

TEST(KeptRows, ThatAShuffleMovesAreCopied) {
  const auto pipeline = Compile(Over(KeptPlan(), "shuffle", {{"buffer_size", int64_t{100}}}));
  for (const ReadBlock& block : ReadBlocks(*pipeline, LaneZero(true)).blocks) EXPECT_FALSE(block.in_place);
}

}  // namespace
}  // namespace penstock::engine::testing
