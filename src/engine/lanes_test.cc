// Lanes behave as one dataset: their union is the whole, each row once, whatever the plan; and a batch draws from many files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "engine/testing.h"

namespace penstock::engine::testing {
namespace {

using ::testing::HasSubstr;

// A plan and the rows that a plain reading of it gives.
struct Modelled {
  Plan plan;
  std::vector<std::string> rows;
};

// Grows random plans over numbers and their models, side by side.
class Grower {
 public:
  explicit Grower(uint64_t seed) : random_(seed) {}

  Modelled Grow() {
    Modelled grown = Leaf();
    const int steps = static_cast<int>(Below(5));
    for (int i = 0; i < steps; ++i) grown = Step(std::move(grown));
    if (Below(3) == 0) grown.plan = Over(grown.plan, "batch", {{"n", static_cast<int64_t>(1 + Below(9))}});  // the last one: lifted
    return grown;
  }

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }

  Modelled Leaf() {
    const int64_t n = static_cast<int64_t>(Below(120));
    Modelled leaf{Numbers(n), {}};
    for (int64_t i = 0; i < n; ++i) leaf.rows.push_back(std::to_string(i));
    return leaf;
  }

  Modelled Step(Modelled input) {
    std::vector<std::string> rows;
    const int64_t n = static_cast<int64_t>(Below(40));
    switch (Below(6)) {
      case 0:
        input.plan = Over(input.plan, "take", {{"count", n}});
        input.rows.resize(std::min<size_t>(input.rows.size(), static_cast<size_t>(n)));
        break;
      case 1:
        input.plan = Over(input.plan, "skip", {{"count", n}});
        input.rows.erase(input.rows.begin(), input.rows.begin() + std::min<std::ptrdiff_t>(std::ssize(input.rows), n));
        break;
      case 2: {
        const int64_t num = static_cast<int64_t>(1 + Below(5));
        const int64_t index = static_cast<int64_t>(Below(static_cast<uint64_t>(num)));
        for (int64_t i = index; i < std::ssize(input.rows); i += num) rows.push_back(input.rows[static_cast<size_t>(i)]);
        input = {Over(input.plan, "shard", {{"num", num}, {"index", index}}), rows};
        break;
      }
      case 3: {
        const int64_t count = static_cast<int64_t>(Below(4));
        for (int64_t pass = 0; pass < count; ++pass) rows.insert(rows.end(), input.rows.begin(), input.rows.end());
        input = {Over(input.plan, "repeat", {{"count", count}}), rows};
        break;
      }
      case 4: {
        Modelled other = Leaf();
        input.rows.insert(input.rows.end(), other.rows.begin(), other.rows.end());
        input.plan = Over({input.plan, other.plan}, "concatenate");
        break;
      }
      default: input.plan = Over(input.plan, "prefetch"); break;
    }
    return input;
  }

  std::mt19937_64 random_;
};

TEST(Lanes, OfRandomPlansAreTheRowsOfAPlainModelInOrder) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Modelled modelled = Grower(seed).Grow();
    const auto pipeline = Compile(modelled.plan);
    ASSERT_EQ(ReadEpoch(*pipeline), modelled.rows) << "seed " << seed << "\n" << pipeline->explain();
    const auto facts = CheckPlan(modelled.plan);
    const uint64_t n = std::max<uint64_t>(facts->batch, 1);
    ASSERT_EQ(facts->cardinality, static_cast<int64_t>((modelled.rows.size() + n - 1) / n)) << "seed " << seed;
  }
}

TEST(Lanes, OfShuffledRandomPlansAreTheSameRowsEachOnce) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Modelled modelled = Grower(seed).Grow();
    const auto pipeline = Compile(Over(modelled.plan, "shuffle", {{"buffer_size", int64_t{8}}}));
    if (pipeline->layout().row_spec != CheckPlan(modelled.plan)->row_spec) continue;  // rows became batches
    ASSERT_EQ(Sorted(ReadEpoch(*pipeline)), Sorted(modelled.rows)) << "seed " << seed;
  }
}

TEST(Lanes, OfRandomPlansOverFilesAreEachRecordOnce) {
  TempDir dir;
  std::mt19937_64 random(3);
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const auto files = WriteFiles(dir, 23, 17, compression, 30);
    const auto all = ReadEpoch(*Compile(Records(files)));
    ASSERT_EQ(all.size(), 23U * 17U);
    for (int i = 0; i < 40; ++i) {
      Plan plan = Records(files);
      if (random() % 2 == 0) plan = Over(plan, "interleave", {{"cycle_length", static_cast<int64_t>(1 + random() % 20)}});
      if (random() % 2 == 0) plan = Over(plan, "shuffle", {{"buffer_size", static_cast<int64_t>(1 + random() % 50)}});
      const auto wanted = random() % 2 == 0 ? 1 : 2;
      if (wanted == 2) plan = Over({plan, Records(files)}, "concatenate");
      if (random() % 2 == 0) plan = Over(plan, "batch", {{"n", int64_t{8}}});
      std::multiset<std::string> counted;
      for (const std::string& row : ReadEpoch(*Compile(plan), {.epoch = static_cast<uint32_t>(i)})) counted.insert(row);
      for (const std::string& row : all) ASSERT_EQ(counted.count(row), static_cast<size_t>(wanted)) << i;
      ASSERT_EQ(counted.size(), all.size() * static_cast<size_t>(wanted));
    }
  }
}

TEST(Lanes, AreTheSameWhoeverCompilesThePlan) {
  TempDir dir;
  const Plan plan = Over(Records(WriteFiles(dir, 9, 30, Compression::kNone)), "shuffle", {{"buffer_size", int64_t{20}}});
  EXPECT_EQ(ReadEpoch(*Compile(plan)), ReadEpoch(*Compile(plan)));
  EXPECT_NE(ReadEpoch(*Compile(plan)), ReadEpoch(*Compile(plan), {.epoch = 1}));
}

TEST(Lanes, AreManyEvenWhereTheInputIsSmall) {
  TempDir dir;
  EXPECT_EQ(Compile(Records(WriteFiles(dir, 64, 3, Compression::kGzip)))->layout().lanes, 64U);
}

TEST(Lanes, OfManyPassesAreFewerInEach) {
  const auto lanes_of = [](int64_t rows, int64_t passes) { return Compile(Over(Numbers(rows), "repeat", {{"count", passes}}))->layout().lanes; };
  EXPECT_EQ(lanes_of(10'000, 1), 64U);
  EXPECT_EQ(lanes_of(10'000, 4), 4 * 64U);
  EXPECT_EQ(lanes_of(10'000, 100), 100 * 3U);
  EXPECT_EQ(lanes_of(10'000, 1000), 1000U);
}

// The batches of an epoch as a client with a place for each of `mix` lanes joins them.
std::vector<std::set<std::string>> FilesOfBatches(const Pipeline& pipeline) {
  const uint64_t group = pipeline.layout().group_rows();
  std::vector<std::vector<std::string>> lanes;
  for (uint32_t lane = 0; lane < pipeline.layout().lanes; ++lane) lanes.push_back(ReadLane(pipeline, lane));
  std::vector<std::set<std::string>> batches;
  for (size_t first = 0; first + pipeline.layout().mix <= lanes.size(); first += pipeline.layout().mix) {
    for (size_t at = 0; at + group <= lanes[first].size(); at += group) {
      std::set<std::string> files;
      for (size_t lane = first; lane < first + pipeline.layout().mix; ++lane) {
        for (size_t row = at; row < std::min(at + group, lanes[lane].size()); ++row)
          files.insert(lanes[lane][row].substr(0, lanes[lane][row].find('r')));
      }
      batches.push_back(files);
    }
  }
  return batches;
}

TEST(Mixing, ABatchOfManySmallFilesDrawsFromAtLeastEight) {
  TempDir dir;
  const Plan records = Records(WriteFiles(dir, 64, 200, Compression::kGzip));
  const auto pipeline = Compile(Over(Over(records, "shuffle", {{"buffer_size", int64_t{100}}}), "batch", {{"n", int64_t{64}}}));
  const auto batches = FilesOfBatches(*pipeline);
  ASSERT_GT(batches.size(), 100U);
  size_t mixed = 0;
  for (const auto& files : batches) mixed += files.size() >= 8 ? 1 : 0;
  EXPECT_GE(mixed * 100, batches.size() * 95) << pipeline->explain();
  EXPECT_THAT(pipeline->explain(), HasSubstr("files: a batch draws from up to 8"));
}

TEST(Mixing, ABatchOfFourLargeGzipFilesIsJoinedFromFourLanes) {
  TempDir dir;
  std::vector<std::string> files = WriteFiles(dir, 4, 40, Compression::kGzip);
  const Plan plan = Over(Over(Records(files), "shuffle", {{"buffer_size", int64_t{10}}}), "batch", {{"n", int64_t{512}}});
  Manifest manifest = *ListInputs(plan);
  for (InputFile& file : manifest.sources[0].files) file.size = uint64_t{300} << 20;  // as if they were: cutting needs no content
  const Plan gzip =
      Over(Over(Source("tfrecord", {{"files", files}, {"compression", std::string("gzip")}}), "shuffle", {{"buffer_size", int64_t{10}}}), "batch",
           {{"n", int64_t{512}}});
  const auto pipeline = Pipeline::Compile(gzip, manifest, 1);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->layout().lanes, 4U);
  EXPECT_EQ((*pipeline)->layout().mix, 4U);
  EXPECT_EQ((*pipeline)->layout().group_rows(), 128U);
  EXPECT_THAT((*pipeline)->explain(), HasSubstr("joined from 4 lanes"));
}

TEST(Mixing, DividesTheBatch) {
  TempDir dir;
  const std::vector<std::string> files = WriteFiles(dir, 8, 1, Compression::kGzip);
  const Plan records = Source("tfrecord", {{"files", files}, {"compression", std::string("gzip")}});
  Manifest manifest = *ListInputs(records);
  for (InputFile& file : manifest.sources[0].files) file.size = uint64_t{300} << 20;
  const std::map<int64_t, uint32_t> mixes = {{512, 8}, {100, 5}, {7, 7}, {13, 1}, {1, 1}};
  for (const auto& [n, mix] : mixes) {
    const Plan plan = Over(Over(records, "shuffle", {{"buffer_size", int64_t{10}}}), "batch", {{"n", n}});
    EXPECT_EQ((*Pipeline::Compile(plan, manifest, 1))->layout().mix, mix) << n;
  }
  EXPECT_EQ((*Pipeline::Compile(Over(records, "batch", {{"n", int64_t{512}}}), manifest, 1))->layout().mix, 1U);
}

}  // namespace
}  // namespace penstock::engine::testing
