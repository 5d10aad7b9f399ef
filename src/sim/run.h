// One run of a whole cluster from one seed, and what came of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/trace.h"

namespace penstock::sim {

struct RunReport {
  uint64_t seed = 0;
  std::string scenario;
  std::vector<std::string> violations;
  std::map<std::string, uint64_t> faults;  // by kind
  uint64_t events = 0;
  uint64_t rows = 0;
  uint64_t batches = 0;
  uint64_t repeated = 0;  // source rows
  double virtual_seconds = 0;
  bool large = false;
};

RunReport RunSeed(uint64_t seed, TraceLog& trace);
RunReport RunSeed(uint64_t seed);  // without a trace

}  // namespace penstock::sim
