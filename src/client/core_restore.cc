// How ClientCore comes into another generation: restored by the user, or because the dispatcher has lost the job.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/constants.h"
#include "client/core.h"

namespace penstock {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(200);

}  // namespace

// The loop asks for the first time. Rows that an earlier incarnation had are its word to give: restored, continued or begun again.
void ClientCore::Apply(const event::Begin&) {
  if (std::exchange(begun_, true) || phase_ != Phase::kReading || !job_.undecided || restore_) return;
  if (options_.join.on_restart == OnRestart::kRestart) {
    restore_ = PendingRestore{};
    return;
  }
  beat_now_ = true;
}

void ClientCore::Apply(const event::Restore& restore) { restore_ = PendingRestore{restore.state, false, now_, false}; }

// It may have been sent, and be granted later: then another generation has begun without this reader, as if somebody else had restored the job.
void ClientCore::Apply(const event::GiveUpRestore& given_up) {
  if (!restore_ || restore_->state.empty()) return;
  if (rebuild_ != RebuildStep::kNone) return FailReader(given_up.why);  // the job that it was in is lost
  restore_.reset();
  Do(action::RestoreFailed{given_up.why});
}

// Another dispatcher answers at the address, or the same without its state: what this loop has is all that is known of it. The shelf stands still
// from here on, so that the part that is sent is what the loop has when it goes on.
void ClientCore::Rebuild() {
  rebuild_ = RebuildStep::kRegister;
  restore_ = restore_ ? PendingRestore{restore_->state, restore_->rebuild, now_, false} : PendingRestore{{}, true, now_, false};
  waiting_for_ = "the dispatcher, which has lost the job, to take it up again";
  Do(action::ShelfLease{TimePoint{Duration::min()}});
}

// A word was refused because the dispatcher does not know the job, or at a join the dataset. Others that were on their way with it, a beat beside
// a restore, are refused alike, when the first refusal has been acted on.
void ClientCore::JobLost() {
  if (rebuild_ == RebuildStep::kNone) return Rebuild();
  if (rebuild_ != RebuildStep::kJoin) return;
  rebuild_ = RebuildStep::kRegister;
  restore_->at = now_ + kPause;
}

void ClientCore::Apply(const msg::Registered&) {
  if (rebuild_ != RebuildStep::kRegister) return;
  rebuild_ = RebuildStep::kJoin;
  restore_->at = now_;
}

void ClientCore::RestoreIfDue() {
  if (!restore_ || restore_->sent || !dispatcher_up_ || now_ < restore_->at) return;
  restore_->at = now_ + kSilence;
  if (rebuild_ == RebuildStep::kRegister) return Do(action::SendDispatcher{msg::Register{options_.plan}});
  if (rebuild_ == RebuildStep::kJoin) {
    msg::Join join = options_.join;
    join.rebuild = true;
    return Do(action::SendDispatcher{std::move(join)});
  }
  restore_->sent = true;
  restore_sent_ = now_;
  msg::Restore message;
  message.job = job_.job;
  message.consumer = job_.consumer;
  message.consumers = options_.join.consumers;
  message.index = options_.join.index;
  message.attempt = options_.join.attempt;
  message.state = restore_->state;
  message.rebuild = restore_->rebuild;
  message.generation = job_.generation;
  Do(action::SendRestore{std::move(message)});
}

void ClientCore::Apply(const event::RestoreRefused& refused) {
  if (phase_ != Phase::kReading || !restore_) return;
  const Code code = refused.why.code();
  if (code == Code::kNotFound && !options_.plan.empty()) return Rebuild();  // once more, where it was lost again meanwhile
  // Members that did not come in time are the user's to know; a loop that goes on by itself waits for them.
  if (code == Code::kUnavailable || code == Code::kBusy || (code == Code::kDeadline && restore_->rebuild)) {
    restore_->sent = false;
    restore_->at = now_ + kPause;
    waiting_for_ = refused.why.message();
    return;
  }
  // The job was not lost: another start has taken its name, and is being read. Nothing was delivered here.
  if (code == Code::kExists && restore_->rebuild && rebuild_ == RebuildStep::kRestore) return Enter(rejoined_);
  const bool by_user = !restore_->state.empty() && rebuild_ == RebuildStep::kNone;
  restore_.reset();
  if (!by_user) return FailReader(refused.why);
  Do(action::RestoreFailed{refused.why});
}

// The answer to a join of a rebuild, or to a restore: true where it was one.
bool ClientCore::TakeRestored(const msg::Joined& joined) {
  if (!restore_) return false;
  if (rebuild_ == RebuildStep::kJoin) {
    rebuild_ = RebuildStep::kRestore;
    rejoined_ = joined;
    job_.job = joined.job;
    job_.generation = joined.generation;
    restore_->at = now_;
    return true;
  }
  if (!restore_->sent || joined.generation == job_.generation) return false;
  Enter(joined);
  return true;
}

// Another generation of the job, or another job of its name.
void ClientCore::Enter(const msg::Joined& joined) {
  const bool rebuilt = restore_->rebuild;
  const bool goes_on = rebuilt && joined.epoch == epoch_;  // as the shelf sees it
  begun_ = begun_ || !rebuilt;
  restore_.reset();
  rebuild_ = RebuildStep::kNone;
  CloseStreams();
  lanes_.clear();
  finishes_.clear();
  gone_.clear();
  sent_.clear();
  answered_ = serial_;
  epoch_ended_ = false;
  if (!goes_on) totals_.epoch_batches = 0;
  if (!rebuilt) totals_.tag = 0;
  ready_batches_ = 0;
  limit_ = steps_ = kNoLimit;
  first_tag_ = 0;
  job_ = joined;
  epoch_ = joined.epoch;
  waiting_for_.clear();
  lease_until_ = restore_sent_ + std::chrono::milliseconds(joined.lease_ms);
  Do(action::Restored{joined, rebuilt});
  Do(action::ShelfLease{lease_until_});
  TakeWorkers(joined.workers, joined.workers_version);
  if (strict()) RestartRing(joined);
  beat_now_ = true;
}

}  // namespace penstock
