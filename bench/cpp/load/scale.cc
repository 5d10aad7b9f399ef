#include <cstdio>
#include <future>

#include "load/runs.h"

namespace penstock::load {
namespace {

constexpr uint32_t kAtATime = 64;
constexpr uint32_t kLanes = 1'000'000;  // of a job: more than any run reads
constexpr uint64_t kRows = 1'000'000'000'000;

// Everything of a run, made and used on the I/O thread.
class Scale {
 public:
  Scale(IoThread& io, ScaleOptions options, std::promise<void>& over) : io_(io), options_(std::move(options)), over_(over), timer_(io) {}

  void Begin() {
    for (uint32_t i = 0; i < options_.workers; ++i) workers_.push_back(std::make_unique<WorkerPeer>(io_, i, kLanes, gauges_));
    for (uint32_t i = 0; i < options_.consumers + options_.latecomers; ++i) consumers_.push_back(std::make_unique<ConsumerPeer>(io_, i, gauges_));
    InTurns(
        options_.workers, kAtATime, [this](uint32_t i, Ready ready) { workers_[i]->Start(options_.dispatcher, std::move(ready)); },
        [this] { consumers_[0]->Connect(options_.dispatcher, [this] { Register(); }); });
  }

 private:
  void Register() {
    if (gauges_.failures > 0) return GiveUp();
    consumers_[0]->Register(kRows, [this](std::string dataset) {
      dataset_ = std::move(dataset);
      InTurns(
          options_.consumers, kAtATime, [this](uint32_t i, Ready ready) { Come(i, std::move(ready)); }, [this] { Measure(); });
    });
  }

  void Come(uint32_t i, Ready ready) {
    auto join = [this, i, ready = std::move(ready)] {
      consumers_[i]->Join(dataset_, "job-" + std::to_string(i % options_.jobs), [this, i, ready] {
        consumers_[i]->BeatEachSecond();
        ready();
      });
    };
    if (i == 0) return join();
    consumers_[i]->Connect(options_.dispatcher, std::move(join));
  }

  // All are there: from here on counts. Latecomers join while the others beat.
  void Measure() {
    gauges_.heartbeats = {};
    gauges_.lanes_done = 0;
    std::printf("{\"up\": true}\n");
    std::fflush(stdout);
    NextLatecomer(options_.consumers);
  }

  void NextLatecomer(uint32_t i) {
    if (i == consumers_.size()) return Finish();
    timer_.After(options_.time / (options_.latecomers + 1), [this, i] { Come(i, [this, i] { NextLatecomer(i + 1); }); });
  }

  void GiveUp() {
    std::fprintf(stderr, "penstock-load: %s\n", gauges_.first_failure.c_str());
    over_.set_value();
  }

  void Finish() {
    timer_.After(options_.time / (options_.latecomers + 1), [this] {
      std::printf("{\"joins\": %s, \"heartbeats\": %s, \"lanes_done\": %llu, \"failures\": %llu, \"first_failure\": \"%s\"}\n",
                  gauges_.joins.ToJson().c_str(), gauges_.heartbeats.ToJson().c_str(), static_cast<unsigned long long>(gauges_.lanes_done),
                  static_cast<unsigned long long>(gauges_.failures), gauges_.first_failure.c_str());
      over_.set_value();
    });
  }

  IoThread& io_;
  const ScaleOptions options_;
  std::promise<void>& over_;
  Timer timer_;
  Gauges gauges_;
  std::string dataset_;
  std::vector<std::unique_ptr<WorkerPeer>> workers_;
  std::vector<std::unique_ptr<ConsumerPeer>> consumers_;
};

// How far InTurns has come; kept by what is under way.
struct Turns : std::enable_shared_from_this<Turns> {
  uint32_t count;
  std::function<void(uint32_t, Ready)> start;
  Ready done;
  uint32_t next = 0;
  uint32_t ended = 0;

  void Next() {
    if (next == count) return;
    start(next++, [self = shared_from_this()] {
      if (++self->ended == self->count) return self->done();
      self->Next();
    });
  }
};

}  // namespace

void InTurns(uint32_t count, uint32_t at_a_time, std::function<void(uint32_t, Ready)> start, Ready done) {
  if (count == 0) return done();
  const auto turns = std::make_shared<Turns>();
  turns->count = count;
  turns->start = std::move(start);
  turns->done = std::move(done);
  for (uint32_t i = 0; i < at_a_time; ++i) turns->Next();
}

void RunScale(const ScaleOptions& options) {
  std::promise<void> over;
  IoThread io("penstock-load");
  std::unique_ptr<Scale> scale;
  io.Post([&] {
    scale = std::make_unique<Scale>(io, options, over);
    scale->Begin();
  });
  over.get_future().wait();
  io.Stop();
}

}  // namespace penstock::load
