#include "epochs.h"

#include <utility>

namespace penstock::python {

void Turns::lock() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = next_++;
  changed_.wait(lock, [&] { return serving_ == mine; });
}

void Turns::unlock() {
  const std::lock_guard lock(mutex_);
  ++serving_;
  if (serving_ != next_) changed_.notify_all();
}

void Epochs::SetNext(Epoch epoch) {
  const std::lock_guard turn(turns_);
  next_epoch_ = epoch;
}

Result<std::optional<uint64_t>> Epochs::Begin() {
  const uint64_t mine = ++newest_;
  const std::lock_guard turn(turns_);
  if (left_ > 0) reader_->GiveBack(std::exchange(left_, 0));
  PENSTOCK_ASSIGN(const bool more, ToNextEpoch());
  if (!more) return std::optional<uint64_t>();
  begun_ = true;
  return std::optional<uint64_t>(mine);
}

Result<bool> Epochs::ToNextEpoch() {
  const std::optional<Epoch> wanted = std::exchange(next_epoch_, std::nullopt);
  if (!wanted) return begun_ ? reader_->StartEpoch() : Result<bool>(true);
  if (*wanted < reader_->epoch() || (*wanted == reader_->epoch() && begun_)) {
    return Status(Code::kInvalid, "set_epoch(" + std::to_string(Raw(*wanted)) + "): job '" + reader_->job_name() + "' has read epoch " +
                                      std::to_string(Raw(reader_->epoch())) +
                                      ", and a job does not go back; load a state of that epoch, or read it under another job name");
  }
  while (reader_->epoch() < *wanted) {
    PENSTOCK_ASSIGN(const bool more, reader_->StartEpoch());
    if (!more) return false;
  }
  return true;
}

Status Epochs::Restore(const std::string& state) {
  ++newest_;
  const std::lock_guard turn(turns_);
  PENSTOCK_TRY(reader_->Restore(state));
  left_ = 0;
  begun_ = false;
  return {};
}

Result<std::optional<uint64_t>> Epochs::Resume(const std::string& state, Epoch epoch) {
  PENSTOCK_TRY(Restore(state));
  const uint64_t mine = ++newest_;
  const std::lock_guard turn(turns_);
  if (reader_->epoch() > epoch) return std::optional<uint64_t>();
  begun_ = true;
  return std::optional<uint64_t>(mine);
}

Result<std::optional<Batch>> Epochs::Next(uint64_t iteration, std::chrono::milliseconds wait) {
  const std::lock_guard turn(turns_);
  PENSTOCK_TRY(CheckNewest(iteration));
  Result<std::optional<Batch>> batch = reader_->Next(wait);
  if (batch.ok() && batch->has_value() && reader_->layout().batch == 0) left_ = (*batch)->rows() - 1;
  return batch;
}

Result<bool> Epochs::TakeRow(uint64_t iteration) {
  const std::lock_guard turn(turns_);
  PENSTOCK_TRY(CheckNewest(iteration));
  if (left_ == 0) return false;
  --left_;
  return true;
}

Result<std::string> Epochs::State(StateOptions options) {
  const std::lock_guard turn(turns_);
  if (!options.at) options.behind += left_;
  return reader_->State(options);
}

Result<std::string> Epochs::StateOf(uint64_t iteration, StateOptions options) {
  PENSTOCK_TRY(CheckNewest(iteration));
  return State(options);
}

Status Epochs::CheckNewest(uint64_t iteration) const {
  if (iteration == newest_) return {};
  return Status(Code::kInvalid,
                "another iteration of this dataset was begun, or a state was loaded, and one job is read once at a time; "
                "end one before the next");
}

}  // namespace penstock::python
