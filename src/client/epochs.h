// A reader as loops use it: each iteration reads an epoch, and only the newest is given elements: an older one would take the newer one's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "penstock/client.h"

namespace penstock {

// A mutex that is had in the order of asking: who waits for data asks again and again, and others must come between.
class Turns {
 public:
  void lock();
  bool try_lock_for(std::chrono::milliseconds wait);
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;
  uint64_t serving_ = 0;
  std::set<uint64_t> gone_;  // who waited no longer
};

// Any thread.
class Epochs {
 public:
  // Where iterations are counted from: the epoch that the reader came to, or the job's first: then those that were over when it came are empty.
  enum class From : uint8_t { kJoined, kFirst };

  explicit Epochs(std::shared_ptr<Reader> reader, From from = From::kJoined);
  ~Epochs() { Close(); }
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  // The next iteration reads this epoch; those before it that were not read are passed over.
  void SetNext(Epoch epoch);
  // Starts an iteration; its number, or nullopt where the job has no more epochs, which leaves the one before as it was.
  Result<std::optional<uint64_t>> Begin();
  // Goes on after the state; the next iteration reads the rest of its epoch. An error leaves the iteration as it was.
  Status Restore(const std::string& state);
  // The same, for an iteration of its own, which was in `epoch`: its number, or nullopt where that epoch had ended with the state.
  Result<std::optional<uint64_t>> Resume(const std::string& state, Epoch epoch);

  // As Reader::Next, for the iteration of this number. Where elements are rows, the run's first is taken with it.
  Result<std::optional<Batch>> Next(uint64_t iteration, std::chrono::milliseconds wait);
  // One more row of the last run; false: it has no more. Waits for other calls only, at most `wait`: then Deadline.
  Result<bool> TakeRow(uint64_t iteration, std::chrono::milliseconds wait);
  // After what was taken.
  Result<std::string> State(StateOptions options);
  struct Saved {
    Epoch epoch{};
    std::string state;
  };
  // The same, for an iteration and with its epoch: an error where it is not the newest.
  Result<Saved> StateOf(uint64_t iteration, StateOptions options);
  // Leaves the job; rows that were not taken go to others.
  void Close();

  const std::shared_ptr<Reader>& reader() const { return reader_; }

 private:
  Status CheckNewest(uint64_t iteration) const;
  Epoch now() const { return missed_.value_or(reader_->epoch()); }
  Result<Epoch> NextEpoch();
  Status RestoreInTurn(const std::string& state);
  void GiveBackLeft();

  const std::shared_ptr<Reader> reader_;
  Turns turns_;  // guards the rest, and the reader's methods
  uint64_t newest_ = 0;
  bool begun_ = false;
  std::atomic<uint64_t> left_ = 0;  // rows of the last run that were not taken; Close may have no turn
  std::optional<Epoch> next_epoch_;
  std::optional<Epoch> missed_;  // of the newest iteration (the first, where none was begun): it was over when the reader came
};

}  // namespace penstock
