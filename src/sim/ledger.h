// What the loops of one job received, and whether that is what the protocol promises. It knows rows by identity alone and asks no core.
//
// A generation begins where the position that it was restored from says; what its loops get after that, together with what the position names,
// is the history of that checkpoint: every row of the job, each once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/position.h"
#include "sim/rows.h"
#include "sim/scenario.h"
#include "wire/messages.h"

namespace penstock::sim {

// One generation of one job. A name that was read to its end and is restored is another job, whose generations begin anew.
struct HistoryId {
  JobId job{};
  Generation generation{};
  friend auto operator<=>(const HistoryId&, const HistoryId&) = default;
};

// One start of one consumer.
struct Reader {
  ConsumerId consumer{};
  uint32_t index = 0;
  uint32_t consumers = 0;  // of the job, when it started
};

class Ledger {
 public:
  explicit Ledger(const JobScenario& job) : job_(&job) {}

  // From the next generation on: the same rows in batches of another size.
  void GoesOnAs(const JobScenario& job) { job_ = &job; }

  // All of these return what is wrong; "" when all is well.
  std::string Deliver(HistoryId id, const Reader& reader, Epoch epoch, const std::vector<Slice>& batch);
  // The last batch once more (even).
  void Repeat(HistoryId id, const Reader& reader, Epoch epoch);
  void Ended(HistoryId id, const Reader& reader, Epoch epoch);
  // It begins, or begins again in another generation.
  std::string Joined(HistoryId id, const Reader& reader, const msg::Joined& joined);
  // What each had when a loop that was told END of this epoch saved.
  struct Cut {
    Epoch epoch{};
    std::map<ConsumerId, size_t> rows;
  };
  Cut CutNow(HistoryId id, Epoch epoch) const;
  // A position of the job was saved when each of these, which are all that are alive, had `tag` elements; or `at_end`.
  std::string Saved(HistoryId id, const Position& position, const std::vector<ConsumerId>& alive, const std::optional<Cut>& at_end);
  void Died(HistoryId id, ConsumerId consumer);  // its last words are not known to anybody
  bool AnyDied(HistoryId id) const;
  void BrokeOff() { broken_ = true; }

  struct Outcome {
    uint64_t redelivered = 0;  // as the dispatcher counted
    bool expired = false;      // a lease ran out
    bool unheard = false;      // words to the dispatcher may have been lost, or come too late
    bool lost = false;         // in replicated: workers, and their passes with them
    uint32_t workers = 0;
  };
  // At the end of a run.
  std::vector<std::string> Check(const Outcome& outcome) const;

  uint64_t rows() const { return rows_; }
  uint64_t batches() const { return batches_; }
  uint64_t repeated() const;  // source rows, within a generation

 private:
  struct Start {
    Reader reader;
    std::vector<Row> rows;
    std::vector<size_t> ends;  // of `rows`, after each element
    std::map<Epoch, uint64_t> steps;
    std::set<Epoch> ended;
    RingPosition ring;  // strict: where it began
  };
  struct Branch {  // one generation
    bool begun = false;
    uint32_t places = 0;  // strict: of its ring
    History base;
    std::optional<RingPosition> ring;  // strict: likewise
    std::set<Row> walked;              // those of its epoch that the ring has passed
    std::map<Row, std::vector<ConsumerId>> seen;
    std::map<ConsumerId, Start> starts;
    std::map<Epoch, uint64_t> short_batches;
    std::set<ConsumerId> died;
  };

  Branch& BranchOf(HistoryId id);
  Start& StartOf(HistoryId id, const Reader& reader);
  std::string Restored(Branch& branch, const std::string& base);
  std::string SavedAtEnd(const Branch& branch, const Position& position, const std::vector<ConsumerId>& alive, const Cut& cut);
  std::string CheckPlaces(Branch& branch, const msg::Joined& joined) const;
  const std::vector<std::vector<Row>>& OrderOf(uint32_t places, Epoch epoch);
  std::set<Row> WalkedBy(uint32_t places, const RingPosition& ring);
  std::function<bool(const Row&)> ClaimsOf(uint32_t places, const Position& position);
  static bool Has(const Branch& branch, const Row& row);  // where it began
  std::string Count(Branch& branch, const Reader& reader, const std::vector<Row>& rows);
  std::string CheckOrder(uint32_t places, const Start& start, Epoch epoch, const std::vector<Row>& rows, bool& again);
  void CheckRepeats(const Outcome& outcome, std::vector<std::string>& wrong) const;
  void CheckCoverage(const Branch& branch, const Outcome& outcome, std::vector<std::string>& wrong) const;
  void CheckEven(const Branch& branch, const Outcome& outcome, std::vector<std::string>& wrong) const;
  void CheckPadding(const Branch& branch, std::vector<std::string>& wrong) const;
  uint64_t MayMiss(const Branch& branch, Epoch epoch) const;
  std::vector<LaneKey> LanesRead(const Branch& branch) const;

  const JobScenario* job_;
  std::map<HistoryId, Branch> branches_;
  HistoryId last_;                                                             // that began to be read
  std::map<std::pair<uint32_t, Epoch>, std::vector<std::vector<Row>>> order_;  // strict: by places
  bool broken_ = false;                                                        // a loop left an epoch early
  uint64_t rows_ = 0;
  uint64_t batches_ = 0;
};

}  // namespace penstock::sim
