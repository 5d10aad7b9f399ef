// A small consumer for tests: opens lanes on a worker over a real session, and keeps their blocks until it is told to let go.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/extent.h"
#include "wire/block.h"
#include "wire/io_thread.h"
#include "wire/net.h"

namespace penstock::worker {

class TestConsumer final : public SessionHandler {
 public:
  struct Lane {
    std::vector<Extent> blocks;
    uint64_t rows = 0;
    uint64_t on_wire = 0;  // bytes
    Cursor next;
    std::optional<msg::LaneEnded> ended;
    std::optional<Status> error;  // Refused or LaneFailed
  };

  TestConsumer(std::string address, Spec spec, std::string token = {}) : spec_(std::move(spec)), io_("test-consumer") {
    ConnectParams params{.token = std::move(token), .role = "consumer", .name = {}, .pace = {}};
    auto session = ConnectAndWait(io_, address, std::move(params), *this);
    EXPECT_TRUE(session.ok()) << session.status();
    if (session.ok()) session_ = *session;
  }
  ~TestConsumer() override {
    Close();
    io_.Stop();
  }

  bool shares_memory() const { return session_->shares_memory(); }

  void Open(uint32_t stream, JobId job, LaneId lane, uint64_t credit, WireCompression compression = WireCompression::kUnknown) {
    Send(stream, msg::Open{.job = job,
                           .range = {{Epoch{0}, ReplicaId{0}, lane}, {}, kLaneEnd},
                           .consumer = ConsumerId{1},
                           .credit = credit,
                           .compression = compression});
  }
  // Lets go of all blocks of the stream, and gives their credit back.
  void LetGo(uint32_t stream) {
    std::vector<Extent> blocks;
    {
      const std::lock_guard lock(mutex_);
      blocks = std::move(lanes_[stream].blocks);
      lanes_[stream].blocks.clear();
    }
    uint64_t bytes = 0;
    for (const Extent& block : blocks) bytes += block.size();
    blocks.clear();
    if (bytes > 0) Send(stream, msg::Credit{.bytes = bytes, .freed = {}});
  }
  void Close() {
    io_.Post([this] {
      if (session_ != nullptr) session_->Close(Status(Code::kCancelled, "the test is over"));
    });
  }

  // Waits until `done` holds for the consumer's state; false after ten seconds.
  template <class Done>
  bool Wait(Done done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return done(*this); });
  }
  Lane& lane(uint32_t stream) { return lanes_[stream]; }
  bool told_to_leave() const { return draining_; }
  bool closed() const { return closed_; }

  void OnMessage(Session& /*session*/, StreamId stream, RequestId /*request*/, Message message) override {
    const std::lock_guard lock(mutex_);
    Lane& lane = lanes_[Raw(stream)];
    if (const auto* ended = std::get_if<msg::LaneEnded>(&message)) lane.ended = *ended;
    if (const auto* refused = std::get_if<msg::Refused>(&message)) lane.error = refused->error;
    if (const auto* failed = std::get_if<msg::LaneFailed>(&message)) lane.error = failed->error;
    draining_ |= std::holds_alternative<msg::Draining>(message);
    changed_.notify_all();
  }
  Result<Extent> OnBlockComing(Session& /*session*/, StreamId /*stream*/, uint64_t bytes) override { return heap_.Allocate(bytes); }
  void OnBlock(Session& /*session*/, StreamId stream, Extent block, uint64_t on_wire) override {
    const std::lock_guard lock(mutex_);
    Lane& lane = lanes_[Raw(stream)];
    const auto view = CheckBlock(spec_, block.bytes());
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->info().first, lane.next) << "blocks come in order";
    lane.next = view->info().end;
    lane.rows += view->rows();
    lane.on_wire += on_wire;
    lane.blocks.push_back(std::move(block));
    changed_.notify_all();
  }
  void OnClosed(Session& /*session*/, const Status& /*why*/) override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  void Send(uint32_t stream, Message message) {
    io_.Post([this, stream, message = std::move(message)] { session_->Send(StreamId{stream}, message); });
  }

  const Spec spec_;
  HeapExtents heap_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Lane> lanes_;
  bool draining_ = false;
  bool closed_ = false;
  IoThread io_;
  std::shared_ptr<Session> session_;
};

}  // namespace penstock::worker
