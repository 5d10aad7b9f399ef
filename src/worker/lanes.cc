#include "worker/lanes.h"

#include <optional>
#include <utility>

namespace penstock::worker {

// Made on the I/O thread, then used by one pool thread at a time: the core never has two steps of a task out.
class Lanes::Task {
 public:
  Task(const StartLane& start, std::shared_ptr<const Pipeline> pipeline, LaneAllocator allocator)
      : start_(start), pipeline_(std::move(pipeline)), allocator_(std::move(allocator)) {}

  void Extend(Seq to) { extend_ = to; }

  Note Step(uint64_t room) {
    allocator_.BeginStep(room);
    Note note;
    StepDone done{.task = start_.task, .outcome = Advance(note.block), .state_bytes = 0};
    if (run_ != nullptr) done.state_bytes = run_->state_bytes();
    note.event = std::move(done);
    return note;
  }

 private:
  StepOutcome Advance(Extent& block) {
    if (const Status opened = Open(); !opened.ok()) return opened;
    if (extend_) run_->Extend(*std::exchange(extend_, std::nullopt));
    StepResult result = run_->Step();
    if (auto* produced = std::get_if<Produced>(&result)) {
      const auto given = allocator_.Of(produced->extent);
      block = std::move(produced->extent);
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
                                               .by_group = start_.by_group,
                                               .allocator = &allocator_}));
    return {};
  }

  StartLane start_;
  std::shared_ptr<const Pipeline> pipeline_;
  LaneAllocator allocator_;
  std::optional<Seq> extend_;
  std::unique_ptr<LaneRun> run_;  // before what it uses
};

void Lanes::AddJob(JobId job, std::shared_ptr<const Pipeline> pipeline) { pipelines_[job] = std::move(pipeline); }

void Lanes::Forget(JobId job) {
  pipelines_.erase(job);
  segments_->Forget(job);
}

void Lanes::Start(const StartLane& start) {
  tasks_[start.task] = std::make_shared<Task>(start, pipelines_.at(start.job), LaneAllocator(segments_, start.job, inbox_));
}

void Lanes::Step(const StepLane& step) {
  pool_.Submit(step.priority, [task = tasks_.at(step.task), room = step.room, inbox = inbox_] { inbox->Push(task->Step(room)); });
}

void Lanes::Extend(const ExtendLane& extend) { tasks_.at(extend.task)->Extend(extend.to); }

void Lanes::Stop(const StopLane& stop) { tasks_.erase(stop.task); }

}  // namespace penstock::worker
