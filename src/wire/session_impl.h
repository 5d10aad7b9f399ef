// The session of both sides, once hello is over. Internal to wire: connect.cc and listen.cc make it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "wire/frame_pipe.h"
#include "wire/io_thread.h"
#include "wire/net.h"
#include "wire/peer_limits.h"
#include "wire/segments.h"
#include "wire/session.h"

namespace penstock {

// What hello settled.
struct SessionFacts {
  std::string peer;
  msg::Hello hello;
  msg::HelloReply reply;
  Pace pace;
  std::shared_ptr<SegmentTable> lends;  // the accepting side, where memory is shared
  bool borrows = false;                 // the connecting side, where memory is shared
  std::string only_job = {};
  bool may_serve = true;
  Reach reach = Reach::kNetwork;
  std::shared_ptr<PeerBook::Place> place = {};  // the accepting side: counts it among its peer's
};

class SessionImpl final : public Session, public std::enable_shared_from_this<SessionImpl>, private FramePipe::Owner, private IoResident {
 public:
  SessionImpl(IoThread& io, std::shared_ptr<FramePipe> pipe, SessionHandler& handler, SessionFacts facts);
  void Begin();  // takes the pipe over; lives until closed, whoever holds it

  SessionId id() const override { return id_; }
  const msg::Hello& peer_hello() const override { return facts_.hello; }
  const msg::HelloReply& hello_reply() const override { return facts_.reply; }
  bool shares_memory() const override { return facts_.lends != nullptr || facts_.borrows; }
  Reach reach() const override { return facts_.reach; }
  const std::string& peer() const override { return facts_.peer; }
  const std::string& only_job() const override { return facts_.only_job; }
  bool may_serve() const override { return facts_.may_serve; }
  void Send(StreamId stream, Message message) override;
  void Request(Message message, Duration deadline, Answer answer) override;
  void Reply(RequestId request, Message message) override;
  uint64_t SendBlock(StreamId stream, Extent block, Handover how) override;
  void Skip(StreamId stream) override;
  uint64_t unsent_bytes() const override { return open() ? pipe_->unsent_bytes() : 0; }
  LinkUse link_use() const override { return open() ? pipe_->use() : LinkUse{}; }
  void Close(Status why) override;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Waiting {
    Answer answer;
    std::multimap<Time, uint64_t>::iterator deadline;
    Status late;  // what it is told when the deadline is over
  };
  struct Lent {
    Extent extent;
    std::shared_ptr<Segment> segment;
  };

  // FramePipe::Owner
  Result<Extent> OnPayloadComing(const FrameHeader& header, uint64_t bytes) override;
  Status OnFrame(const FrameHeader& header, std::span<const std::byte> body, Extent payload) override;
  void OnBroken(const Status& why) override;
  // IoResident
  void OnIoStop() override;

  bool open() const { return pipe_ != nullptr; }
  Status OnControl(const FrameHeader& header, std::span<const std::byte> body);
  Status OnGoodbye(std::span<const std::byte> body);
  void OnReply(uint64_t request, Message message);
  Status OnLent(const FrameHeader& header, std::span<const std::byte> body);
  Status OnSegmentMade(const msg::SegmentMade& made);
  Status OnFreed(const ReturnedExtents& returned);
  bool Lend(StreamId stream, Extent& block);
  void SendFreed();
  void ForgetSegments();
  void Tick();
  void QueueControl(OutFrame frame);
  void ArmDeadline();
  void End(const Status& why, bool tell);
  std::shared_ptr<FramePipe> LetGo();

  IoThread& io_;
  const SessionId id_;
  SessionFacts facts_;
  SessionHandler& handler_;
  std::shared_ptr<FramePipe> pipe_;    // null once closed
  std::shared_ptr<SessionImpl> self_;  // from Begin to OnClosed
  bool peer_left_ = false;             // it said goodbye: no need to tell it
  uint32_t quiet_ticks_ = 0;           // in which nothing came
  uint32_t drip_ticks_ = 0;            // in which one message was not done coming
  uint32_t stuck_ticks_ = 0;           // in which nothing of what waits went out
  std::unique_ptr<Timer> tick_;

  uint64_t last_request_ = 0;
  std::unordered_map<uint64_t, Waiting> waiting_;
  std::multimap<Time, uint64_t> deadlines_;
  std::unique_ptr<Timer> deadline_;

  std::unordered_map<uint64_t, Lent> lent_;                          // by tag
  std::unordered_map<SegmentId, std::weak_ptr<Segment>> announced_;  // segments that the peer has mapped
  std::unique_ptr<SegmentMap> borrowed_;
};

}  // namespace penstock
