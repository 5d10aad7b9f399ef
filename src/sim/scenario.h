// What one run is about: drawn from its seed.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/ids.h"
#include "penstock/layout.h"

namespace penstock::sim {

struct Scenario {
  uint64_t seed = 0;
  Mode mode = Mode::kShared;
  Layout layout;
  uint32_t epochs = 1;
  uint32_t workers = 1;
  uint32_t consumers = 1;
  bool declared = false;       // consumers say how many they are
  bool shared_memory = false;  // blocks come home when the loop lets go of them
  uint64_t lane_rows = 10;     // of the longest lane
  uint64_t row_bytes = 1000;
  uint64_t worker_memory = 0;
  uint64_t reader_memory = 0;

  // Faults, until `calm_after`.
  bool break_links = false;
  bool crash_dispatcher = false;
  bool crash_workers = false;
  bool drain_workers = false;
  bool crash_consumers = false;
  bool cut_off = false;  // a consumer cannot reach the dispatcher for longer than its lease
  bool breaks = false;   // loops leave epochs early
  uint64_t calm_after_ms = 0;

  static Scenario FromSeed(uint64_t seed);
  uint64_t RowsOf(const LaneKey& lane) const;
  bool faulty() const { return calm_after_ms > 0; }
  std::string ToString() const;
};

}  // namespace penstock::sim
