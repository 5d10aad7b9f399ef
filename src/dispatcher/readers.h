// Who reads an epoch, and what they hold: what the parts of Settle ask of a job.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "dispatcher/settle.h"

namespace penstock::dispatcher {

using Members = std::vector<Consumer*>;

// Who is alive, by the epoch that it reads: one look at all members of a job, of whom there may be thousands, for all that a round over it asks.
// It holds while nobody comes, goes, or goes on to another epoch; being told END changes no more than what is asked of it.
class Roster {
 public:
  explicit Roster(Job& job);

  // Epochs that somebody is in, told its END or not.
  const std::map<Epoch, Members>& epochs() const { return epochs_; }
  const Members& In(Epoch epoch) const;
  // Those of them who are not told its END.
  Members Readers(Epoch epoch) const;
  size_t CountReaders(Epoch epoch) const;
  bool IsRead(Epoch epoch) const;
  bool AnyBefore(Epoch epoch) const { return !epochs_.empty() && epochs_.begin()->first < epoch; }
  bool AnyBeyond(Epoch epoch) const { return !epochs_.empty() && epochs_.rbegin()->first > epoch; }

 private:
  std::map<Epoch, Members> epochs_;
};

// It has nothing to do. Its word counts only if it knew of all its grants when it gave it.
bool Idle(const Job& job, const Consumer& consumer);

size_t HeldBy(const Job& job, const Consumer& consumer);

// Grants of the epoch that are on their way back from those who still read.
size_t ComingBack(const Job& job, const EpochState& state);

void TellEnd(Consumer& consumer, Changes& changes);

// Tells END to those for whom nothing is left, and takes the tails of those who are to go. One round over one epoch.
void EndReaders(Job& job, const Roster& roster, EpochState& state, TimePoint now, Changes& changes);

}  // namespace penstock::dispatcher
