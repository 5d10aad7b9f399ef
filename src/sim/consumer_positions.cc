// A consumer's checkpoints: parts, positions, restores.
#include <algorithm>
#include <utility>

#include "sim/consumer_node.h"
#include "sim/trainer.h"

namespace penstock::sim {
namespace {
constexpr auto kRestoreWithin = std::chrono::seconds(120);  // as reader_positions.cc
constexpr auto kSaveWithin = std::chrono::seconds(60);
}  // namespace

void ConsumerNode::SetJob(const msg::Joined& joined) {
  joined_job_ = joined;
  epoch_ = joined.epoch;
  steps_ = 0;
  trainer_.Joined(reader_, joined);
}

void ConsumerNode::RollBack(std::string state) {
  if (!reading() || left_) return;
  world_.Trace(*this, "rolls back");
  begun_ = restoring_ = true;
  Tell(event::Restore{std::move(state)});
}

void ConsumerNode::SendRestore(msg::Restore restore) {
  if (restore.rebuild) restore.state = PartJson(*shelf_->Delivered());
  Ask(std::move(restore), {Asked::What::kRestore}, kRestoreWithin);
}

void ConsumerNode::Restored(const msg::Joined& joined) {
  world_.Trace(*this, "is restored to generation " + std::to_string(Raw(joined.generation)));
  restoring_ = false;
  restored_ = true;
  SetJob(joined);
}

std::string ConsumerNode::PartJson(const DeliveryLog::Point& point) const { return ToJson(MakePart({job_.name, job_.rows, 0}, joined_job_, point)); }

std::optional<std::string> ConsumerNode::PartAt(uint64_t tag) const {
  const auto point = shelf_->Delivered(tag);
  if (!point.ok()) return std::nullopt;
  return PartJson(*point);
}

void ConsumerNode::AnswerParts() {
  if (asks_.empty() || shelf_ == nullptr || !link_) return;
  for (msg::PartReply& reply : asks_.Answer({job_.name, job_.rows, 0}, joined_job_, *shelf_)) {
    world_.Send(*link_, *this, {{}, {}, false, std::move(reply)});
  }
}

void ConsumerNode::Save(uint64_t behind) {
  if (core_->rebuilding()) return;
  const auto current = shelf_->Delivered();
  const auto at = shelf_->Delivered(current->tag - std::min(behind, current->tag));
  if (!at.ok()) return;
  world_.Trace(*this, "saves the position of step " + std::to_string(at->tag));
  Asked asked{Asked::What::kSave};
  if (at->ended) asked.at_end = trainer_.ledger().CutNow(history(), at->epoch);
  if (job_.mode == Mode::kStrict) {
    Position position = MakePart({job_.name, job_.rows, 0}, joined_job_, *at);
    position.kind = Position::Kind::kPosition;
    return trainer_.Saved(history(), ToJson(position), asked.at_end);
  }
  Ask(msg::SavePosition{joined_job_.job, joined_job_.consumer, current->generation, at->tag, PartJson(*current), PartJson(*at)}, std::move(asked),
      kSaveWithin);
}

// The answer may come when the job is in another generation.
void ConsumerNode::OnSaved(const Asked& asked, const std::string& state) {
  world_.Trace(*this, "has saved " + state);
  trainer_.Saved({joined_job_.job, asked.generation}, state, asked.at_end);
}

}  // namespace penstock::sim
