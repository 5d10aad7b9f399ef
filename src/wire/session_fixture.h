// Two ends of a session on real sockets, for tests: handlers that record what they hear, and waits for a condition.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "wire/net.h"
#include "wire/segments.h"

namespace penstock {

struct Heard {
  StreamId stream{};
  RequestId request{};
  Message message;
};

// Records everything; answers a Register with its plan as the dataset's id, if told to.
class Recorder final : public SessionHandler {
 public:
  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override {
    if (const auto* ask = std::get_if<msg::Register>(&message); ask != nullptr && request != RequestId{0} && echo) {
      if (ask->plan == "fail") return session.Reply(request, msg::Failed{Status(Code::kNotFound, "no such thing")});
      return session.Reply(request, msg::Registered{ask->plan});
    }
    Change([&] { heard.push_back({stream, request, std::move(message)}); });
  }
  Result<Extent> OnBlockComing(Session& session, StreamId stream, uint64_t bytes) override {
    if (on_coming) on_coming(session, stream);
    if (stream == unwanted) return Extent();
    if (bytes > block_limit) return Status(Code::kTooLarge, "more than the credit");
    return heap.Allocate(bytes);
  }
  void OnBlock(Session&, StreamId stream, Extent block, uint64_t on_wire) override {
    Change([&] {
      blocks.emplace_back(stream, std::move(block));
      wire_bytes += on_wire;
    });
  }
  void OnClosed(Session& session, const Status& why) override {
    Change([&] { closed.emplace(session.id(), why); });
  }

  template <class Condition>
  void WaitFor(Condition condition) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), condition)) << "it did not happen in 30 s";
  }
  template <class F>
  void Change(F change) {
    std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  Status WaitClosed() {
    WaitFor([this] { return !closed.empty(); });
    std::lock_guard lock(mutex_);
    return closed.empty() ? Status() : closed.begin()->second;
  }
  Extent TakeBlock() {
    WaitFor([this] { return !blocks.empty(); });
    std::lock_guard lock(mutex_);
    Extent block = std::move(blocks.front().second);
    blocks.erase(blocks.begin());
    return block;
  }

  std::atomic<bool> echo = true;
  uint64_t block_limit = kMaxBlock;
  StreamId unwanted{};
  std::function<void(Session&, StreamId)> on_coming;
  HeapExtents heap;
  std::vector<Heard> heard;
  std::vector<std::pair<StreamId, Extent>> blocks;
  uint64_t wire_bytes = 0;  // of blocks
  std::map<SessionId, Status> closed;
  std::vector<std::shared_ptr<Session>> accepted;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class SessionTest : public ::testing::Test {
 protected:
  ~SessionTest() override { Stop(); }

  // Before what the handlers write to goes away.
  void Stop() {
    client_io_.Stop();
    server_io_.Stop();
  }

  void Serve(ListenParams params) {
    listener_ = Listen(server_io_, std::move(params), server_, [this](std::shared_ptr<Session> session) {
                  server_.Change([&] { server_.accepted.push_back(std::move(session)); });
                }).value();
  }
  Result<std::shared_ptr<Session>> TryConnect(ConnectParams params = {}) {
    return ConnectAndWait(client_io_, listener_->address(), std::move(params), client_);
  }
  void ConnectPair(ConnectParams params = {}) {
    session_ = TryConnect(std::move(params)).value();
    server_.WaitFor([this] { return !server_.accepted.empty(); });
    accepted_ = server_.accepted.back();
  }

  template <class F>
  static void On(IoThread& io, F fn) {
    std::promise<void> done;
    io.Post([&] {
      fn();
      done.set_value();
    });
    done.get_future().wait();
  }
  Result<Message> Ask(Message message, Duration deadline = std::chrono::seconds(20)) {
    auto answer = std::make_shared<std::promise<Result<Message>>>();
    auto future = answer->get_future();
    On(client_io_,
       [&] { session_->Request(std::move(message), deadline, [answer](Result<Message> result) { answer->set_value(std::move(result)); }); });
    return future.get();
  }

  Recorder server_;
  Recorder client_;
  IoThread server_io_{"test-server"};
  IoThread client_io_{"test-client"};
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Session> session_;   // the client's end
  std::shared_ptr<Session> accepted_;  // the server's
};

}  // namespace penstock
