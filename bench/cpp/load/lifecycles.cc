#include <cstdio>
#include <future>

#include "load/runs.h"

namespace penstock::load {
namespace {

constexpr uint32_t kReportEvery = 10'000;
constexpr uint32_t kDatasets = 100;

class Lifecycles {
 public:
  Lifecycles(IoThread& io, LifecycleOptions options, std::promise<void>& over)
      : io_(io), options_(std::move(options)), over_(over), worker_(io, 0, 1, gauges_) {}

  void Begin() {
    for (uint32_t i = 0; i < options_.at_a_time; ++i) consumers_.push_back(std::make_unique<ConsumerPeer>(io_, i, gauges_));
    worker_.Start(options_.dispatcher, [this] {
      InTurns(
          options_.at_a_time, 8, [this](uint32_t i, Ready ready) { consumers_[i]->Connect(options_.dispatcher, std::move(ready)); },
          [this] {
            for (const auto& consumer : consumers_) Next(*consumer);
          });
    });
  }

 private:
  // Every second one has a name.
  void Next(ConsumerPeer& consumer) {
    if (begun_ == options_.jobs) return;
    const uint32_t job = begun_++;
    consumer.Register(job % kDatasets, [this, &consumer, job](std::string dataset) {
      consumer.Join(std::move(dataset), job % 2 == 0 ? "" : "job-" + std::to_string(job), [this, &consumer] {
        consumer.ReadToTheEnd([this, &consumer] {
          Ended();
          Next(consumer);
        });
      });
    });
  }

  void Ended() {
    ++ended_;
    if (ended_ % kReportEvery != 0 && ended_ != options_.jobs) return;
    std::printf("{\"jobs\": %u, \"failures\": %llu, \"first_failure\": \"%s\"}\n", ended_, static_cast<unsigned long long>(gauges_.failures),
                gauges_.first_failure.c_str());
    std::fflush(stdout);
    if (ended_ == options_.jobs) over_.set_value();
  }

  IoThread& io_;
  const LifecycleOptions options_;
  std::promise<void>& over_;
  Gauges gauges_;
  WorkerPeer worker_;
  std::vector<std::unique_ptr<ConsumerPeer>> consumers_;
  uint32_t begun_ = 0;
  uint32_t ended_ = 0;
};

}  // namespace

void RunLifecycles(const LifecycleOptions& options) {
  std::promise<void> over;
  IoThread io("penstock-load");
  std::unique_ptr<Lifecycles> lifecycles;
  io.Post([&] {
    lifecycles = std::make_unique<Lifecycles>(io, options, over);
    lifecycles->Begin();
  });
  over.get_future().wait();
  io.Stop();
}

}  // namespace penstock::load
