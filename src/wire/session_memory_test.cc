// Blocks in shared memory between two ends of a session, and what becomes of them when one end dies.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "wire/same_host.h"
#include "wire/session_fixture.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

class SharedMemory : public SessionTest {
 protected:
  void Start(ConnectParams params = {}) {
    Serve({.address = MakeSocketName("test"), .segments = table_});
    ConnectPair(std::move(params));
  }
  void SendBlock(StreamId stream, uint64_t bytes, int fill, Handover how = Handover::kLend) {
    Extent block = pool_.Allocate(bytes).value();
    std::memset(block.bytes().data(), fill, bytes);
    server_io_.Post([this, stream, how, held = std::make_shared<Extent>(std::move(block))] { accepted_->SendBlock(stream, std::move(*held), how); });
  }
  // Waits until the server's end has taken everything back.
  void WaitUntilHome() {
    while (pool_.bytes_out() > 0) On(server_io_, [] {});
  }

  std::shared_ptr<SegmentTable> table_ = std::make_shared<SegmentTable>();
  SegmentPool pool_{table_, kMiB};
};

TEST_F(SharedMemory, ABlockIsReadWhereItWasWritten) {
  Start();
  EXPECT_TRUE(session_->shares_memory());
  EXPECT_TRUE(accepted_->shares_memory());
  SendBlock(StreamId{3}, 100'000, 7);
  const Extent block = client_.TakeBlock();
  ASSERT_EQ(block.size(), 100'000U);
  EXPECT_NE(block.tag(), 0U);
  EXPECT_EQ(block.bytes().back(), std::byte{7});
  table_->Find(SegmentOf(block.tag()))->memory()[OffsetOf(block.tag())] = std::byte{8};
  EXPECT_EQ(block.bytes()[0], std::byte{8}) << "it is the same memory";
}

TEST_F(SharedMemory, AnExtentGoesHomeWhenTheConsumerLetsGoAndIsUsedAgain) {
  Start();
  uint64_t tag = 0;
  for (int round = 0; round < 100; ++round) {
    SendBlock(StreamId{3}, 10'000, round);
    Extent block = client_.TakeBlock();
    ASSERT_EQ(block.bytes()[9'999], static_cast<std::byte>(round));
    EXPECT_TRUE(tag == 0 || tag == block.tag()) << "hot pages first";
    tag = block.tag();
    EXPECT_GT(pool_.bytes_out(), 0U);
    block.Reset();
    WaitUntilHome();
  }
  EXPECT_TRUE(server_.heard.empty()) << "extents that come home are the session's own business";
  EXPECT_EQ(pool_.touched_bytes(), SegmentPool::ChargeOf(10'000));
}

TEST_F(SharedMemory, WhatAForkedChildMayReadGoesHomeAndIsNeverUsedAgain) {
  Start();
  SendBlock(StreamId{3}, 10'000, 1);
  Extent block = client_.TakeBlock();
  const SegmentId segment = SegmentOf(block.tag());
  KeepBorrowed();
  block.Reset();
  WaitUntilHome();
  EXPECT_EQ(pool_.touched_bytes(), 0U) << "the worker has let go of it: the kernel keeps it as long as the child does";
  SendBlock(StreamId{3}, 10'000, 2);
  EXPECT_NE(SegmentOf(client_.TakeBlock().tag()), segment);
}

TEST_F(SharedMemory, SpansManySegmentsAndForgetsThoseThatAreGone) {
  Serve({.address = MakeSocketName("test"), .segments = table_, .pace = {.ping_every = 10ms}});
  ConnectPair();
  for (int i = 0; i < 8; ++i) SendBlock(StreamId{3}, 900 * kKiB, i);
  client_.WaitFor([this] { return client_.blocks.size() == 8; });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(client_.blocks[i].second.bytes()[0], static_cast<std::byte>(i));
  client_.blocks.clear();
  WaitUntilHome();
  pool_.Trim();
  EXPECT_EQ(pool_.touched_bytes(), 0U);
  SendBlock(StreamId{3}, 900 * kKiB, 9);
  EXPECT_EQ(client_.TakeBlock().bytes()[0], std::byte{9});
}

TEST_F(SharedMemory, AnOutsizedBlockTravelsToo) {
  Start();
  SendBlock(StreamId{1}, 64 * kMiB, 5);
  const Extent block = client_.TakeBlock();
  ASSERT_EQ(block.size(), 64 * kMiB);
  EXPECT_EQ(block.bytes().back(), std::byte{5});
}

TEST_F(SharedMemory, IsNotUsedWhereTheConsumerDoesNotWantIt) {
  Start({.shared_memory = false});
  EXPECT_FALSE(session_->shares_memory());
  SendBlock(StreamId{3}, 100'000, 7);
  const Extent block = client_.TakeBlock();
  EXPECT_EQ(block.tag(), 0U);
  EXPECT_EQ(block.bytes().back(), std::byte{7});
  WaitUntilHome();
}

TEST_F(SharedMemory, IsNotUsedOverTcp) {
  Serve({.address = "127.0.0.1:0", .segments = table_});
  ConnectPair();
  EXPECT_FALSE(session_->shares_memory());
  SendBlock(StreamId{3}, 100'000, 7);
  EXPECT_EQ(client_.TakeBlock().bytes().back(), std::byte{7});
}

TEST_F(SharedMemory, ABlockOnTheHeapGoesOverTheSocket) {
  Start();
  On(server_io_, [&] { accepted_->SendBlock(StreamId{3}, HeapExtents().Allocate(100).value(), Handover::kLend); });
  EXPECT_EQ(client_.TakeBlock().tag(), 0U);
}

TEST_F(SharedMemory, ABlockThatIsCopiedIsHomeOnceItIsWritten) {
  Start();
  SendBlock(StreamId{3}, 100'000, 7, Handover::kCopy);
  const Extent block = client_.TakeBlock();
  EXPECT_EQ(block.tag(), 0U);
  EXPECT_EQ(block.bytes().back(), std::byte{7});
  WaitUntilHome();  // though the consumer keeps it
}

TEST_F(SharedMemory, SegmentsOnLoanAreRetiredWhenTheSessionEnds) {
  Start();
  SendBlock(StreamId{3}, 1000, 7);
  Extent block = client_.TakeBlock();
  const SegmentId id = SegmentOf(block.tag());
  On(client_io_, [&] { session_->Close(Status(Code::kCancelled, "done")); });
  EXPECT_THAT(server_.WaitClosed().message(), HasSubstr("done"));
  EXPECT_EQ(table_->Find(id), nullptr);
  EXPECT_EQ(pool_.bytes_out(), 0U);
  const Extent next = pool_.Allocate(1000).value();
  EXPECT_NE(SegmentOf(next.tag()), id);
  std::memset(next.bytes().data(), 9, 1000);
  EXPECT_EQ(block.bytes()[999], std::byte{7}) << "the tensor outlives the session, unharmed";
}

TEST_F(SharedMemory, ExtentsThatComeBackWithoutHavingBeenLentCloseTheSession) {
  Start();
  On(client_io_, [&] { session_->Send(StreamId{0}, msg::Credit{0, {12345}}); });
  EXPECT_THAT(server_.WaitClosed().message(), HasSubstr("not lent"));
}

size_t Descriptors() {
  const std::filesystem::directory_iterator list("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(list), end(list)));
}

TEST_F(SharedMemory, LeavesNoDescriptorBehind) {
  Start();
  SendBlock(StreamId{3}, 1000, 7);
  client_.TakeBlock().Reset();
  WaitUntilHome();
  const size_t before = Descriptors();
  for (int i = 0; i < 20; ++i) {
    const auto session = TryConnect().value();
    On(client_io_, [&] { session->Close(Status(Code::kCancelled, "done")); });
  }
  server_.WaitFor([this] { return server_.closed.size() == 20; });
  // A goodbye lingers until the other side has hung up too.
  while (Descriptors() > before) On(server_io_, [] {});
}

// A consumer in a process of its own, which takes blocks and never gives them back.
[[noreturn]] void HoardingConsumer(const std::string& address) {
  class Hoard final : public SessionHandler {
    void OnMessage(Session&, StreamId, RequestId, Message) override {}
    Result<Extent> OnBlockComing(Session&, StreamId, uint64_t bytes) override { return HeapExtents().Allocate(bytes); }
    void OnBlock(Session& session, StreamId stream, Extent block, uint64_t /*on_wire*/) override {
      session.Send(stream, msg::Credit{block.size(), {}});
      blocks_.push_back(std::move(block));
    }
    void OnClosed(Session&, const Status&) override { _exit(1); }
    std::vector<Extent> blocks_;
  };
  Hoard hoard;
  IoThread io("hoard");
  const auto session = ConnectAndWait(io, address, {}, hoard);
  for (;;) pause();
}

TEST(SharedMemoryOfTheDead, IsNeverUsedAgainAndIsFreedWhenAConsumerIsKilled) {
  const std::string address = MakeSocketName("test");
  const pid_t child = fork();  // before this process has threads
  if (child == 0) {
    // The server comes up beside us; until then nobody is there.
    for (;;) {
      const auto probe = ParseAddress(address);
      if (StartConnect(std::get<UnixAddress>(*probe)).error == 0) break;
    }
    HoardingConsumer(address);
  }
  auto table = std::make_shared<SegmentTable>();
  SegmentPool pool(table, kMiB);
  Recorder server;
  IoThread io("server");
  const auto listener = Listen(io, {.address = address, .segments = table}, server, [&](std::shared_ptr<Session> session) {
                          for (int i = 0; i < 4; ++i) session->SendBlock(StreamId{1}, pool.Allocate(100'000).value(), Handover::kLend);
                          server.Change([&] { server.accepted.push_back(std::move(session)); });
                        }).value();
  server.WaitFor([&] { return server.heard.size() == 4; });
  EXPECT_EQ(pool.bytes_out(), 4 * SegmentPool::ChargeOf(100'000));
  kill(child, SIGKILL);
  EXPECT_EQ(server.WaitClosed().code(), Code::kUnavailable);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(pool.bytes_out(), 0U);
  EXPECT_EQ(pool.touched_bytes(), 0U) << "retired, and nobody holds it: the kernel has it back";
  io.Stop();
}

}  // namespace
}  // namespace penstock
