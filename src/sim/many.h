// Many seeds on all cores.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sim/run.h"

namespace penstock::sim {

struct Totals {
  uint64_t runs = 0;
  uint64_t large = 0;
  uint64_t violated = 0;
  uint64_t events = 0;
  uint64_t rows = 0;
  uint64_t batches = 0;
  uint64_t repeated = 0;
  double virtual_seconds = 0;
  std::map<std::string, uint64_t> faults;

  void Add(const RunReport& report);
};

// Runs seeds from, from + 1, … on `threads` threads. `violated` is called for each run that broke a promise, one at a time.
Totals RunMany(uint64_t from, uint64_t seeds, unsigned threads, const std::function<void(const RunReport&)>& violated);

// The first of these seeds whose run breaks a promise; nullopt where none does.
std::optional<RunReport> FirstViolation(uint64_t from, uint64_t seeds, unsigned threads);

}  // namespace penstock::sim
