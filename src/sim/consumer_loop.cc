// What the loop of a consumer does: asks for batches, holds them for a while, goes on to the next epoch, leaves.
#include <algorithm>
#include <utility>

#include "sim/consumer_node.h"
#include "sim/trainer.h"

namespace penstock::sim {

void ConsumerNode::Turn() {
  if (left_) return;
  if (joined_ && launch_.restore && !std::exchange(begun_, true)) {
    restoring_ = true;
    Tell(event::Restore{*launch_.restore});
  }
  if (restoring_ || !trainer_.MayStep(*this)) return Linger();
  if (joined_ && !std::exchange(begun_, true)) Tell(event::Begin{});
  if (Take()) Linger();
}

// False: the loop has gone another way.
bool ConsumerNode::Take() {
  const uint64_t before = life();
  Shelf::Taken taken = shelf_->Next();
  if (auto* batch = std::get_if<std::vector<Slice>>(&taken)) {
    Receive(*batch);
  } else if (std::holds_alternative<Shelf::Again>(taken)) {
    trainer_.ledger().Repeat(history(), reader_, epoch_);
    steps_ = shelf_->tag().step;
  } else if (std::holds_alternative<Shelf::EpochEnd>(taken)) {
    trainer_.ledger().Ended(history(), reader_, epoch_);
    Rest();
    return false;
  } else if (const auto* status = std::get_if<Status>(&taken)) {
    Told(*status);
    return false;
  }
  const bool more = Raw(epoch_) + 1 < job_.epochs;
  if (!joined_ || !job_.breaks || !more || !world_.random.Percent(1) || !world_.random.Percent(30)) return life() == before;
  world_.Trace(*this, "breaks off");
  world_.Count(Name(Fault::kBreakLoop));
  trainer_.ledger().BrokeOff();
  NextEpoch();
  return false;
}

void ConsumerNode::Linger() {
  if (job_.slow && trainer_.Unhurried()) return After(world_.random.Millis(100, 2500), [this] { Turn(); });
  After(world_.random.Percent(5) ? world_.random.Millis(20, 200) : world_.random.Micros(100, 10000), [this] { Turn(); });
}

// A finished job is how a consumer that came back, or was taken for dead, learns that others did the rest; one that the job was made for, and that
// comes for the first time, reads empty epochs instead. One that was shut out, or whose index another still has,
// ends; so does one whose cohort did not come together.
void ConsumerNode::Told(const Status& status) {
  world_.Trace(*this, "is told " + status.ToString());
  if (status.code() == Code::kFinished) {
    const bool first = job_.declared && life() == 0 && !launch_.restore;
    if (first && cluster_.home.dispatcher.expired() == 0) world_.Violated(name() + " comes for the first time, and failed: " + status.ToString());
    return Finish();
  }
  const bool index_taken = status.code() == Code::kExists && job_.declared && life() > 0;
  const bool late = status.code() == Code::kDeadline && restoring_;
  if (status.code() != Code::kStale && !index_taken && !late) world_.Violated(name() + " failed: " + status.ToString());
  Crash();
}

void ConsumerNode::Receive(const std::vector<Slice>& batch) {
  if (world_.tracing()) {
    std::string text = "receives";
    for (const Slice& slice : batch) {
      text += " " + penstock::ToString(slice.grant.lane) + " [" + std::to_string(slice.first.seq) + "," + std::to_string(slice.end.seq) + ") fence " +
              std::to_string(Raw(slice.grant.fence)) + ";";
    }
    world_.Trace(*this, text);
  }
  steps_ = shelf_->tag().step;
  std::string wrong = trainer_.ledger().Deliver(history(), reader_, epoch_, batch);
  for (const Slice& slice : batch) {
    if (wrong.empty() && job_.mode != Mode::kStrict) wrong = cluster_.book.Delivered(history().job, history().generation, reader_.consumer, slice);
  }
  if (!wrong.empty()) return world_.Violated(name() + ": " + wrong);
  std::vector<Handle> handles;
  for (const Slice& slice : batch) {
    if (!blocks_.contains(slice.handle)) return world_.Violated(name() + " was handed rows of a block that was let go");
    ++blocks_[slice.handle].in_loop;
    handles.push_back(slice.handle);
  }
  shelf_->Claimed();
  After(world_.random.Micros(100, 50000), [this, handles] { LetGo(handles); });
}

// Loops evaluate and save between epochs. One that is restored meanwhile goes on from there.
void ConsumerNode::Rest() {
  if (!job_.rests) return NextEpoch();
  After(world_.random.Millis(0, 1500), [this, at = history()] { restoring_ || history() != at ? Turn() : NextEpoch(); });
}

void ConsumerNode::NextEpoch() {
  const Epoch next{Raw(epoch_) + 1};
  if (Raw(next) >= job_.epochs) return Leave();
  world_.Trace(*this, "goes on to epoch " + std::to_string(Raw(next)));
  epoch_ = next;
  shelf_->BeginEpoch(next);
  TakeProgress();
  Tell(event::StartEpoch{next});
  Linger();
}

void ConsumerNode::Leave() {
  world_.Trace(*this, "leaves");
  ended_ = true;
  shelf_->Close();
  TakeProgress();
  Tell(event::Close{});
  left_ = true;
  for (const auto& [handle, block] : blocks_) {
    if (!block.released && block.in_loop == 0) return world_.Violated(name() + " has closed and kept a block");
  }
  After(std::chrono::milliseconds(1500), [this, id = history()] {
    Finish();
    trainer_.LeftUnheard(*this, id);
  });
}

}  // namespace penstock::sim
