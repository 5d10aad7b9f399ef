#include "worker/lanes.h"

#include <optional>
#include <utility>

#include "base/caught.h"
#include "base/constants.h"
#include "base/log.h"

namespace penstock::worker {
namespace {

// Small groups are made many in a step, for a step costs the same however small they are. Whoever waits for the first gets it not much later.
constexpr uint64_t kBytesAStep = 256 * kKiB;
constexpr size_t kGroupsAStep = 64;
constexpr Duration kTimeAStep = std::chrono::milliseconds(1);

}  // namespace

// Made on the I/O thread, then used by one pool thread at a time: the core never has two steps of a task out.
class Lanes::Task {
 public:
  Task(const StartLane& start, const Job& job, LaneAllocator allocator, const Clock& clock)
      : start_(start),
        about_{{"job", job.name}, {"epoch", start.lane.epoch}, {"lane", start.lane.lane}},
        pipeline_(job.pipeline),
        executors_(job.executors),
        threads_(job.threads),
        allocator_(std::move(allocator)),
        clock_(clock) {}

  Pool* threads() const { return threads_.get(); }  // null: the worker's pool

  void Extend(Seq to) { extend_ = to; }

  // A block whose rows stay where they lie goes as it is.
  Note Step(uint64_t room, PackCodec codec, Packers& packers) {
    const LogScope scope(about_);
    allocator_.BeginStep(room);
    Note note;
    StepDone done = Make(note.blocks);
    if (run_ != nullptr) done.state_bytes = run_->state_bytes();
    const bool large = std::holds_alternative<Blocked>(done.outcome) || done.state_bytes > start_.state_cap / 2;
    if (run_ != nullptr && large) done.where = run_->where();
    for (Extent& block : note.blocks) {
      if (codec != PackCodec::kNone && block.following() == nullptr) packers.Pack(codec, block);
    }
    note.event = std::move(done);
    return note;
  }

 private:
  StepDone Make(std::vector<Extent>& blocks) {
    const TimePoint begun = clock_.Now();
    StepDone done{.task = start_.task, .outcome = AdvanceOrFail(blocks)};
    while (done.block() != nullptr && MayMakeMore(*done.block(), blocks, begun)) {
      done.before.push_back(*done.block());
      done.outcome = AdvanceOrFail(blocks);
    }
    if (std::holds_alternative<Blocked>(done.outcome) && !done.before.empty()) {  // it says so again when it has all of the room
      done.outcome = done.before.back();
      done.before.pop_back();
    }
    return done;
  }

  // User code takes its time, however little it has made.
  bool MayMakeMore(const BlockToken& last, const std::vector<Extent>& blocks, TimePoint begun) const {
    if (!start_.by_group || executors_ != nullptr || blocks.size() >= kGroupsAStep) return false;
    const bool small = last.charge * (blocks.size() + 1) <= kBytesAStep && 2 * last.charge <= allocator_.room();
    return small && clock_.Now() - begun < kTimeAStep;
  }

  // What an operator throws ends its lane, not the worker with the lanes of everybody.
  StepOutcome AdvanceOrFail(std::vector<Extent>& blocks) {
    try {
      return Advance(blocks);
    } catch (...) {
      Status status = CaughtStatus().Prefixed(ToString(start_.lane) + (run_ == nullptr ? ", when it was opened" : ", " + run_->where()));
      run_.reset();  // it may be in the middle of anything
      return std::move(status).With("lane", int64_t{Raw(start_.lane.lane)});
    }
  }

  StepOutcome Advance(std::vector<Extent>& blocks) {
    if (const Status opened = Open(); !opened.ok()) return opened;
    if (extend_) run_->Extend(*std::exchange(extend_, std::nullopt));
    StepResult result = run_->Step();
    if (auto* produced = std::get_if<Produced>(&result)) {
      const auto given = allocator_.Of(produced->extent);
      blocks.push_back(std::move(produced->extent));
      return BlockToken{produced->info, given.handle, given.charge};
    }
    if (auto* blocked = std::get_if<Blocked>(&result)) {
      blocked->bytes = SegmentPool::ChargeOf(blocked->bytes);
      return *blocked;
    }
    if (auto* over = std::get_if<LaneOver>(&result)) return *over;
    return std::get<Status>(std::move(result));
  }

  // With the first step, on the pool: replaying a lane up to its cursor may take a while.
  Status Open() {
    if (run_ != nullptr) return {};
    PENSTOCK_ASSIGN(run_, pipeline_->OpenLane({.key = start_.lane,
                                               .from = start_.from,
                                               .to = start_.to,
                                               .block_target = start_.block_target,
                                               .block_cap = start_.block_cap,
                                               .state_cap = start_.state_cap,
                                               .by_group = start_.by_group,
                                               .in_place = start_.in_place,
                                               .allocator = &allocator_,
                                               .code = executors_.get()}));
    return {};
  }

  StartLane start_;
  const std::vector<LogField> about_;
  std::shared_ptr<const Pipeline> pipeline_;
  std::shared_ptr<JobExecutors> executors_;
  std::shared_ptr<Pool> threads_;
  LaneAllocator allocator_;
  const Clock& clock_;
  std::optional<Seq> extend_;
  std::unique_ptr<LaneRun> run_;  // before what it uses
};

Lanes::~Lanes() {
  for (auto& [id, job] : jobs_) End(std::move(job));
}

// Calls to executors fail first, so that no thread waits for one.
void Lanes::End(Job job) {
  if (job.executors != nullptr) job.executors->Kill();
  if (job.threads != nullptr) job.threads->Stop();
}

void Lanes::AddJob(JobId job, std::string name, std::shared_ptr<const Pipeline> pipeline, std::shared_ptr<JobExecutors> executors, uint32_t threads) {
  std::shared_ptr<Pool> pool = executors == nullptr ? nullptr : std::make_shared<Pool>(threads);
  jobs_[job] = {std::move(name), std::move(pipeline), std::move(executors), std::move(pool)};
}

std::shared_ptr<const Pipeline> Lanes::Find(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.pipeline;
}

// On the pool: processes and threads end there, while the I/O thread goes on.
void Lanes::Forget(JobId job) {
  auto forgotten = jobs_.extract(job);
  segments_->Forget(job);
  if (forgotten.empty() || forgotten.mapped().executors == nullptr) return;
  pool_.Submit(0, [ended = std::move(forgotten.mapped())] { End(ended); });
}

void Lanes::Start(const StartLane& start) {
  tasks_[start.task] = std::make_shared<Task>(start, jobs_.at(start.job), LaneAllocator(segments_, start.job, inbox_), clock_);
}

void Lanes::Step(const StepLane& step) {
  const auto& task = tasks_.at(step.task);
  Pool& pool = task->threads() != nullptr ? *task->threads() : pool_;
  pool.Submit(step.priority,
              [task, room = step.room, codec = step.codec, inbox = inbox_, packers = packers_] { inbox->Push(task->Step(room, codec, *packers)); });
}

void Lanes::Extend(const ExtendLane& extend) { tasks_.at(extend.task)->Extend(extend.to); }

void Lanes::Stop(const StopLane& stop) { tasks_.erase(stop.task); }

}  // namespace penstock::worker
