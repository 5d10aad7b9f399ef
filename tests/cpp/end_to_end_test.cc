// Readers against a real dispatcher and real workers, in one process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <set>

#include "penstock/dataset.h"
#include "service.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Read {
  std::multiset<int64_t> values;
  std::vector<uint64_t> batches;  // rows of each
};

void Add(const Batch& batch, Read& read) {
  std::vector<int64_t> values(batch.rows());
  std::memcpy(values.data(), batch.column(0).values().data(), values.size() * sizeof(int64_t));
  read.values.insert(values.begin(), values.end());
  read.batches.push_back(batch.rows());
}

Result<Read> ReadAll(Reader& reader) {
  Read read;
  while (true) {
    PENSTOCK_ASSIGN(auto batch, reader.Next(seconds(60)));
    if (!batch) return read;
    Add(*batch, read);
  }
}

std::multiset<int64_t> Numbers(int64_t stop) {
  std::multiset<int64_t> numbers;
  for (int64_t i = 0; i < stop; ++i) numbers.insert(i);
  return numbers;
}

std::string TemporaryDir(const char* name) {
  const auto path = std::filesystem::temp_directory_path() / (std::string("penstock-") + name + "-" + std::to_string(getpid()));
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

TEST(EndToEnd, OneReaderGetsEveryRowOnceInFullBatches) {
  Service service(1);
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 10'000).Shuffle(100).Batch(32).plan(), {}).value();
  const Read read = ReadAll(*reader).value();
  EXPECT_EQ(read.values, Numbers(10'000));
  EXPECT_EQ(std::count_if(read.batches.begin(), read.batches.end(), [](uint64_t rows) { return rows != 32; }), 1);
}

TEST(EndToEnd, BlocksOverTheSocketAreTheSameRows) {
  Service service(2);
  ConnectOptions options = service.Options();
  options.shared_memory = false;
  auto reader = Client::Connect(options).value()->Distribute(Dataset::Range(0, 5'000).Batch(16).plan(), {}).value();
  EXPECT_EQ(ReadAll(*reader).value().values, Numbers(5'000));
}

TEST(EndToEnd, SeveralReadersShareAJobEachRowToOneOfThem) {
  Service service(3);
  const Plan plan = Dataset::Range(0, 20'000).Batch(32).plan();
  auto client = service.Connect();
  std::vector<std::future<Result<Read>>> reads;
  for (int i = 0; i < 4; ++i) {
    reads.push_back(std::async(std::launch::async, [&]() -> Result<Read> {
      PENSTOCK_ASSIGN(auto reader, client->Distribute(plan, {.job_name = "shared", .even = Even::kUneven}));
      return ReadAll(*reader);
    }));
  }
  std::multiset<int64_t> all;
  int short_batches = 0;
  for (auto& future : reads) {
    const Read read = future.get().value();
    all.insert(read.values.begin(), read.values.end());
    for (const uint64_t rows : read.batches) short_batches += rows != 32 ? 1 : 0;
  }
  EXPECT_EQ(all, Numbers(20'000));
  EXPECT_LE(short_batches, 1);
}

TEST(EndToEnd, ReplicatedGivesOnePassForEachWorker) {
  Service service(3);
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 2'000).Batch(10).plan(), {.mode = Mode::kReplicated}).value();
  const Read read = ReadAll(*reader).value();
  EXPECT_EQ(read.values.size(), 6'000u);
  for (int64_t i = 0; i < 2'000; ++i) EXPECT_EQ(read.values.count(i), 3u) << i;
}

TEST(EndToEnd, InlineGivesTheSameRows) {
  const Plan plan = Dataset::Range(0, 3'000).Shuffle(50, 7).Batch(10).plan();
  auto reader = ReadInline(plan, {}).value();
  EXPECT_EQ(ReadAll(*reader).value().values, Numbers(3'000));
}

TEST(EndToEnd, TheNextEpochFollowsTheEndAndThenThereIsNone) {
  Service service(1);
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 1'000).Batch(8).plan(), {.epochs = 2}).value();
  EXPECT_EQ(ReadAll(*reader).value().values, Numbers(1'000));
  EXPECT_FALSE(reader->Next(milliseconds(0)).value().has_value());
  EXPECT_TRUE(reader->StartEpoch().value());
  EXPECT_EQ(ReadAll(*reader).value().values, Numbers(1'000));
  EXPECT_FALSE(reader->StartEpoch().value());
}

TEST(EndToEnd, AWorkerThatStopsMidEpochLosesAndRepeatsNothing) {
  Service service(3);
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 200'000).Batch(64).plan(), {}).value();
  Read read;
  for (int i = 0; i < 20; ++i) Add(*reader->Next(seconds(60)).value(), read);
  service.StopWorker(0);
  const Read rest = ReadAll(*reader).value();
  read.values.insert(rest.values.begin(), rest.values.end());
  EXPECT_EQ(read.values, Numbers(200'000));
}

TEST(EndToEnd, ADrainedWorkerHandsOverWithoutAnError) {
  Service service(2);
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 200'000).Batch(64).plan(), {}).value();
  Read read;
  for (int i = 0; i < 20; ++i) Add(*reader->Next(seconds(60)).value(), read);
  service.DrainWorker(1);
  const Read rest = ReadAll(*reader).value();
  read.values.insert(rest.values.begin(), rest.values.end());
  EXPECT_EQ(read.values, Numbers(200'000));
}

TEST(EndToEnd, ARestartedDispatcherGoesOnWhereItWas) {
  Service service(2, TemporaryDir("restart"));
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 200'000).Batch(64).plan(), {}).value();
  Read read;
  for (int i = 0; i < 20; ++i) Add(*reader->Next(seconds(60)).value(), read);
  service.RestartDispatcher();
  const Read rest = ReadAll(*reader).value();
  read.values.insert(rest.values.begin(), rest.values.end());
  EXPECT_EQ(read.values, Numbers(200'000));
}

TEST(EndToEnd, ALoopThatKeepsAllItsBatchesStillReadsOn) {
  Service service(1);
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 100'000).Batch(100).plan(), {.memory = 256 << 10}).value();
  std::vector<Batch> kept;
  while (auto batch = reader->Next(seconds(60)).value()) kept.push_back(std::move(*batch));
  reader->Close();
  Read read;
  for (const Batch& batch : kept) Add(batch, read);
  EXPECT_EQ(read.values, Numbers(100'000));
}

TEST(EndToEnd, ABatchOutlivesReaderAndClient) {
  Service service(1);
  std::optional<Batch> batch;
  {
    auto client = service.Connect();
    auto reader = client->Distribute(Dataset::Range(0, 100).Batch(100).plan(), {}).value();
    batch = reader->Next(seconds(60)).value();
  }
  Read read;
  Add(*batch, read);
  EXPECT_EQ(read.values, Numbers(100));
}

TEST(EndToEnd, AnUnreachableDispatcherIsNamed) {
  const auto client = Client::Connect({.service = "penstock://127.0.0.1:1", .timeout = milliseconds(200)});
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.status().message().find("127.0.0.1:1"), std::string::npos) << client.status();
  EXPECT_NE(client.status().message().find("penstock dispatcher"), std::string::npos) << client.status();
}

TEST(EndToEnd, AWrongTokenIsRefusedAtOnce) {
  Service service(0, "", "secret");
  ConnectOptions options = service.Options();
  options.token = "guess";
  const auto client = Client::Connect(options);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), Code::kPermission);
}

TEST(EndToEnd, WithoutAWorkerTheJoinSaysWhatItWaitsFor) {
  Service service(0);
  ConnectOptions options = service.Options();
  options.timeout = milliseconds(300);
  const auto reader = Client::Connect(options).value()->Distribute(Dataset::Range(0, 10).plan(), {});
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.status().code(), Code::kDeadline);
}

TEST(EndToEnd, AReaderFromBeforeAForkSaysWhatToDoInTheChild) {
  Service service(1);
  auto reader = service.Connect()->Distribute(Dataset::Range(0, 100).Batch(10).plan(), {}).value();
  const pid_t child = fork();
  if (child == 0) {
    const auto batch = reader->Next(seconds(1));
    const bool told = !batch.ok() && batch.status().message().find("fork") != std::string::npos;
    _exit(told ? 0 : 1);
  }
  int outcome = -1;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  EXPECT_EQ(ReadAll(*reader).value().values, Numbers(100));
}

}  // namespace
}  // namespace penstock
