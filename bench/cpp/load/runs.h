// What penstock-load can do to a service. Each prints a line of JSON for each thing worth knowing, and returns when it is over.
#pragma once

#include <string>

#include "load/peers.h"

namespace penstock::load {

struct ScaleOptions {
  std::string dispatcher;
  uint32_t workers = 1000;
  uint32_t consumers = 1000;
  uint32_t jobs = 10;
  uint32_t latecomers = 100;  // consumers that join while the others read
  Duration time = std::chrono::seconds(20);
};
// Workers and consumers that beat each second.
void RunScale(const ScaleOptions& options);

struct LifecycleOptions {
  std::string dispatcher;
  uint32_t jobs = 100'000;
  uint32_t at_a_time = 64;
};
// Jobs, one after another on each of a few sessions: made, read, left.
void RunLifecycles(const LifecycleOptions& options);

struct IdleOptions {
  std::string address;  // of any server
  uint32_t idle = 10'000;
  uint32_t slow = 500;  // that drip their hello
};
// Peers that said hello and do nothing but ping, and peers that never come to the end of theirs. Until the standard input ends.
Status RunIdle(const IdleOptions& options);

}  // namespace penstock::load
