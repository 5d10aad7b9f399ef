#include "worker/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "base/constants.h"
#include "dispatcher/server.h"
#include "penstock/plan.h"
#include "worker/test_consumer.h"

namespace penstock::worker {
namespace {

using testing::HasSubstr;

// A dispatcher on a Unix socket, so that a new one can take its place.
class WorkerServerTest : public testing::Test {
 protected:
  void SetUp() override {
    static int count = 0;
    address_ = "unix:" + testing::TempDir() + "penstock-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".sock";
    StartDispatcher();
  }
  void StartDispatcher() {
    dispatcher::ServerOptions options;
    options.listen = address_;
    options.token = token_;
    auto server = dispatcher::DispatcherServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    dispatcher_ = std::move(*server);
  }
  WorkerServer::Options Options() const {
    WorkerServer::Options options;
    options.dispatcher = address_;
    options.memory = 64 * kMiB;
    options.cpus = 2;
    options.token = token_;
    return options;
  }
  std::unique_ptr<WorkerServer> StartWorker(WorkerServer::Options options) {
    auto server = WorkerServer::Start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? std::move(*server) : nullptr;
  }
  std::unique_ptr<WorkerServer> StartWorker() { return StartWorker(Options()); }

  // Registers a range in batches, and joins a job over it.
  msg::Joined Join(int64_t rows, int64_t batch) {
    AttrMap range;
    range.Set("start", int64_t{0});
    range.Set("stop", rows);
    range.Set("step", int64_t{1});
    AttrMap group;
    group.Set("n", batch);
    group.Set("drop_remainder", false);
    const Plan plan = Plan::Over({Plan::Over({}, "range", std::move(range))}, "batch", std::move(group));
    const Message registered = Ask(msg::Register{SerializePlan(plan)});
    const Message joined =
        Ask(msg::Join{.dataset = std::get<msg::Registered>(registered).dataset, .job_name = "job", .incarnation = 7, .name = "test"});
    return std::get<msg::Joined>(joined);
  }
  Message Ask(Message question) {
    class Silent final : public ControlHandler {
      void OnMessage(Session& /*s*/, StreamId /*t*/, RequestId /*r*/, Message /*m*/) override {}
      void OnClosed(Session& /*s*/, const Status& /*why*/) override {}
    } silent;
    IoThread io("test-ask");
    auto session = ConnectAndWait(io, address_, {.token = token_, .role = "cli", .name = {}, .pace = {}}, silent);
    if (!session.ok()) return msg::Failed{session.status()};
    std::promise<Result<Message>> answer;
    io.Post(
        [&] { (*session)->Request(std::move(question), std::chrono::seconds(10), [&](Result<Message> got) { answer.set_value(std::move(got)); }); });
    auto got = answer.get_future().get();
    io.Stop();
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? std::move(*got) : Message(msg::Failed{got.status()});
  }
  // Until the worker's figures are as they should be.
  template <class Done>
  testing::AssertionResult WaitForStats(const WorkerServer& worker, Done done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done(worker.stats())) {
      if (std::chrono::steady_clock::now() > until) return testing::AssertionFailure() << "did not happen within ten seconds";
    }
    return testing::AssertionSuccess();
  }

  std::string token_;
  std::string address_;
  std::unique_ptr<dispatcher::DispatcherServer> dispatcher_;
};

class WorkerServerTransport : public WorkerServerTest, public testing::WithParamInterface<bool> {};

TEST_P(WorkerServerTransport, AConsumerReadsEveryRowOfEveryLane) {
  const bool shm = GetParam();
  auto options = Options();
  options.shm = shm;
  const auto worker = StartWorker(options);
  constexpr int64_t kRows = 500'000;
  const msg::Joined joined = Join(kRows, 100);
  ASSERT_EQ(joined.workers.size(), 1U);
  TestConsumer consumer(shm ? joined.workers[0].unix_socket : joined.workers[0].address, joined.layout.row_spec);
  EXPECT_EQ(consumer.shares_memory(), shm);
  uint64_t rows = 0;
  for (uint32_t lane = 0; lane < joined.layout.lanes; ++lane) {
    const uint32_t stream = lane + 1;
    consumer.Open(stream, joined.job, LaneId{lane}, 2 * kMiB);
    while (true) {
      ASSERT_TRUE(consumer.Wait([&](TestConsumer& c) { return !c.lane(stream).blocks.empty() || c.lane(stream).ended || c.lane(stream).error; }));
      consumer.LetGo(stream);
      bool over = false;
      consumer.Wait([&](TestConsumer& c) {
        over = c.lane(stream).ended.has_value() || c.lane(stream).error.has_value();
        return true;
      });
      if (over) break;
    }
    consumer.Wait([&](TestConsumer& c) {
      EXPECT_FALSE(c.lane(stream).error) << *c.lane(stream).error;
      rows += c.lane(stream).rows;
      return true;
    });
    consumer.LetGo(stream);
  }
  EXPECT_EQ(rows, uint64_t{kRows});
  EXPECT_TRUE(WaitForStats(*worker, [](const CoreStats& stats) { return stats.blocks_out == 0 && stats.used == 0 && stats.lanes == 0; }));
}

TEST_P(WorkerServerTransport, ASessionThatEndsFreesItsLanesAndBlocks) {
  auto options = Options();
  options.shm = GetParam();
  const auto worker = StartWorker(options);
  const msg::Joined joined = Join(50'000'000, 100);
  {
    TestConsumer consumer(GetParam() ? joined.workers[0].unix_socket : joined.workers[0].address, joined.layout.row_spec);
    consumer.Open(1, joined.job, LaneId{0}, 2 * kMiB);
    ASSERT_TRUE(consumer.Wait([](TestConsumer& c) { return !c.lane(1).blocks.empty(); }));
    EXPECT_GE(worker->stats().lanes, 1U);
    consumer.Close();
    ASSERT_TRUE(consumer.Wait([](TestConsumer& c) { return c.closed(); }));
    EXPECT_TRUE(WaitForStats(*worker, [](const CoreStats& stats) { return stats.lanes == 0 && stats.tasks == 0 && stats.committed == 0; }));
  }
}

class WorkerServerCompression : public WorkerServerTest, public testing::WithParamInterface<WireCompression> {
 protected:
  // Reads lane 0 of a range to its end; bytes on the wire for each of a block.
  double Read(const msg::Joined& joined, const std::string& address, WireCompression compression) {
    TestConsumer consumer(address, joined.layout.row_spec);
    consumer.Open(1, joined.job, LaneId{0}, 64 * kMiB, compression);
    EXPECT_TRUE(consumer.Wait([](TestConsumer& c) { return c.lane(1).ended || c.lane(1).error; }));
    uint64_t bytes = 0;
    uint64_t on_wire = 0;
    consumer.Wait([&](TestConsumer& c) {
      EXPECT_GT(c.lane(1).rows, 0U);
      for (const Extent& block : c.lane(1).blocks) bytes += block.size();
      on_wire = c.lane(1).on_wire;
      return true;
    });
    return static_cast<double>(on_wire) / static_cast<double>(bytes);
  }
};

TEST_P(WorkerServerCompression, IsForWhoAsksOverTcpAndForNobodyElse) {
  const auto worker = StartWorker();
  const msg::Joined joined = Join(500'000, 100);
  EXPECT_LT(Read(joined, joined.workers[0].address, GetParam()), 0.7);
  EXPECT_EQ(Read(joined, joined.workers[0].unix_socket, GetParam()), 0) << "shared memory";
  for (const WireCompression other : {WireCompression::kUnknown, WireCompression::kNone, WireCompression::kAuto}) {
    EXPECT_EQ(Read(joined, joined.workers[0].address, other), 1) << "loopback";
  }
  EXPECT_TRUE(WaitForStats(*worker, [](const CoreStats& stats) { return stats.blocks_out == 0 && stats.used == 0 && stats.lanes == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Codecs, WorkerServerCompression, testing::Values(WireCompression::kLz4, WireCompression::kZstd),
                         [](const auto& codec) { return codec.param == WireCompression::kLz4 ? "Lz4" : "Zstd"; });

INSTANTIATE_TEST_SUITE_P(Transports, WorkerServerTransport, testing::Bool(),
                         [](const auto& transport) { return transport.param ? "SharedMemory" : "Tcp"; });

TEST_F(WorkerServerTest, DrainingTellsTheConsumersFinishesTheirLanesAndEnds) {
  const auto worker = StartWorker();
  const msg::Joined joined = Join(1000, 10);
  TestConsumer consumer(joined.workers[0].address, joined.layout.row_spec);
  consumer.Open(1, joined.job, LaneId{0}, 2 * kMiB);
  ASSERT_TRUE(consumer.Wait([](TestConsumer& c) { return !c.lane(1).blocks.empty() || c.lane(1).ended; }));
  worker->Drain();
  ASSERT_TRUE(consumer.Wait([](TestConsumer& c) { return c.told_to_leave(); }));
  while (true) {
    consumer.LetGo(1);
    ASSERT_TRUE(consumer.Wait([](TestConsumer& c) { return !c.lane(1).blocks.empty() || c.lane(1).ended; }));
    bool over = false;
    consumer.Wait([&](TestConsumer& c) {
      over = c.lane(1).ended.has_value();
      return true;
    });
    if (over) break;
  }
  worker->Wait();
}

TEST_F(WorkerServerTest, ADispatcherThatStartsAgainIsFoundAgain) {
  const auto worker = StartWorker();
  dispatcher_.reset();
  StartDispatcher();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  size_t workers = 0;
  while (workers == 0 && std::chrono::steady_clock::now() < until) workers = std::get<msg::StatusReply>(Ask(msg::StatusAsk{})).workers.size();
  EXPECT_EQ(workers, 1U);
}

TEST_F(WorkerServerTest, NoDispatcherWithinTheDeadlineIsAnErrorThatNamesIt) {
  auto options = Options();
  options.dispatcher = "unix:/nonexistent/penstock.sock";
  options.start_timeout = std::chrono::milliseconds(50);
  const auto server = WorkerServer::Start(options);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kUnavailable);
  EXPECT_THAT(server.status().message(), HasSubstr("/nonexistent/penstock.sock"));
}

TEST_F(WorkerServerTest, AWrongTokenIsAPermanentError) {
  dispatcher_.reset();
  token_ = "right";
  StartDispatcher();
  auto options = Options();
  options.token = "wrong";
  const auto server = WorkerServer::Start(options);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kPermission);
}

TEST_F(WorkerServerTest, TooLittleMemoryIsRefusedNamingTheFlag) {
  auto options = Options();
  options.memory = 1000;
  EXPECT_THAT(WorkerServer::Start(options).status().message(), HasSubstr("--memory"));
}

TEST_F(WorkerServerTest, MoreThreadsThanAMachineHasAreRefusedNamingTheFlag) {
  auto options = Options();
  options.cpus = 1'000'000;
  EXPECT_THAT(WorkerServer::Start(options).status().message(), HasSubstr("--cpus asks for 1000000"));
}

}  // namespace
}  // namespace penstock::worker
