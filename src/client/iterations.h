// What loops that are not Python's read, TensorFlow's iterators above all: jobs by name, and their iterations. Nothing here waits longer than it is
// told to, so that who waits can be cancelled in between.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/epochs.h"
#include "penstock/client.h"

namespace penstock {

// What all iterations of one dataset have in common. Any thread.
class Iterations {
 public:
  using Join = std::function<Result<std::shared_ptr<Reader>>()>;
  enum class Kind : uint8_t {
    kShared,  // they are the epochs of one reader: where it joins, the n-th is the job's n-th, empty if it was over before
    kAlone,   // each is a job of its own, and may go on beside others; a reader is used again when its iteration is over
  };

  Iterations(Kind kind, Join join, StateOptions::Scope scope) : kind_(kind), join_(std::move(join)), scope_(scope) {}
  // Of a reader that the program has already.
  Iterations(std::shared_ptr<Epochs> epochs, StateOptions::Scope scope) : kind_(Kind::kShared), scope_(scope), shared_(std::move(epochs)) {}

  ~Iterations();
  Iterations(const Iterations&) = delete;
  Iterations& operator=(const Iterations&) = delete;

  Result<std::shared_ptr<Epochs>> Take();               // waits for the join; others can Return meanwhile
  void Return(std::shared_ptr<Epochs> epochs);          // by an iteration that had no error
  StateOptions::Scope scope() const { return scope_; }  // of the states that they save

 private:
  std::shared_ptr<Epochs> TakeIdle();
  Result<std::shared_ptr<Epochs>> JoinNew() const;

  const Kind kind_;
  const Join join_;
  const StateOptions::Scope scope_;
  std::mutex mutex_;
  std::shared_ptr<Epochs> shared_;
  std::vector<std::shared_ptr<Epochs>> idle_;
};

// One pass. One thread at a time.
class Iteration {
 public:
  struct Waiting {};  // for the next element
  struct Ended {};
  struct Element {  // rows [first, end) of a batch
    std::shared_ptr<const Batch> batch;
    uint64_t first = 0;
    uint64_t end = 0;
    bool batched = false;  // else the element is one row
  };
  using Step = std::variant<Waiting, Ended, Element>;

  explicit Iteration(std::shared_ptr<Iterations> all) : all_(std::move(all)) {}
  ~Iteration();
  Iteration(const Iteration&) = delete;
  Iteration& operator=(const Iteration&) = delete;

  // The next element, where there is one within `wait`, which is for the join too. An error is said once, and the iteration is at its end after it:
  // who passes over errors (tf.data's ignore_errors) would else ask for ever.
  Result<Step> Next(std::chrono::milliseconds wait);
  // "" before the first element.
  Result<std::string> Save();
  Status Restore(const std::string& state);
  // Whether the next element is of the same batch as the last one.
  bool in_run() const { return run_ != nullptr && next_row_ < run_->rows(); }

 private:
  struct Place {
    std::shared_ptr<Epochs> epochs;
    uint64_t number = 0;
  };
  static Result<Place> Open(const std::shared_ptr<Iterations>& all, const std::atomic<bool>& abandoned);
  Result<Step> TryNext(std::chrono::milliseconds wait);
  Result<Step> TakeRun(std::chrono::milliseconds wait);

  const std::shared_ptr<Iterations> all_;
  const std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  std::future<Result<Place>> opening_;
  Place place_;
  std::shared_ptr<const Batch> run_;
  uint64_t next_row_ = 0;
  bool ended_ = false;
  bool failed_ = false;
  std::string ended_state_;  // that it was restored from, where it had ended
};

// What datasets of this process may name. They live as long as somebody holds them.
void Offer(const std::string& name, const std::shared_ptr<Iterations>& iterations);
std::shared_ptr<Iterations> FindOffered(const std::string& name);
// The program ends: whoever waits for an element is told so.
void EndIterations();

}  // namespace penstock
