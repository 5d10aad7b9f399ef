// A reader as loops use it: each iteration reads an epoch, and only the newest is given elements: an older one would take the newer one's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "penstock/client.h"

namespace penstock::python {

// A mutex that is had in the order of asking: who waits for data asks again and again, and others must come between.
class Turns {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;
  uint64_t serving_ = 0;
};

// Any thread.
class Epochs {
 public:
  explicit Epochs(std::shared_ptr<Reader> reader) : reader_(std::move(reader)) {}

  // The next iteration reads this epoch; those before it that were not read are passed over.
  void SetNext(Epoch epoch);
  // Starts an iteration; its number, or nullopt where the job has no more epochs.
  Result<std::optional<uint64_t>> Begin();
  // Goes on after the state; the next iteration reads the rest of its epoch.
  Status Restore(const std::string& state);
  // The same, for an iteration of its own, which was in `epoch`: its number, or nullopt where that epoch had ended with the state.
  Result<std::optional<uint64_t>> Resume(const std::string& state, Epoch epoch);

  // As Reader::Next, for the iteration of this number. Where elements are rows, the run's first is taken with it.
  Result<std::optional<Batch>> Next(uint64_t iteration, std::chrono::milliseconds wait);
  // One more row of the last run; false: it has no more.
  Result<bool> TakeRow(uint64_t iteration);
  // After what was taken.
  Result<std::string> State(StateOptions options);
  // The same, for an iteration: an error where it is not the newest.
  Result<std::string> StateOf(uint64_t iteration, StateOptions options);

  const std::shared_ptr<Reader>& reader() const { return reader_; }

 private:
  Status CheckNewest(uint64_t iteration) const;
  Result<bool> ToNextEpoch();

  const std::shared_ptr<Reader> reader_;
  std::atomic<uint64_t> newest_ = 0;
  Turns turns_;  // guards the rest, and the reader's methods
  bool begun_ = false;
  uint64_t left_ = 0;  // rows of the last run that were not taken
  std::optional<Epoch> next_epoch_;
};

}  // namespace penstock::python
