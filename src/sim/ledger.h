// What the loops received, and whether that is what the protocol promises. It knows rows by identity alone and asks no core.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/shelf.h"
#include "sim/scenario.h"

namespace penstock::sim {

class Ledger {
 public:
  explicit Ledger(const Scenario& scenario) : scenario_(scenario) {}

  // A batch reached a loop that reads `epoch`. Returns what is wrong with it; "" when all is well.
  std::string Deliver(Epoch epoch, const std::vector<Slice>& batch);

  struct Outcome {
    uint64_t redelivered = 0;   // as the dispatcher counted
    bool expired = false;       // a lease ran out
    bool broken = false;        // a loop left an epoch early
    bool workers_lost = false;  // in replicated: fewer passes
  };
  // At the end of a run.
  std::vector<std::string> Check(const Outcome& outcome) const;

  uint64_t rows() const { return rows_; }
  uint64_t batches() const { return batches_; }
  uint64_t repeated() const;

 private:
  void CheckCoverage(std::vector<std::string>& wrong) const;

  const Scenario& scenario_;
  std::map<std::pair<LaneKey, Seq>, uint32_t> seen_;
  std::map<Epoch, uint64_t> short_batches_;
  uint64_t rows_ = 0;
  uint64_t batches_ = 0;
};

}  // namespace penstock::sim
