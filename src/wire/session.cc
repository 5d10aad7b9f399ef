#include "wire/session.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "wire/codec.h"
#include "wire/session_impl.h"

namespace penstock {
namespace {

SessionId NextSessionId() {
  static std::atomic<uint64_t> last{0};
  return SessionId{++last};
}

std::string Milliseconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()) + " ms";
}

OutFrame ControlFrame(StreamId stream, const Message& message, uint64_t request = 0, uint16_t flags = 0) {
  return {{.type = FrameType::kControl, .flags = flags, .stream = static_cast<uint32_t>(stream), .request = request},
          EncodeMessage(message),
          {},
          nullptr};
}

}  // namespace

Result<Extent> ControlHandler::OnBlockComing(Session& session, StreamId /*stream*/, uint64_t /*bytes*/) {
  return Status(Code::kInvalid, session.peer() + " sent a block where none is taken");
}
void ControlHandler::OnBlock(Session& session, StreamId /*stream*/, Extent /*block*/, uint64_t /*on_wire*/) {
  session.Close(Status(Code::kInvalid, session.peer() + " sent a block where none is taken"));
}

SessionImpl::SessionImpl(IoThread& io, std::shared_ptr<FramePipe> pipe, SessionHandler& handler, SessionFacts facts)
    : io_(io),
      id_(NextSessionId()),
      facts_(std::move(facts)),
      handler_(handler),
      pipe_(std::move(pipe)),
      tick_(std::make_unique<Timer>(io)),
      deadline_(std::make_unique<Timer>(io)) {}

void SessionImpl::Begin() {
  self_ = shared_from_this();
  io_.Add(*this);
  if (facts_.borrows) {
    borrowed_ = std::make_unique<SegmentMap>([&io = io_, weak = weak_from_this()] {
      io.Post([weak] {
        if (const auto self = weak.lock()) self->SendFreed();
      });
    });
  }
  pipe_->HandOver(*this);
  tick_->After(facts_.pace.ping_every, [this] { Tick(); });
}

// ---- out

void SessionImpl::Send(StreamId stream, Message message) {
  if (open()) QueueControl(ControlFrame(stream, message));
}

void SessionImpl::Request(Message message, Duration deadline, Answer answer) {
  if (!open()) {
    io_.Post([answer = std::move(answer), peer = facts_.peer] { answer(Status(Code::kUnavailable, "the session with " + peer + " is closed")); });
    return;
  }
  const uint64_t request = ++last_request_;
  const auto at = deadlines_.emplace(std::chrono::steady_clock::now() + deadline, request);
  Status late(Code::kDeadline, facts_.peer + " did not answer " + std::string(MessageName(message)) + " within " + Milliseconds(deadline));
  // What is told when time runs out is made now, while the message is known.
  waiting_.emplace(request, Waiting{std::move(answer), at, std::move(late)});
  if (at == deadlines_.begin()) ArmDeadline();
  pipe_->Queue(ControlFrame(StreamId{0}, message, request));
}

void SessionImpl::Reply(RequestId request, Message message) {
  if (open()) QueueControl(ControlFrame(StreamId{0}, message, static_cast<uint64_t>(request), kIsReply));
}

// A peer that asks and never reads the answers would fill this process with them. (Blocks are bounded by credit.)
void SessionImpl::QueueControl(OutFrame frame) {
  if (pipe_->unsent_control() > kMaxControlBody) {
    return Close(Status(Code::kBusy, facts_.peer + " does not read what it is sent: " + std::to_string(pipe_->unsent_control()) + " bytes wait"));
  }
  pipe_->Queue(std::move(frame));
}

uint64_t SessionImpl::SendBlock(StreamId stream, Extent block, Handover how) {
  if (!open() || (how == Handover::kLend && Lend(stream, block))) return 0;
  return pipe_->Queue({{.type = FrameType::kBlock, .stream = static_cast<uint32_t>(stream)}, {}, std::move(block), nullptr});
}

// ---- in

void SessionImpl::Skip(StreamId stream) {
  if (open()) pipe_->SkipPayload(static_cast<uint32_t>(stream));
}

Result<Extent> SessionImpl::OnPayloadComing(const FrameHeader& header, uint64_t bytes) {
  return handler_.OnBlockComing(*this, StreamId{header.stream}, bytes);
}

Status SessionImpl::OnFrame(const FrameHeader& header, std::span<const std::byte> body, Extent payload) {
  switch (header.type) {
    case FrameType::kPing: return {};
    case FrameType::kControl: return OnControl(header, body);
    case FrameType::kGoodbye: return OnGoodbye(body);
    case FrameType::kLent: return OnLent(header, body);
    case FrameType::kBlock:
      if (payload.size() > 0) handler_.OnBlock(*this, StreamId{header.stream}, std::move(payload), header.body_bytes + header.payload_bytes);
      return {};
  }
  return Status(Code::kInternal, "a frame type that the decoder let pass");
}

Status SessionImpl::OnControl(const FrameHeader& header, std::span<const std::byte> body) {
  PENSTOCK_ASSIGN(Message message, DecodeMessage(body));
  if ((header.flags & kIsReply) != 0) {
    OnReply(header.request, std::move(message));
    return {};
  }
  if (const auto* made = std::get_if<msg::SegmentMade>(&message)) return OnSegmentMade(*made);
  if (const auto* gone = std::get_if<msg::SegmentGone>(&message)) {
    if (borrowed_ != nullptr) borrowed_->Remove(SegmentId{gone->segment});
    return {};
  }
  if (auto* credit = std::get_if<msg::Credit>(&message)) {
    PENSTOCK_TRY(OnFreed({std::exchange(credit->freed, {}), std::exchange(credit->kept, {})}));
    if (header.stream == 0) return {};  // extents alone: they belong to no lane any more
  }
  handler_.OnMessage(*this, StreamId{header.stream}, RequestId{header.request}, std::move(message));
  return {};
}

void SessionImpl::OnReply(uint64_t request, Message message) {
  const auto found = waiting_.find(request);
  if (found == waiting_.end()) return;  // its deadline was over
  Answer answer = std::move(found->second.answer);
  deadlines_.erase(found->second.deadline);
  waiting_.erase(found);
  if (auto* failed = std::get_if<msg::Failed>(&message)) {
    answer(std::move(failed->error));
  } else {
    answer(std::move(message));
  }
}

Status SessionImpl::OnGoodbye(std::span<const std::byte> body) {
  peer_left_ = true;
  PENSTOCK_ASSIGN(Message message, DecodeMessage(body));
  auto* failed = std::get_if<msg::Failed>(&message);
  if (failed == nullptr) return Status(Code::kData, "a goodbye without a reason");
  return std::move(failed->error).Prefixed("the peer closed the session");
}

// ---- time

void SessionImpl::Tick() {
  // Silence is counted in ticks, not by the clock: a process that was stopped itself has not listened either.
  quiet_ticks_ = pipe_->TakeHeard() ? 0 : quiet_ticks_ + 1;
  if (quiet_ticks_ * facts_.pace.ping_every >= facts_.pace.silence) {
    return End(Status(Code::kUnavailable, facts_.peer + " was silent for " + Milliseconds(facts_.pace.silence)), true);
  }
  const bool spoke = pipe_->TakeSpoke();
  const bool waits = pipe_->unsent_bytes() > 0;
  drip_ticks_ = pipe_->TakeDripping() ? drip_ticks_ + 1 : 0;
  stuck_ticks_ = waits && !spoke ? stuck_ticks_ + 1 : 0;
  if (std::max(drip_ticks_, stuck_ticks_) * facts_.pace.ping_every >= facts_.pace.stalled) {
    const std::string what = drip_ticks_ > stuck_ticks_ ? " has not finished a message within " : " has read nothing of what it was sent for ";
    return End(Status(Code::kUnavailable, facts_.peer + what + Milliseconds(facts_.pace.stalled)), true);
  }
  if (!spoke && !waits) pipe_->Queue({{.type = FrameType::kPing}, {}, {}, nullptr});
  ForgetSegments();
  tick_->After(facts_.pace.ping_every, [this] { Tick(); });
}

void SessionImpl::ArmDeadline() {
  if (deadlines_.empty()) return deadline_->Cancel();
  deadline_->After(deadlines_.begin()->first - std::chrono::steady_clock::now(), [this] {
    const auto self = shared_from_this();
    while (open() && !deadlines_.empty() && deadlines_.begin()->first <= std::chrono::steady_clock::now()) {
      auto late = waiting_.extract(deadlines_.begin()->second);
      deadlines_.erase(deadlines_.begin());
      late.mapped().answer(std::move(late.mapped().late));
    }
    if (open()) ArmDeadline();
  });
}

// ---- the end

void SessionImpl::Close(Status why) { End(why, true); }

void SessionImpl::OnBroken(const Status& why) {
  // A connection that broke cannot be told; what came in over it and was wrong can.
  End(Status(why).Prefixed(facts_.peer), !peer_left_ && why.code() != Code::kUnavailable);
}

void SessionImpl::OnIoStop() {
  pipe_->OnIoStop();
  LetGo();
  self_.reset();
}

// Gives everything back that belongs to an open session.
std::shared_ptr<FramePipe> SessionImpl::LetGo() {
  for (auto& [tag, lent] : lent_) lent.segment->Retire();  // the peer may still read them
  lent_.clear();
  borrowed_.reset();
  tick_.reset();
  deadline_.reset();
  deadlines_.clear();
  return std::exchange(pipe_, nullptr);
}

void SessionImpl::End(const Status& why, bool tell) {
  if (!open()) return;
  io_.Remove(*this);
  const auto pipe = LetGo();
  if (tell) {
    pipe->Farewell(
        {{.type = FrameType::kGoodbye}, EncodeMessage(msg::Failed{why.ok() ? Status(Code::kCancelled, "it is done here") : why}), {}, nullptr});
  } else {
    pipe->Shut();
  }
  io_.Post([self = std::exchange(self_, nullptr), why] {
    for (auto& [request, waiting] : std::exchange(self->waiting_, {}))
      waiting.answer(why.ok() ? Status(Code::kCancelled, "the session was closed") : why);
    self->handler_.OnClosed(*self, why);
  });
}

}  // namespace penstock
