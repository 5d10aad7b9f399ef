#include "client/epochs.h"

#include <utility>

namespace penstock {
namespace {

// For a call that was given up to come to its end: it may wait for others far longer.
constexpr std::chrono::milliseconds kCloseWithin{1000};

Status NotInTurn() { return Status(Code::kDeadline, "another call of this reader goes on"); }

}  // namespace

void Turns::lock() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = next_++;
  changed_.wait(lock, [&] { return serving_ == mine; });
}

bool Turns::try_lock_for(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  const uint64_t mine = next_++;
  if (changed_.wait_for(lock, wait, [&] { return serving_ == mine; })) return true;
  gone_.insert(mine);
  return false;
}

void Turns::unlock() {
  const std::lock_guard lock(mutex_);
  do {
    ++serving_;
  } while (gone_.erase(serving_) > 0);
  if (serving_ != next_) changed_.notify_all();
}

Epochs::Epochs(std::shared_ptr<Reader> reader, From from) : reader_(std::move(reader)) {
  reader_->HandsOutRows();
  if (from == From::kFirst && reader_->epoch() > Epoch{}) missed_ = Epoch{};
}

void Epochs::SetNext(Epoch epoch) {
  const std::lock_guard turn(turns_);
  next_epoch_ = epoch;
}

Result<std::optional<uint64_t>> Epochs::Begin() {
  const std::lock_guard turn(turns_);
  PENSTOCK_ASSIGN(const Epoch next, NextEpoch());
  const bool more = next <= reader_->epoch() || reader_->epochs() == 0 || Raw(next) < reader_->epochs();
  if (!more) return std::optional<uint64_t>();
  GiveBackLeft();
  ++newest_;
  if (reader_->epoch() < next) {
    PENSTOCK_ASSIGN(const bool started, reader_->StartEpoch(next));
    if (!started) return std::optional<uint64_t>();
  }
  missed_ = next < reader_->epoch() ? std::optional(next) : std::nullopt;
  begun_ = true;
  return std::optional<uint64_t>(newest_);
}

Result<Epoch> Epochs::NextEpoch() {
  const Epoch first{Raw(now()) + (begun_ ? 1 : 0)};
  const Epoch wanted = std::exchange(next_epoch_, std::nullopt).value_or(first);
  if (wanted >= first) return wanted;
  return Status(Code::kInvalid, "set_epoch(" + std::to_string(Raw(wanted)) + "): job '" + reader_->job_name() + "' has read epoch " +
                                    std::to_string(Raw(now())) +
                                    ", and a job does not go back; load a state of that epoch, or read it under another job name");
}

Status Epochs::Restore(const std::string& state) {
  const std::lock_guard turn(turns_);
  return RestoreInTurn(state);
}

Status Epochs::RestoreInTurn(const std::string& state) {
  PENSTOCK_TRY(reader_->Restore(state));
  ++newest_;
  left_ = 0;
  begun_ = false;
  missed_.reset();
  return {};
}

Result<std::optional<uint64_t>> Epochs::Resume(const std::string& state, Epoch epoch) {
  const std::lock_guard turn(turns_);
  PENSTOCK_TRY(RestoreInTurn(state));
  if (reader_->epoch() > epoch) return std::optional<uint64_t>();
  begun_ = true;
  return std::optional<uint64_t>(newest_);
}

Result<std::optional<Batch>> Epochs::Next(uint64_t iteration, std::chrono::milliseconds wait) {
  const std::unique_lock turn(turns_, wait);
  if (!turn.owns_lock()) return NotInTurn();
  PENSTOCK_TRY(CheckNewest(iteration));
  if (missed_) return std::optional<Batch>();
  Result<std::optional<Batch>> batch = reader_->Next(wait);
  if (batch.ok() && batch->has_value() && reader_->layout().batch == 0) left_ = (*batch)->rows() - 1;
  return batch;
}

Result<bool> Epochs::TakeRow(uint64_t iteration, std::chrono::milliseconds wait) {
  const std::unique_lock turn(turns_, wait);
  if (!turn.owns_lock()) return NotInTurn();
  PENSTOCK_TRY(CheckNewest(iteration));
  if (left_ == 0) return false;
  --left_;
  reader_->HandedOutRow();
  return true;
}

Result<std::string> Epochs::State(StateOptions options) {
  const std::lock_guard turn(turns_);
  return reader_->State(options);
}

Result<Epochs::Saved> Epochs::StateOf(uint64_t iteration, StateOptions options) {
  const std::lock_guard turn(turns_);
  PENSTOCK_TRY(CheckNewest(iteration));
  PENSTOCK_ASSIGN(std::string state, reader_->State(options));
  return Saved{now(), std::move(state)};
}

void Epochs::Close() {
  const std::unique_lock turn(turns_, kCloseWithin);
  GiveBackLeft();
  reader_->Close();
}

void Epochs::GiveBackLeft() {
  const uint64_t left = left_.exchange(0);
  if (left > 0) reader_->GiveBack(left);
}

Status Epochs::CheckNewest(uint64_t iteration) const {
  if (iteration == newest_) return {};
  return Status(Code::kInvalid,
                "this iteration is over: another iteration of this dataset was begun, or a state was loaded, and one job is read once at a time; "
                "end one before the next, or distribute the dataset twice to read it twice at a time");
}

}  // namespace penstock
