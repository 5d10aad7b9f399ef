#include "worker/core.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/planted.h"
#include "worker/core_state.h"

namespace penstock::worker {
namespace {

constexpr uint64_t kBlocksOfLargeTarget = 64;  // that fit the budget, or blocks are as large as those of any job

}  // namespace

WorkerCore::WorkerCore(CoreOptions options) : state_(std::make_unique<State>(std::move(options))) {}
WorkerCore::~WorkerCore() = default;
void WorkerCore::On(TimePoint now, const Event& event, Actions& out) { state_->On(now, event, out); }
CoreStats WorkerCore::stats() const { return state_->stats(); }

WorkerCore::State::State(CoreOptions options)
    : options_(std::move(options)),
      block_cap_(std::max<uint64_t>(options_.memory / 8, 1)),
      block_target_(std::min(options_.block_target, block_cap_)),
      // Size classes round a block of exactly the cap up by a quarter at most; that alone does not make it oversize.
      budget_(options_.memory, block_cap_ + block_cap_ / 4) {}

void WorkerCore::State::On(TimePoint now, const Event& event, Actions& out) {
  now_ = now;
  out_ = &out;
  std::visit([this](const auto& e) { Handle(e); }, event);
  Settle();
  out_ = nullptr;
}

// What was waited for is looked at once an event, after it: no move on the tables ever starts another in its middle.
void WorkerCore::State::Settle() {
  while (runs_moved_ || room_freed_ || !began_reading_.empty()) {
    if (!began_reading_.empty()) WorkForReaders();
    if (std::exchange(runs_moved_, false)) AdmitAll(wait_range_);
    if (std::exchange(room_freed_, false)) {
      AdmitAll(wait_room_);
      ServeLine();
    }
  }
  ExitIfDrained();
}

CoreStats WorkerCore::State::stats() const {
  return {.lanes = static_cast<uint32_t>(lanes_.size()),
          .tasks = static_cast<uint32_t>(runs_.size()),
          .blocks_out = ready_blocks_ + sent_.size(),
          .used = budget_.used(),
          .committed = budget_.committed(),
          .rows = rows_,
          .bytes = bytes_,
          .draining = drain_until_.has_value()};
}

OpenLane* WorkerCore::State::Find(LaneNo no) {
  const auto found = lanes_.find(no);
  return found == lanes_.end() ? nullptr : &found->second;
}

void WorkerCore::State::Charge(const ConsumerKey& key, uint64_t more, uint64_t less) {
  const auto found = consumers_.find(key);
  if (found == consumers_.end()) return;  // its session is over
  uint64_t& bytes = found->second.bytes;
  bytes += more;
  bytes -= std::min(bytes, less);
}

// A consumer reads if it lets go of what it was lent. Without shared memory a block is gone when it is written, and credit is the sign; but a
// window that grows gives credit too, so credit is no sign where blocks are lent.
void WorkerCore::State::SawReading(const ConsumerKey& key, bool let_go) {
  const auto consumer = consumers_.find(key);
  const auto session = sessions_.find(key.first);
  if (consumer == consumers_.end() || session == sessions_.end()) return;
  if (let_go == session->second.shares_memory) StartsReading(key);
}

void WorkerCore::State::StartsReading(const ConsumerKey& key) {
  const auto consumer = consumers_.find(key);
  if (consumer == consumers_.end()) return;
  consumer->second.read_at = now_;
  if (std::exchange(consumer->second.reads, true)) return;
  began_reading_.insert(key);
  WakeAt(now_ + options_.asleep_after);
}

// A loop that has something to let go of and does not, for long: it is not read ahead for until it does. One that waits is awake.
void WorkerCore::State::NoticeSleepers() {
  for (const auto& [no, lane] : lanes_) {
    if (lane.waits || lane.open.urgent) consumers_.at(lane.consumer()).read_at = now_;
  }
  for (auto& [key, consumer] : consumers_) {
    if (consumer.bytes > 0 && consumer.read_at + options_.asleep_after <= now_) consumer.reads = false;
  }
}

// Its lanes may read ahead from now on; those that had a block ready stood still.
void WorkerCore::State::WorkForReaders() {
  const std::set<ConsumerKey> began = std::exchange(began_reading_, {});
  std::vector<LaneNo> lanes;
  for (const auto& [no, lane] : lanes_) {
    if (began.contains(lane.consumer())) lanes.push_back(no);
  }
  for (const LaneNo no : lanes) {
    if (OpenLane* lane = Find(no)) Flush(*lane);
    if (OpenLane* lane = Find(no)) Work(*lane);
  }
}

// ---- consumers

void WorkerCore::State::Handle(const SessionOpened& event) {
  sessions_[event.session].shares_memory = event.shares_memory;
  sessions_[event.session].over_tcp = event.over_tcp;
  if (drain_until_) Do(SendToConsumer{event.session, StreamId{}, msg::Draining{}});
}

void WorkerCore::State::Handle(const LinkJudged& event) {
  const auto found = sessions_.find(event.session);
  if (found != sessions_.end()) found->second.codec = event.codec;
}

void WorkerCore::State::Handle(const SessionClosed& event) {
  const auto found = sessions_.find(event.session);
  if (found == sessions_.end()) return;
  while (!found->second.lanes.empty()) CloseLane(found->second.lanes.begin()->second);
  std::erase_if(consumers_, [&](const auto& item) { return item.first.first == event.session; });
  sessions_.erase(found);
}

void WorkerCore::State::Handle(const ConsumerSaid& event) {
  const auto session = sessions_.find(event.session);
  if (session == sessions_.end()) return;
  if (const auto* open = std::get_if<msg::Open>(&event.message)) {
    OnOpen(event.session, event.stream, *open);
  } else if (const auto* credit = std::get_if<msg::Credit>(&event.message)) {
    OnCredit(event.session, event.stream, *credit);
  } else if (const auto* take = std::get_if<msg::Take>(&event.message)) {
    const auto lane = session->second.lanes.find(event.stream);
    if (lane != session->second.lanes.end() && lanes_.at(lane->second).open.by_group) OnTake(lanes_.at(lane->second), *take);
  } else if (std::holds_alternative<msg::CloseLane>(event.message)) {
    const auto lane = session->second.lanes.find(event.stream);
    if (lane != session->second.lanes.end()) CloseLane(lane->second);
  }
}

void WorkerCore::State::OnCredit(SessionId session_id, StreamId stream, const msg::Credit& credit) {
  SessionState& session = sessions_.at(session_id);
  const auto open = session.lanes.find(stream);
  if (open == session.lanes.end()) {
    const auto ended = session.ended.find(stream);
    if (ended == session.ended.end()) return;
    auto& [consumer, bytes] = ended->second;
    Charge({session_id, consumer}, 0, std::min(credit.bytes, bytes));
    SawReading({session_id, consumer}, false);
    bytes -= std::min(credit.bytes, bytes);
    if (bytes == 0) session.ended.erase(ended);
    return;
  }
  const LaneNo no = open->second;
  OpenLane& lane = lanes_.at(no);
  lane.credit = AddCredit(lane.credit, credit.bytes);
  Charge(lane.consumer(), 0, std::min(credit.bytes, lane.uncredited));
  lane.uncredited -= std::min(credit.bytes, lane.uncredited);
  SawReading(lane.consumer(), false);
  lane.waits = lane.waits || credit.waits;
  if (credit.waits) StartsReading(lane.consumer());
  if (lane.open.by_group) return WorkGroups(SharedKeyOf(lane));
  if (credit.waits && lane.phase == OpenLane::Phase::kRange) runs_moved_ = true;  // the run that it waits for is to hurry
  Flush(lane);
  if (OpenLane* still = Find(no)) Work(*still);
}

void WorkerCore::State::Handle(const BlockFreed& event) {
  const auto found = sent_.find(event.handle);
  if (found == sent_.end()) return;
  const SentBlock block = found->second;
  if (Planted(Bug::kBlockLeaked) && !sessions_.contains(block.consumer.first)) return;
  sent_.erase(found);
  budget_.Give(block.charged, block.charge);
  if (block.lent) {
    if (const auto consumer = consumers_.find(block.consumer); consumer != consumers_.end()) consumer->second.lent -= block.charge;
    SawReading(block.consumer, true);
  }
  room_freed_ = true;
  if (OpenLane* lane = Find(block.lane)) Work(*lane);
  const auto run = runs_.find(block.made_by);
  if (run != runs_.end() && run->second.groups) WorkGroups(*run->second.groups);
}

// ---- jobs

std::vector<LaneNo> WorkerCore::State::WaitingForJob(JobId job) const {
  std::vector<LaneNo> waiting;
  for (const auto& [no, lane] : lanes_) {
    if (lane.open.job == job && lane.phase == OpenLane::Phase::kJob) waiting.push_back(no);
  }
  return waiting;
}

void WorkerCore::State::Handle(const JobKnown& event) {
  Job& job = jobs_[event.job];
  job.known = true;
  job.fetching = false;
  job.generation = std::max(job.generation, event.generation);
  job.group_rows = std::max<uint64_t>(event.group_rows, 1);
  job.state_bytes = event.state_bytes;
  job.block_target = std::clamp(event.block_target, block_target_, std::max(block_target_, budget_.capacity() / kBlocksOfLargeTarget));
  for (const LaneNo no : WaitingForJob(event.job)) {
    OpenLane* lane = Find(no);
    if (lane == nullptr) continue;
    if (lane->open.generation <= job.generation) {
      Admit(*lane);
    } else {
      Refuse(*lane,
             Status(Code::kUnavailable, "the dispatcher knows the job in generation " + std::to_string(Raw(job.generation)) +
                                            ", and this lane was opened in " + std::to_string(Raw(lane->open.generation)) + "; open it again"));
    }
  }
}

void WorkerCore::State::Handle(const JobFailed& event) {
  for (const LaneNo no : WaitingForJob(event.job)) Refuse(lanes_.at(no), event.error);
  const auto job = jobs_.find(event.job);
  if (job == jobs_.end()) return;
  job->second.fetching = false;
  if (!job->second.known) jobs_.erase(job);
}

void WorkerCore::State::ForgetIfDone(JobId id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || !found->second.finished || found->second.lanes > 0) return;
  std::vector<TaskId> parked;
  for (const auto& [task, run] : runs_) {
    if (run.job == id && run.parked()) parked.push_back(task);
  }
  for (const TaskId task : parked) StopRun(task);
  if (found->second.runs > 0) return;
  jobs_.erase(found);
  Do(ForgetJob{id});
}

// ---- the dispatcher

void WorkerCore::State::Handle(const DispatcherUp&) {
  dispatcher_up_ = true;
  SendHello();
}

// Again each second, until there is a welcome.
void WorkerCore::State::SendHello() {
  worker_.reset();
  if (!dispatcher_up_) return;
  Do(SendToDispatcher{options_.hello});
  beat_at_ = now_ + kHeartbeatEvery;
  WakeAt(beat_at_);
}

void WorkerCore::State::Handle(const DispatcherDown&) {
  dispatcher_up_ = false;
  worker_.reset();
}

void WorkerCore::State::Handle(const DispatcherSaid& event) {
  if (const auto* welcome = std::get_if<msg::WorkerWelcome>(&event.message)) {
    worker_ = welcome->worker;
    SendBeat();
  } else if (const auto* reply = std::get_if<msg::WorkerBeatReply>(&event.message)) {
    OnBeatReply(*reply);
  } else if (const auto* ask = std::get_if<msg::ListInputs>(&event.message)) {
    Do(ListJobInputs{event.request, *ask});
  }
}

void WorkerCore::State::OnBeatReply(const msg::WorkerBeatReply& reply) {
  if (!reply.known) SendHello();
  for (const JobId id : reply.forget) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || !job->second.known) continue;
    job->second.finished = true;
    ForgetIfDone(id);
  }
  if (reply.drain) Drain();
}

// To people a lane is open until its loop has let go of the last of it, and one that came and went between two beats was open.
uint32_t WorkerCore::State::LanesToTell() const {
  size_t lanes = lanes_.size();
  for (const auto& [id, session] : sessions_) lanes += session.ended.size();
  return std::max(most_lanes_, static_cast<uint32_t>(lanes));
}

void WorkerCore::State::SendBeat() {
  if (!dispatcher_up_ || !worker_) return;
  const CoreStats figures = stats();
  std::vector<JobId> known;
  for (const auto& [id, job] : jobs_) {
    if (job.known) known.push_back(id);
  }
  Do(SendToDispatcher{msg::WorkerBeat{.worker = *worker_,
                                      .draining = figures.draining,
                                      .lanes = LanesToTell(),
                                      .used = figures.used,
                                      .budget = options_.memory,
                                      .rows = figures.rows,
                                      .bytes = figures.bytes,
                                      .jobs = std::move(known)}});
  told_lanes_ = LanesToTell();
  most_lanes_ = static_cast<uint32_t>(lanes_.size());
  beat_at_ = now_ + kHeartbeatEvery;
  WakeAt(beat_at_);
}

// ---- draining

void WorkerCore::State::Handle(const DrainAsked&) { Drain(); }

void WorkerCore::State::Drain() {
  if (drain_until_) return;
  drain_until_ = now_ + options_.drain_timeout;
  WakeAt(*drain_until_);
  SendBeat();
  for (const auto& [session, state] : sessions_) Do(SendToConsumer{session, StreamId{}, msg::Draining{}});
  std::vector<LaneNo> waiting;
  for (const auto& [no, lane] : lanes_) {
    if (lane.phase != OpenLane::Phase::kReading) waiting.push_back(no);
  }
  for (const LaneNo no : waiting) Refuse(lanes_.at(no), Status(Code::kUnavailable, "this worker is draining; open the lane on another"));
}

void WorkerCore::State::ExitIfDrained() {
  if (exiting_ || !drain_until_ || (!lanes_.empty() && now_ < *drain_until_)) return;
  exiting_ = true;
  Do(ExitNow{});
}

// ---- time

void WorkerCore::State::WakeAt(TimePoint at) {
  if (wake_at_ && *wake_at_ <= at) return;
  wake_at_ = at;
  Do(SetTimer{at});
}

void WorkerCore::State::Handle(const TimerFired&) {
  wake_at_.reset();
  if (dispatcher_up_ && beat_at_ <= now_) worker_ ? SendBeat() : SendHello();
  std::vector<TaskId> expired;
  for (auto& [task, run] : runs_) {
    if (run.parked() && run.moved + options_.park_for <= now_) expired.push_back(task);
  }
  for (const TaskId task : expired) StopRun(task);
  ForgetIdleConsumers();
  NoticeSleepers();
  MakeRoomForGroups();
  std::vector<LaneNo> retry;
  std::set<SharedKey> retry_groups;
  for (auto& [task, run] : runs_) {
    if (run.retry_at == TimePoint{} || run.retry_at > now_) continue;
    if (run.groups) retry_groups.insert(*run.groups);
    retry.push_back(run.lane);
  }
  for (const SharedKey& key : retry_groups) WorkGroups(key);
  for (const LaneNo no : retry) {
    if (OpenLane* lane = Find(no)) Work(*lane);
  }
  const std::set<LaneNo> for_room = wait_room_;
  for (const LaneNo no : for_room) {
    OpenLane& lane = lanes_.at(no);
    if (lane.since + options_.room_patience > now_) continue;
    Refuse(lane, Status(Code::kBusy,
                        "no room in this worker's budget of " + std::to_string(options_.memory) + " bytes now; open the lane elsewhere or later"));
  }
  runs_moved_ = true;                                           // patience with a run may have ended
  room_freed_ = room_freed_ || budget_.InTheWay().has_value();  // and with a block that is not taken
  WakeForWaiting();
}

void WorkerCore::State::WakeForWaiting() {
  if (dispatcher_up_) WakeAt(beat_at_);
  if (drain_until_ && !exiting_) WakeAt(std::max(*drain_until_, now_));
  for (const auto& [task, run] : runs_) {
    if (run.parked()) WakeAt(run.moved + options_.park_for);
    if (run.retry_at > now_) WakeAt(run.retry_at);
  }
  for (const LaneNo no : wait_room_) WakeAt(lanes_.at(no).since + options_.room_patience);
  for (const auto& [key, consumer] : consumers_) {
    if (consumer.reads && consumer.bytes > 0) WakeAt(consumer.read_at + options_.asleep_after);
  }
}

}  // namespace penstock::worker
