// What a dispatcher sees of workers and consumers, without what they do: thousands of them on one I/O thread, over real sessions.
//
// A peer is made and used on the I/O thread and lives until that is stopped. It says who it is, beats each second, and times the answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "load/latencies.h"
#include "wire/io_thread.h"
#include "wire/net.h"

namespace penstock::load {

inline constexpr auto kAnswerWithin = std::chrono::seconds(30);

struct Gauges {
  Latencies joins;
  Latencies heartbeats;
  uint64_t lanes_done = 0;
  uint64_t failures = 0;  // of anything: a request, a session
  std::string first_failure;

  void Fail(const Status& why) {
    if (failures++ == 0) first_failure = why.ToString();
  }
};

using Ready = std::function<void()>;

// Registers, and lists the inputs of any job as so many lanes. Nobody opens one there.
class WorkerPeer final : public ControlHandler {
 public:
  WorkerPeer(IoThread& io, uint64_t number, uint32_t lanes, Gauges& gauges);
  void Start(const std::string& dispatcher, Ready ready);

  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override;
  void OnClosed(Session& session, const Status& why) override;

 private:
  void SayHello(Ready ready);
  void Beat();

  IoThread& io_;
  const uint64_t number_;
  const uint32_t lanes_;
  Gauges& gauges_;
  Timer timer_;
  std::shared_ptr<Session> session_;
  WorkerId id_{};
};

// Joins a job and holds a few lanes of it; each second it is done with one and takes another.
class ConsumerPeer final : public ControlHandler {
 public:
  ConsumerPeer(IoThread& io, uint64_t number, Gauges& gauges);
  void Connect(const std::string& dispatcher, Ready ready);
  // A dataset of its own, by a number in its plan.
  void Register(uint64_t number, std::function<void(std::string dataset)> registered);
  void Join(std::string dataset, std::string job, Ready ready);
  void BeatEachSecond();
  // The rest of the job that it joined: delivers what it is granted until the end, and leaves.
  void ReadToTheEnd(Ready done);

  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override;
  void OnClosed(Session& session, const Status& why) override;

 private:
  enum class Finishes : uint8_t { kOne, kAll };
  void Beat(Finishes finishes, Ready done);
  void Leave(Ready done);

  IoThread& io_;
  const uint64_t number_;
  Gauges& gauges_;
  Timer timer_;
  std::shared_ptr<Session> session_;
  msg::Beat beat_;
  std::vector<msg::Grant> grants_;
  bool ended_ = false;
  uint64_t incarnations_ = 0;
};

// Runs `start(i, ready)` for i = 0…count-1, so many at a time, then `done`.
void InTurns(uint32_t count, uint32_t at_a_time, std::function<void(uint32_t, Ready)> start, Ready done);

}  // namespace penstock::load
