// Runs the core on sessions, pool and timer: each event that comes in, and what the core wants done about it. I/O thread only, but where said.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/extent.h"
#include "base/log.h"
#include "wire/dispatcher_link.h"
#include "wire/io_thread.h"
#include "wire/net.h"
#include "wire/session.h"
#include "worker/core.h"
#include "worker/inbox.h"
#include "worker/lanes.h"
#include "worker/memory.h"
#include "worker/pack_policy.h"
#include "worker/pool.h"

namespace penstock::worker {

class Shell final : public SessionHandler {
 public:
  struct Hooks {
    std::function<void()> welcomed;                  // the dispatcher knows this worker
    std::function<void(const Status&)> unreachable;  // an attempt to reach it failed
    std::function<void()> drained;                   // nothing is left to do
    Duration exit_when_done{0};                      // as in WorkerServer::Options
  };
  // Whether and how user code runs.
  struct CodeRules {
    bool allowed = false;
    ExecutorOptions executors;
  };
  // `io` and `pool` are stopped before it goes. `packers`: so many blocks are packed at a time.
  Shell(IoThread& io, Pool& pool, std::shared_ptr<SegmentTable> table, uint64_t memory, uint32_t packers, CodeRules code, Hooks hooks);
  ~Shell() override;

  // Before the first session: now it is known where this worker listens.
  void Begin(CoreOptions options, std::string dispatcher, ConnectParams params);
  void Accept(std::shared_ptr<Session> session);
  void Drain();
  CoreStats stats() const { return core_->stats(); }

  void OnMessage(Session& session, StreamId stream, RequestId request, Message message) override;
  Result<Extent> OnBlockComing(Session& session, StreamId stream, uint64_t bytes) override;
  void OnBlock(Session& session, StreamId stream, Extent block, uint64_t on_wire) override;
  void OnClosed(Session& session, const Status& why) override;

 private:
  struct OpenLane {
    JobId job{};
    LaneKey lane;
    bool by_group = false;  // its groups may be asked for after it ended
  };
  void Apply(const Event& event);
  void Take(Inbox::Notes notes);
  void Do(SendToConsumer& action);
  void Do(SendBlock& action);
  void Do(SendCopy& action);
  void Do(ReleaseBlock& action);
  void Do(FetchJob& action);
  void Do(ForgetJob& action);
  void Do(StartLane& action) { lanes_.Start(action); }
  void Do(StepLane& action);
  void Do(ExtendLane& action) { lanes_.Extend(action); }
  void Do(StopLane& action) { lanes_.Stop(action); }
  void Do(SendToDispatcher& action);
  void Do(ListJobInputs& action);
  void Do(SetTimer& action);
  void Do(ExitNow& action);
  void OnDispatcherUp();
  void OnDispatcherDown(const Status& why);
  void OnDispatcherRefused(const Status& why);
  void OnDispatcherSaid(RequestId request, Message message);
  void Compile(JobId job, msg::JobReply reply);
  void TellKnown(JobId job, Generation generation, const Pipeline& pipeline);
  void Beat(msg::WorkerBeat& beat);
  void FlushThenFinish(int attempts);
  void ExitUnlessReadFrom();
  bool MayHave(Session& session, StreamId stream);
  void Transmit(Session& session, StreamId stream, Extent block, Handover how);
  void LogLane(LogLevel level, std::string_view event, const SendToConsumer& action, const Status& why) const;

  IoThread& io_;
  Pool& pool_;
  std::shared_ptr<SegmentTable> table_;
  const CodeRules code_;
  Hooks hooks_;
  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<JobSegments> segments_;
  const uint64_t pack_memory_;
  bool packs_ = false;       // and that much of the budget is used for it
  uint64_t wire_bytes_ = 0;  // that blocks took on sockets
  Lanes lanes_;
  std::unique_ptr<WorkerCore> core_;
  Actions actions_;
  Timer timer_;
  Timer flush_timer_;
  Timer alone_timer_;
  const std::shared_ptr<ServiceIdentity> identity_ = std::make_shared<ServiceIdentity>();
  std::shared_ptr<DispatcherLink> link_;
  Timer link_timer_;
  bool link_up_ = false;
  uint32_t failed_attempts_ = 0;  // to reach the dispatcher, in a row
  std::string self_;              // this worker's address, for the log
  std::unordered_map<SessionId, std::shared_ptr<Session>> sessions_;
  std::unordered_map<SessionId, PackPolicy> policies_;  // of those that a network leads to
  std::unordered_map<BlockHandle, Extent> blocks_;      // made and not sent
  std::map<std::pair<SessionId, StreamId>, OpenLane> opened_;
  std::unordered_map<JobId, std::string> names_;  // of jobs that were fetched
};

}  // namespace penstock::worker
