// How long a block in shared memory takes from one process's side to the other's: complete in the worker, then in the hands of the loop. Nothing of
// it is copied, so its size should not matter.
//   bench_handover BYTES COUNT      prints the median
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <vector>

#include "wire/io_thread.h"
#include "wire/net.h"
#include "wire/same_host.h"
#include "wire/segments.h"
#include "wire/session.h"

namespace {

using namespace penstock;
using Steady = std::chrono::steady_clock;

// The loop's side: one block at a time.
class Loop final : public SessionHandler {
 public:
  void OnMessage(Session&, StreamId, RequestId, Message) override {}
  Result<Extent> OnBlockComing(Session&, StreamId, uint64_t) override { return Status(Code::kInternal, "a block came over the socket"); }
  void OnBlock(Session&, StreamId, Extent block, uint64_t) override {
    {
      const std::lock_guard lock(mutex_);
      block_ = std::move(block);
    }
    came_.notify_one();
  }
  void OnClosed(Session&, const Status&) override {}

  Extent Next() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return !block_.empty(); });
    return std::move(block_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  Extent block_;
};

constexpr uint64_t kWritten = 16 << 20;  // bytes before each handover, whatever the block has of them: so long the other threads sleep

// Written before it is handed over, as a worker does; what is timed begins then.
double HandOver(IoThread& io, Session& worker, SegmentPool& pool, Loop& loop, uint64_t bytes, std::vector<std::byte>& beside) {
  std::memset(beside.data(), 1, beside.size());
  auto block = std::make_shared<Extent>(pool.Allocate(bytes).value());
  std::memset(block->bytes().data(), 1, bytes);
  const auto begin = Steady::now();
  io.Post([&worker, block] { worker.SendBlock(StreamId{1}, std::move(*block), Handover::kLend); });
  const Extent received = loop.Next();
  const auto end = Steady::now();
  if (received.bytes().back() != std::byte{1}) std::abort();
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "bench_handover BYTES COUNT\n"), 1;
  const uint64_t bytes = std::strtoull(arguments[1], nullptr, 10);
  const uint64_t blocks = std::strtoull(arguments[2], nullptr, 10);
  Loop worker_side;
  Loop loop;
  IoThread worker_io("worker-io");
  IoThread loop_io("loop-io");
  const auto table = std::make_shared<SegmentTable>();
  SegmentPool pool(table);
  std::promise<std::shared_ptr<Session>> accepted;
  const auto listener =
      Listen(worker_io, {.address = MakeSocketName("bench"), .segments = table}, worker_side, [&](std::shared_ptr<Session> session) {
        accepted.set_value(std::move(session));
      }).value();
  const auto session = ConnectAndWait(loop_io, listener->address(), {}, loop).value();
  const auto worker = accepted.get_future().get();
  std::vector<double> seconds;
  std::vector<std::byte> beside(kWritten - std::min(bytes, kWritten));
  for (uint64_t i = 0; i < blocks; ++i) seconds.push_back(HandOver(worker_io, *worker, pool, loop, bytes, beside));
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(blocks / 2), seconds.end());
  std::printf("{\"elements\": %llu, \"seconds\": %.9f}\n", static_cast<unsigned long long>(blocks), seconds[blocks / 2]);
  loop_io.Stop();
  worker_io.Stop();
}
