// A shell for tests of the core: no sockets, no threads, no rows. Checks budget and handles after each event.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/core.h"

namespace penstock::worker {

using namespace std::chrono_literals;

inline constexpr JobId kJob{7};
inline constexpr uint64_t kRowBytes = 100'000;

inline CoreOptions Options(uint64_t memory) { return {.memory = memory, .hello = {}, .block_target = kRowBytes}; }

// A shell without sockets and threads: lanes of `lane_rows` rows, one row a block, memory shared with the consumers.
class TestShell {
 public:
  explicit TestShell(CoreOptions options) : budget_(options.memory), core_(std::move(options)) {}

  struct Stream {
    struct Got {
      BlockHandle handle{};
      uint64_t bytes = 0;
      bool lent = false;  // else it is a copy
    };
    std::deque<Got> got;  // blocks that the consumer has not let go
    uint64_t lent() const {
      return static_cast<uint64_t>(std::count_if(got.begin(), got.end(), [](const Got& block) { return block.lent; }));
    }
    uint64_t rows = 0;
    std::vector<Seq> seqs;
    std::vector<msg::Group> told;
    int words = 0;  // that told of groups
    bool told_end = false;
    std::optional<msg::LaneEnded> ended;
    std::optional<Status> refused;
    std::optional<Status> failed;
  };

  void Tell(const Event& event) {
    Actions actions;
    core_.On(now_, event, actions);
    for (const Action& action : actions) {
      std::visit([this](const auto& a) { Do(a); }, action);
    }
    const CoreStats stats = core_.stats();
    if (held_state <= state_bytes && held_by.empty()) {
      EXPECT_LE(stats.committed, budget_);
    }
    EXPECT_EQ(stats.blocks_out, blocks_.size());
  }
  // Runs one step of the most urgent task; false: none wants one.
  bool StepOnce() {
    if (queue_.empty()) return false;
    const auto next = std::min_element(queue_.begin(), queue_.end(), [](const StepLane& a, const StepLane& b) { return a.priority < b.priority; });
    const StepLane step = *next;
    queue_.erase(next);
    Tell(Make(step));
    return true;
  }
  // Until nothing is left to do: all steps done, all copies written.
  void Settle() {
    for (int i = 0; WriteOnce() || StepOnce(); ++i) ASSERT_LT(i, 100'000) << "steps without end";
  }
  void Pass(Duration time) {
    const TimePoint until = now_ + time;
    while (timer_ && *timer_ <= until) {
      now_ = std::max(now_, *timer_);
      timer_.reset();
      Tell(TimerFired{});
      Settle();
    }
    now_ = until;
  }

  void JoinOverTcp(uint64_t session) { Tell(SessionOpened{.session = SessionId{session}, .over_tcp = true}); }
  void OpenPacked(uint64_t session, uint32_t stream, LaneId lane, WireCompression compression, bool by_group = false) {
    const msg::Range range{{Epoch{0}, ReplicaId{0}, lane}, {}, kLaneEnd};
    Tell(ConsumerSaid{SessionId{session}, StreamId{stream},
                      msg::Open{.job = kJob,
                                .range = range,
                                .consumer = ConsumerId{session},
                                .credit = 100 * kRowBytes,
                                .by_group = by_group,
                                .compression = compression}});
  }
  void Open(uint64_t session, uint32_t stream, LaneId lane, uint64_t credit, Cursor from = {}, Seq to = kLaneEnd, JobId job = kJob,
            bool urgent = false) {
    const msg::Range range{{Epoch{0}, ReplicaId{0}, lane}, from, to};
    Tell(ConsumerSaid{SessionId{session}, StreamId{stream},
                      msg::Open{.job = job, .range = range, .consumer = ConsumerId{session}, .credit = credit, .urgent = urgent}});
  }
  void OpenIn(Generation of, uint64_t session, uint32_t stream, LaneId lane) {
    const msg::Range range{{Epoch{0}, ReplicaId{0}, lane}, {}, kLaneEnd};
    Tell(ConsumerSaid{SessionId{session}, StreamId{stream},
                      msg::Open{.job = kJob, .generation = of, .range = range, .consumer = ConsumerId{session}, .credit = 10 * kRowBytes}});
  }
  // A lane by group.
  void Follow(uint64_t session, uint32_t stream, LaneId lane, Cursor from = {}) {
    const msg::Range range{{Epoch{0}, ReplicaId{0}, lane}, from, kLaneEnd};
    Tell(ConsumerSaid{SessionId{session}, StreamId{stream},
                      msg::Open{.job = kJob, .range = range, .consumer = ConsumerId{session}, .by_group = true}});
  }
  void Take(uint64_t session, uint32_t stream, std::vector<Seq> want, Seq passed) {
    msg::Take take{.want = {}, .passed = {passed, 0}};
    for (const Seq seq : want) take.want.push_back({seq, 0});
    Tell(ConsumerSaid{SessionId{session}, StreamId{stream}, take});
  }
  // Its loop waits for what the stream says next.
  void Wait(uint64_t session, uint32_t stream) { Tell(ConsumerSaid{SessionId{session}, StreamId{stream}, msg::Credit{.bytes = 0, .waits = true}}); }
  void Join(uint64_t session) { Tell(SessionOpened{SessionId{session}, true}); }
  // The consumer lets go of its oldest block on the stream.
  bool ReadOne(uint64_t session, uint32_t stream) {
    Stream& s = at(session, stream);
    if (s.got.empty()) return false;
    const Stream::Got block = s.got.front();
    s.got.pop_front();
    if (block.lent) Free(block.handle);
    Tell(ConsumerSaid{SessionId{session}, StreamId{stream}, msg::Credit{.bytes = block.bytes, .freed = {}}});
    return true;
  }
  void Leave(uint64_t session) {
    Tell(SessionClosed{SessionId{session}});
    for (auto& [key, s] : streams_) {
      if (key.first != session) continue;
      for (const auto& block : std::exchange(s.got, {})) {
        if (block.lent) Free(block.handle);
      }
    }
  }

  Stream& at(uint64_t session, uint32_t stream) { return streams_[{session, stream}]; }
  CoreStats stats() const { return core_.stats(); }

  uint64_t lane_rows = 10;
  uint64_t state_bytes = 0;
  uint64_t held_state = 0;               // what operators turn out to hold, declared or not
  std::map<LaneId, uint64_t> held_by{};  // by those of single lanes
  uint64_t group_rows = 1;
  size_t blocks_a_step = 1;    // more where room for them all is sure
  uint64_t wanted_target = 0;  // for blocks, by the job
  uint64_t block_target = 0;   // of the lane that was started last
  std::function<uint64_t(LaneKey, Seq)> row_bytes = [](LaneKey, Seq) { return kRowBytes; };
  std::vector<PackCodec> codecs;  // of all steps
  bool in_place = false;          // of the lane that was started last
  bool answer_jobs = true;
  Generation generation{};  // as the dispatcher says
  int fetches = 0;
  std::vector<Message> to_dispatcher;
  std::vector<Message> to_sessions;  // stream 0
  int started = 0;
  uint64_t made = 0;  // rows
  int extended = 0;
  bool exited = false;
  TimePoint now_{1s};

 private:
  struct Task {
    LaneKey key;
    Seq at = 0;
    Seq to = kLaneEnd;
    bool by_group = false;
  };

  StepDone Make(const StepLane& step) {
    uint64_t room = step.room;
    const auto held = held_by.find(tasks_.at(step.task).key.lane);
    StepDone done{step.task, MakeBlock(step.task, room), held == held_by.end() ? held_state : held->second};
    done.where = "read /data/a";
    while (done.block() != nullptr && done.before.size() + 1 < blocks_a_step) {
      room -= done.block()->charge;
      done.before.push_back(*done.block());
      done.outcome = MakeBlock(step.task, room);
    }
    return done;
  }
  StepOutcome MakeBlock(TaskId id, uint64_t room) {
    Task& task = tasks_.at(id);
    if (task.at >= lane_rows) return LaneOver{{lane_rows, 0}, true};
    if (task.at >= task.to) return LaneOver{{task.to, 0}, false};
    const uint64_t rows = task.by_group ? std::min(group_rows, lane_rows - task.at) : 1;
    const uint64_t bytes = rows * row_bytes(task.key, task.at);
    if (bytes > room) return Blocked{Waits::kBudget, bytes};
    const BlockHandle handle{++handles_};
    blocks_[handle] = task.at;
    const BlockInfo info{.rows = rows, .first = {task.at, 0}, .end = {task.at + rows, 0}, .bytes = bytes};
    task.at += rows;
    made += rows;
    return BlockToken{info, handle, bytes};
  }

  void Do(const SendToConsumer& a) {
    if (a.stream == StreamId{}) return to_sessions.push_back(a.message);
    Stream& s = at(Raw(a.session), Raw(a.stream));
    if (const auto* groups = std::get_if<msg::Groups>(&a.message)) {
      s.told.insert(s.told.end(), groups->groups.begin(), groups->groups.end());
      ++s.words;
      s.told_end = s.told_end || groups->ended;
    }
    if (const auto* ended = std::get_if<msg::LaneEnded>(&a.message)) s.ended = *ended;
    if (const auto* refused = std::get_if<msg::Refused>(&a.message)) s.refused = refused->error;
    if (const auto* failed = std::get_if<msg::LaneFailed>(&a.message)) s.failed = failed->error;
  }
  void Do(const SendBlock& a) {
    Stream& s = at(Raw(a.session), Raw(a.stream));
    const Seq seq = blocks_.at(a.handle);
    s.seqs.push_back(seq);
    ++s.rows;
    const bool lent = a.how == Handover::kLend;
    s.got.push_back({a.handle, row_bytes({}, seq), lent});
    if (!lent) writing_.push_back(a.handle);
  }
  bool WriteOnce() {
    if (writing_.empty()) return false;
    const BlockHandle handle = writing_.front();
    writing_.pop_front();
    Free(handle);
    return true;
  }
  void Free(BlockHandle handle) {
    EXPECT_EQ(blocks_.erase(handle), 1U) << "freed twice";
    Tell(BlockFreed{handle});
  }
  void Do(const SendCopy& a) {
    Stream& s = at(Raw(a.session), Raw(a.stream));
    s.seqs.push_back(blocks_.at(a.handle));
    ++s.rows;
  }
  void Do(const ReleaseBlock& a) { EXPECT_EQ(blocks_.erase(a.handle), 1U) << "released twice"; }
  void Do(const FetchJob& a) {
    ++fetches;
    if (answer_jobs)
      later_.push_back(
          JobKnown{.job = a.job, .generation = generation, .group_rows = group_rows, .state_bytes = state_bytes, .block_target = wanted_target});
    Deliver();
  }
  void Do(const ForgetJob& a) { forgotten.insert(a.job); }
  void Do(const StartLane& a) {
    tasks_[a.task] = {a.lane, a.from.seq, a.to, a.by_group};
    block_target = a.block_target;
    in_place = a.in_place;
    ++started;
  }
  void Do(const StepLane& a) {
    queue_.push_back(a);
    codecs.push_back(a.codec);
  }
  void Do(const ExtendLane& a) {
    tasks_.at(a.task).to = a.to;
    ++extended;
  }
  void Do(const StopLane& a) {
    EXPECT_EQ(tasks_.erase(a.task), 1U);
    EXPECT_TRUE(std::none_of(queue_.begin(), queue_.end(), [&](const StepLane& s) { return s.task == a.task; })) << "stopped with a step out";
  }
  void Do(const SendToDispatcher& a) { to_dispatcher.push_back(a.message); }
  void Do(const ListJobInputs&) {}
  void Do(const SetTimer& a) { timer_ = a.at; }
  void Do(const ExitNow&) { exited = true; }
  void Deliver() {
    while (!later_.empty()) {
      const Event event = later_.front();
      later_.pop_front();
      Tell(event);
    }
  }

  uint64_t budget_;
  WorkerCore core_;
  std::map<std::pair<uint64_t, uint32_t>, Stream> streams_;
  std::map<BlockHandle, Seq> blocks_;
  std::map<TaskId, Task> tasks_;
  std::vector<StepLane> queue_;
  std::deque<Event> later_;
  std::deque<BlockHandle> writing_;
  std::optional<TimePoint> timer_;
  uint64_t handles_ = 0;

 public:
  std::set<JobId> forgotten;
};

}  // namespace penstock::worker
