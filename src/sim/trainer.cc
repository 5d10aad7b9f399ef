#include "sim/trainer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock::sim {
namespace {
constexpr std::chrono::microseconds kRollBackWithin = std::chrono::milliseconds(300);
}  // namespace

Trainer::Trainer(World& world, const Scenario& run, const JobScenario& job, ConsumerNode::Cluster cluster)
    : world_(world), run_(run), job_(&job), cluster_(cluster), ledger_(job), count_(job.consumers) {
  SetRanks(job.consumers);
}

void Trainer::SetRanks(uint32_t count) {
  while (ranks_.size() < count) {
    ranks_.push_back(std::make_unique<ConsumerNode>(world_, *job_, cluster_, *this, static_cast<uint32_t>(retired_.size() + ranks_.size())));
  }
  count_ = count;
}

ConsumerNode::Launch Trainer::LaunchOf(uint32_t index) const {
  return {job_->declared ? index : 0, job_->declared ? count_ : 0, attempt_, std::nullopt};
}

void Trainer::Start() {
  for (uint32_t i = 0; i < count_; ++i) {
    // Replicas are counted in quiet runs: all workers are there when the job starts.
    world_.At(world_.now() + world_.random.Millis(run_.faulty() ? 0 : 400, 3000), [this, i] {
      if (attempt_ == 0 && !restarting_) ranks_[i]->Start(LaunchOf(i));
    });
  }
  if (job_->restorable()) SaveNowAndThen();
}

void Trainer::StartLate() {
  for (uint32_t i = 0; i < (job_->declared ? count_ : 1); ++i) ranks_[i]->Start(LaunchOf(i));
}

bool Trainer::done() const {
  return !restarting_ && std::all_of(ranks_.begin(), ranks_.begin() + count_, [](const auto& rank) { return rank->done(); });
}

std::string Trainer::WaitingFor() const {
  std::string text;
  for (const auto& rank : ranks_) {
    if (rank->up() && !rank->done()) text += " " + rank->name() + " waits for " + rank->WaitingFor() + ";";
  }
  return text;
}

ConsumerNode* Trainer::AnyRank() { return ranks_[world_.random.Below(count_)].get(); }

void Trainer::CrashRank() {
  ConsumerNode& rank = *AnyRank();
  if (!rank.up() || rank.done()) return;
  world_.Count(Name(Fault::kCrashConsumer));
  rank.Crash();
}

void Trainer::CutOffRank(Duration time) {
  world_.Count(Name(Fault::kCutOff));
  AnyRank()->CutOff(time);
}

void Trainer::RankDied(ConsumerNode& rank) {
  // A restore is one act of all: it fails with one of them.
  const bool restoring = std::any_of(ranks_.begin(), ranks_.begin() + count_, [](const auto& other) { return other->restoring(); });
  if (job_->restorable() && (job_->together || restoring || rank.restoring())) return RestartJob();
  RankStartsAgain(rank, world_.random.Millis(50, 5000));
}

// Its lanes wait for it (hold) until somebody starts it anew.
void Trainer::LeftUnheard(ConsumerNode& rank, HistoryId id) {
  ledger_.Died(id, rank.id());
  if (job_->declared && job_->on_death == OnDeath::kHold) RankStartsAgain(rank, std::chrono::seconds(20));
}

void Trainer::RankStartsAgain(ConsumerNode& rank, Duration after) {
  world_.At(world_.now() + after, [this, &rank, attempt = attempt_] {
    const auto at = std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& mine) { return mine.get() == &rank; });
    if (attempt == attempt_ && !restarting_) rank.Start(LaunchOf(static_cast<uint32_t>(at - ranks_.begin())));
  });
}

// ---- checkpoints

// What one that has left had goes into every position, whatever its step.
std::vector<ConsumerId> Trainer::Alive() const {
  std::vector<ConsumerId> alive;
  for (const auto& rank : ranks_) {
    if (rank->up() && !rank->ended()) alive.push_back(rank->id());
  }
  return alive;
}

bool Trainer::AllRead() const {
  return std::all_of(ranks_.begin(), ranks_.begin() + count_, [&](const auto& rank) { return rank->reading() && rank->history() == history_; });
}

void Trainer::SaveNowAndThen() {
  world_.At(world_.now() + world_.random.Millis(50, 3000), [this] {
    if (done()) return;
    ConsumerNode& rank = *AnyRank();
    if (world_.random.Percent(30)) {
      SaveParts();
    } else if (AllRead()) {
      rank.Save(world_.random.Percent(50) ? 0 : world_.random.Below(4));
    }
    SaveNowAndThen();
  });
}

// Each rank its own part, all at one step. What a rank that died in this generation had is in nobody's part.
void Trainer::SaveParts() {
  if (!AllRead() || job_->mode == Mode::kStrict || ledger_.AnyDied(history_)) return;
  uint64_t tag = ranks_[0]->steps();
  for (uint32_t i = 0; i < count_; ++i) tag = std::min(tag, ranks_[i]->steps());
  if (job_->layout.batch == 0) return;  // there steps are rows
  Checkpoint parts;
  for (uint32_t i = 0; i < count_; ++i) {
    const auto part = ranks_[i]->PartAt(tag);
    if (!part) return;
    parts.push_back(*part);
  }
  world_.Count("parts saved");
  checkpoints_.push_back(std::move(parts));
}

void Trainer::Saved(HistoryId id, const std::string& state, const std::optional<Ledger::Cut>& at_end) {
  const Result<Position> position = ParsePosition(state);
  if (!position.ok()) return world_.Violated("a saved position cannot be read: " + position.status().ToString());
  // What one that was taken for dead had last is in no position.
  const std::string wrong = cluster_.home.dispatcher.expired() > 0 ? "" : ledger_.Saved(id, *position, Alive(), at_end);
  if (!wrong.empty()) return world_.Violated(job_->name + ": " + wrong);
  world_.Count(at_end ? "position saved at END" : "position saved");
  checkpoints_.push_back({state});
}

void Trainer::Joined(const Reader& reader, const msg::Joined& joined) {
  history_ = {joined.job, joined.generation};
  if (Raw(joined.generation) > restores_) {
    world_.Violated(job_->name + " is in generation " + std::to_string(Raw(joined.generation)) + " after " + std::to_string(restores_) + " restores");
  }
  if (const std::string wrong = ledger_.Joined(history_, reader, joined); !wrong.empty()) world_.Violated(job_->name + ": " + wrong);
}

// ---- starting anew

void Trainer::KillAll() {
  for (const auto& rank : ranks_) rank->Kill();
}

void Trainer::RestartJob() {
  if (!job_->restorable() || restarting_ || done()) return;
  restarting_ = true;
  world_.Count(Name(Fault::kRestartJob));
  KillAll();
  world_.At(world_.now() + world_.random.Millis(50, 3000), [this] {
    restarting_ = false;
    ++attempt_;
    const Checkpoint& checkpoint = AnyCheckpoint();
    const uint32_t most = run_.large ? count_ + 5 : 6;
    const auto fewest = static_cast<uint32_t>(checkpoint.size());
    StartFrom(checkpoint, static_cast<uint32_t>(world_.random.Between(fewest, std::max(fewest, most))));
  });
}

const Trainer::Checkpoint& Trainer::AnyCheckpoint() {
  return world_.random.Percent(60) ? checkpoints_.back() : checkpoints_[world_.random.Below(checkpoints_.size())];
}

// The loops go on in the same processes; each comes to it in its own time.
void Trainer::RollBack() {
  if (!job_->restorable() || restarting_ || !AllRead() || world_.now() < rolls_until_) return;
  rolls_until_ = world_.now() + kRollBackWithin;
  const Checkpoint checkpoint = AnyCheckpoint();
  if (checkpoint.size() > count_) return;
  ++restores_;
  world_.Count(Name(Fault::kRollBack));
  for (uint32_t i = 0; i < count_; ++i) {
    world_.At(world_.now() + world_.random.Micros(0, kRollBackWithin.count()),
              [this, i, attempt = attempt_, life = ranks_[i]->life(), state = StateOf(checkpoint, i, true)] {
                if (attempt == attempt_ && ranks_[i]->life() == life) ranks_[i]->RollBack(state);
              });
  }
}

// One file for all, or each its own; who has none joins the others.
std::string Trainer::StateOf(const Checkpoint& checkpoint, uint32_t index, bool one_file) {
  if (checkpoint.size() == 1) return one_file && index > 0 ? "" : checkpoint[0];
  return index < checkpoint.size() ? checkpoint[index] : "";
}

// All ranks are dead; those that come read the same rows in batches of another size. A plan of its own has a job of its own.
void Trainer::ChangeBatch(const JobScenario& other) {
  world_.Count("batch size changed");
  job_ = &other;
  ledger_.GoesOnAs(other);
  std::move(ranks_.begin(), ranks_.end(), std::back_inserter(retired_));
  ranks_.clear();
}

void Trainer::StartFrom(const Checkpoint& checkpoint, uint32_t consumers) {
  const JobScenario* other = run_.OtherBatchOf(*job_);
  if (other != nullptr && world_.random.Percent(50)) ChangeBatch(*other);
  SetRanks(consumers);
  ++restores_;
  const bool one_file = world_.random.Percent(50);
  for (uint32_t i = 0; i < count_; ++i) {
    ConsumerNode::Launch launch = LaunchOf(i);
    launch.restore = StateOf(checkpoint, i, one_file);
    world_.At(world_.now() + world_.random.Millis(0, 2000), [this, i, launch = std::move(launch)] {
      if (launch.attempt == attempt_ && !restarting_) ranks_[i]->Start(launch);
    });
  }
}

// In lockstep nobody begins a step before all have had the one before.
bool Trainer::MayStep(const ConsumerNode& rank) const {
  if (!job_->lockstep) return true;
  return std::all_of(ranks_.begin(), ranks_.begin() + count_, [&](const auto& other) { return other->ended() || other->steps() >= rank.steps(); });
}

}  // namespace penstock::sim
