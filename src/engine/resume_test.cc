// A lane is the same however it is read: from any cursor, in blocks of any size, in ranges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "engine/testing.h"
#include "formats/tfrecord.h"

namespace penstock::engine::testing {
namespace {

void ExpectResumesEverywhere(const Plan& plan) {
  const auto pipeline = Compile(plan);
  for (uint32_t lane = 0; lane < pipeline->layout().lanes; ++lane) {
    const std::vector<std::string> whole = ReadLane(*pipeline, lane);
    for (size_t from = 0; from <= whole.size(); ++from) {
      ASSERT_EQ(ReadLane(*pipeline, lane, {.from = from}), std::vector<std::string>(whole.begin() + static_cast<std::ptrdiff_t>(from), whole.end()))
          << "lane " << lane << " from " << from;
    }
  }
}

TEST(Resume, OfCountedRowsContinuesExactly) {
  ExpectResumesEverywhere(Numbers(50));
  ExpectResumesEverywhere(Over(Over(Numbers(50), "shuffle", {{"buffer_size", int64_t{5}}}), "batch", {{"n", int64_t{8}}}));
  ExpectResumesEverywhere(Over(Over({Numbers(20), Numbers(30)}, "concatenate"), "enumerate"));
}

class ResumeOfRecords : public ::testing::TestWithParam<Compression> {};

TEST_P(ResumeOfRecords, ContinuesExactlyWhateverTheOrder) {
  TempDir dir;
  const Plan records = Records(WriteFiles(dir, 5, 11, GetParam()));
  ExpectResumesEverywhere(records);
  ExpectResumesEverywhere(Over(records, "interleave", {{"cycle_length", int64_t{3}}}));
  for (const int64_t buffer : {int64_t{1}, int64_t{4}, int64_t{20}, int64_t{1000}, int64_t{1} << 32})
    ExpectResumesEverywhere(Over(records, "shuffle", {{"buffer_size", buffer}}));
  ExpectResumesEverywhere(Over(Over(records, "shuffle", {{"buffer_size", int64_t{4}}}), "shuffle", {{"buffer_size", int64_t{7}}}));
  ExpectResumesEverywhere(Over(Over(records, "batch", {{"n", int64_t{3}}}), "shuffle", {{"buffer_size", int64_t{2}}}));
}

TEST_P(ResumeOfRecords, ContinuesASerialLaneExactly) {
  TempDir dir;
  const Plan records = Records(WriteFiles(dir, 3, 7, GetParam()));
  ExpectResumesEverywhere(Over(records, "take", {{"count", int64_t{17}}}));
  ExpectResumesEverywhere(Over(Over(records, "skip", {{"count", int64_t{3}}}), "shard", {{"num", int64_t{4}}, {"index", int64_t{1}}}));
  ExpectResumesEverywhere(Over(Over({records, Numbers(15)}, "zip"), "shuffle", {{"buffer_size", int64_t{4}}}));
  ExpectResumesEverywhere(Over(Over(Over(records, "shuffle", {{"buffer_size", int64_t{4}}}), "repeat", {{"count", int64_t{3}}}), "enumerate"));
}

INSTANTIATE_TEST_SUITE_P(Compressions, ResumeOfRecords, ::testing::Values(Compression::kNone, Compression::kGzip),
                         [](const auto& tested) { return std::string(Name(tested.param)); });

TEST(Blocks, CarryTheSameRowsWhateverTheirSize) {
  TempDir dir;
  const Plan plan =
      Over(Over(Records(WriteFiles(dir, 6, 40, Compression::kGzip, 50)), "shuffle", {{"buffer_size", int64_t{16}}}), "batch", {{"n", int64_t{8}}});
  const auto pipeline = Compile(plan);
  const auto rows = ReadEpoch(*pipeline);
  for (const uint64_t target : {1, 100, 1000, 1 << 20}) EXPECT_EQ(ReadEpoch(*pipeline, {.block_target = target}), rows);
  EXPECT_EQ(ReadEpoch(*pipeline, {.block_target = 1, .block_cap = 1}), rows);
}

TEST(Blocks, AreWholeGroupsFromTheLanesStartUnlessTheCapIsSmaller) {
  const auto pipeline = Compile(Over(Numbers(1000), "batch", {{"n", int64_t{10}}}));
  const uint64_t lane_rows = ReadLane(*pipeline, 0).size();
  ASSERT_EQ(lane_rows % 10, 0U);
  const auto whole_groups = [&](const BlockInfo& block) { EXPECT_EQ(block.end.seq % 10, 0U); };
  for (const uint64_t target : {1, 100, 300}) ReadLane(*pipeline, 0, {.block_target = target, .on_block = whole_groups});
  ReadLane(*pipeline, 0, {.from = 3, .block_target = 1, .on_block = whole_groups});
  uint64_t blocks = 0;
  const auto small = [&](const BlockInfo& block) {
    EXPECT_LE(block.bytes, 192U);
    ++blocks;
  };
  ReadLane(*pipeline, 0, {.block_target = 1, .block_cap = 192, .on_block = small});
  EXPECT_GT(blocks, lane_rows / 10);
}

TEST(Blocks, ReachTheTargetAndHaveEqualDigestsWhenReplayed) {
  const auto pipeline = Compile(Over(Numbers(64 * 4096), "batch", {{"n", int64_t{16}}}));
  std::vector<uint64_t> digests;
  uint64_t blocks = 0;
  ReadLane(*pipeline, 1, {.block_target = 8192, .on_block = [&](const BlockInfo& block) {
                            ++blocks;
                            digests.push_back(block.digest);
                          }});
  EXPECT_EQ(blocks, 4U);
  std::vector<uint64_t> again;
  ReadLane(*pipeline, 1, {.block_target = 8192, .on_block = [&](const BlockInfo& block) { again.push_back(block.digest); }});
  EXPECT_EQ(again, digests);
  EXPECT_NE(digests[0], digests[1]);
}

TEST(Digest, ShowsARecordThatIsAnother) {
  const TempDir dir;
  const auto digest_of = [&](std::string_view second) {
    std::string file;
    for (const std::string_view record : {std::string_view("first"), second, std::string_view("third")}) AppendRecord(record, file);
    std::ofstream(dir.Path("records")) << file;
    std::vector<uint64_t> digests;
    ReadLane(*Compile(Records({dir.Path("records")})), 0, {.on_block = [&](const BlockInfo& block) { digests.push_back(block.digest); }});
    return digests;
  };
  EXPECT_EQ(digest_of("one"), digest_of("one"));
  EXPECT_NE(digest_of("one"), digest_of("two"));
}

// Says busy `times` times before each block.
class Reluctant final : public ExtentAllocator {
 public:
  explicit Reluctant(int times) : times_(times) {}
  Result<Extent> Allocate(uint64_t bytes) override {
    if (++asked_ % (times_ + 1) != 0) return Status(Code::kBusy, "full");
    return heap_.Allocate(bytes);
  }

 private:
  HeapExtents heap_;
  int times_;
  int asked_ = 0;
};

TEST(Blocks, WaitForRoomWithoutLosingRows) {
  const auto pipeline = Compile(Numbers(100));
  Reluctant allocator(2);
  const auto run = pipeline->OpenLane({.key = {}, .from = {}, .to = kLaneEnd, .block_target = 40, .block_cap = 1000, .allocator = &allocator});
  ASSERT_TRUE(run.ok());
  Seq next = 0;
  int blocked = 0;
  for (;;) {
    const StepResult step = (*run)->Step();
    if (std::holds_alternative<LaneOver>(step)) break;
    if (const auto* waits = std::get_if<Blocked>(&step)) {
      EXPECT_EQ(waits->on, Waits::kBudget);
      EXPECT_GT(waits->bytes, 0U);
      ++blocked;
      continue;
    }
    ASSERT_TRUE(std::holds_alternative<Produced>(step));
    EXPECT_EQ(std::get<Produced>(step).info.first.seq, next);
    next = std::get<Produced>(step).info.end.seq;
  }
  EXPECT_EQ(next, 16U);
  EXPECT_GT(blocked, 0);
}

class NeverFits final : public ExtentAllocator {
 public:
  Result<Extent> Allocate(uint64_t) override { return Status(Code::kTooLarge, "the budget is 64 bytes"); }
};

TEST(Blocks, ThatCanNeverFitAreAnErrorThatNamesTheRowAndTheFlag) {
  const auto pipeline = Compile(Numbers(100));
  NeverFits allocator;
  const auto run = pipeline->OpenLane({.key = {}, .from = {3, 0}, .to = kLaneEnd, .block_target = 1, .block_cap = 1, .allocator = &allocator});
  const StepResult step = (*run)->Step();
  ASSERT_TRUE(std::holds_alternative<Status>(step));
  const Status& status = std::get<Status>(step);
  EXPECT_EQ(status.code(), Code::kTooLarge);
  EXPECT_EQ(status.detail("seq"), "3");
  EXPECT_EQ(status.detail("lane"), "0");
  EXPECT_THAT(status.message(), ::testing::HasSubstr("--memory"));
}

TEST(State, OfGzipFilesThatTakeTurnsIsWithinWhatALaneReserves) {
  TempDir dir;
  const auto plan = Over(Records(WriteFiles(dir, 16, 300, Compression::kGzip, 1000)), "interleave", {{"cycle_length", int64_t{16}}});
  const auto pipeline = Compile(Over(plan, "take", {{"count", int64_t{10'000}}}));  // one lane
  HeapExtents heap;
  const auto run = pipeline->OpenLane({.key = {}, .from = {}, .to = kLaneEnd, .block_target = 100'000, .block_cap = 1'000'000, .allocator = &heap});
  ASSERT_TRUE(std::holds_alternative<Produced>((*run)->Step()));
  EXPECT_GT((*run)->state_bytes(), 16 * InflateMemory()) << "all are open";
  EXPECT_LT((*run)->state_bytes(), pipeline->layout().state_bytes);
}

TEST(State, OfAShuffleThatOutgrowsTheBudgetIsAnErrorThatNamesTheFlag) {
  TempDir dir;
  const auto pipeline = Compile(Over(Records(WriteFiles(dir, 1, 500, Compression::kGzip, 1000)), "shuffle", {{"buffer_size", int64_t{400}}}));
  HeapExtents heap;
  const auto run = pipeline->OpenLane(
      {.key = {}, .from = {}, .to = kLaneEnd, .block_target = 1000, .block_cap = 10'000, .state_cap = 100'000, .allocator = &heap});
  const StepResult step = (*run)->Step();
  ASSERT_TRUE(std::holds_alternative<Status>(step));
  EXPECT_EQ(std::get<Status>(step).code(), Code::kTooLarge);
  EXPECT_THAT(std::get<Status>(step).message(), ::testing::HasSubstr("smaller buffer_size"));
  EXPECT_LT((*run)->state_bytes(), 400'000U);
}

// The error of the first step of a lane whose operators may hold so many bytes; none where it makes a block.
Status FirstStep(const Plan& plan, uint64_t state_cap) {
  HeapExtents heap;
  const auto run = Compile(plan)->OpenLane(
      {.key = {}, .from = {}, .to = kLaneEnd, .block_target = 1000, .block_cap = 1'000'000, .state_cap = state_cap, .allocator = &heap});
  StepResult step = (*run)->Step();
  auto* status = std::get_if<Status>(&step);
  return status == nullptr ? Status() : std::move(*status);
}

TEST(State, OfARecordThatDoesNotFitIsNotTakenAndTheErrorNamesFileRecordAndFlag) {
  TempDir dir;
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const Plan plan = Records(WriteFiles(dir, 1, 2, compression, 1 << 20));
    const Status status = FirstStep(plan, 200'000);
    EXPECT_EQ(status.code(), Code::kTooLarge);
    EXPECT_THAT(status.message(), ::testing::HasSubstr(dir.Path("")));
    EXPECT_THAT(status.message(), ::testing::HasSubstr("record 0: the record has 104"));
    EXPECT_THAT(status.message(), ::testing::HasSubstr("--memory of at least 419"));
    EXPECT_TRUE(FirstStep(plan, 0).ok()) << "nobody set a cap";
  }
}

TEST(State, OfARecordThatIsPassedOverIsNone) {
  TempDir dir;
  const auto pipeline = Compile(Records(WriteFiles(dir, 1, 2, Compression::kNone, 1 << 20)));
  HeapExtents heap;
  const auto run = pipeline->OpenLane(
      {.key = {}, .from = {2, 0}, .to = kLaneEnd, .block_target = 1000, .block_cap = 10'000, .state_cap = 200'000, .allocator = &heap});
  EXPECT_TRUE(std::holds_alternative<LaneOver>((*run)->Step()));
}

TEST(State, OfABatchInMidPlanThatOutgrowsTheBudgetIsAnErrorThatNamesTheFlag) {
  TempDir dir;
  const Plan read = Over(Records(WriteFiles(dir, 1, 3000, Compression::kGzip, 100)), "batch", {{"n", int64_t{2500}}});
  const Plan counted = Over(Numbers(1'000'000), "batch", {{"n", int64_t{1'000'000}}});
  for (const Plan& batches : {read, counted}) {
    const Plan plan = Over(batches, "batch", {{"n", int64_t{1}}});
    const Status status = FirstStep(plan, 200'000);
    EXPECT_EQ(status.code(), Code::kTooLarge);
    EXPECT_THAT(status.message(), ::testing::HasSubstr("give --memory more, or a smaller n"));
    EXPECT_TRUE(FirstStep(plan, 0).ok()) << "nobody set a cap";
  }
}

TEST(Ranges, EndBeforeTheLaneAndAreExtended) {
  TempDir dir;
  const auto pipeline = Compile(Over(Records(WriteFiles(dir, 2, 10, Compression::kGzip)), "take", {{"count", int64_t{15}}}));
  HeapExtents heap;
  const auto run = pipeline->OpenLane({.key = {}, .from = {4, 0}, .to = 8, .block_target = 1000, .block_cap = 10000, .allocator = &heap});
  const auto rows_of = [](const StepResult& step) { return std::get<Produced>(step).info.rows; };
  EXPECT_EQ(rows_of((*run)->Step()), 4U);
  const StepResult over = (*run)->Step();
  EXPECT_EQ(std::get<LaneOver>(over).end.seq, 8U);
  EXPECT_FALSE(std::get<LaneOver>(over).lane_ended);
  (*run)->Extend(100);
  EXPECT_EQ(rows_of((*run)->Step()), 7U);
  const StepResult end = (*run)->Step();
  EXPECT_EQ(std::get<LaneOver>(end).end.seq, 15U);
  EXPECT_TRUE(std::get<LaneOver>(end).lane_ended);
}

TEST(Ranges, BeyondTheLanesEndAreEmpty) {
  TempDir dir;
  const auto pipeline = Compile(Over(Records(WriteFiles(dir, 1, 5, Compression::kGzip)), "take", {{"count", int64_t{15}}}));
  EXPECT_TRUE(ReadLane(*pipeline, 0, {.from = 1000}).empty());
}

TEST(Ranges, BeyondTheEndOfAShuffledLaneAreEmptyAtOnce) {
  TempDir dir;
  const auto pipeline = Compile(Over(Records(WriteFiles(dir, 1, 5, Compression::kGzip)), "shuffle", {{"buffer_size", int64_t{3}}}));
  EXPECT_TRUE(ReadLane(*pipeline, 0, {.from = kLaneEnd - 1}).empty());
}

}  // namespace
}  // namespace penstock::engine::testing
