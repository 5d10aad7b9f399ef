#include "wire/frame_pipe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"

namespace penstock {
namespace {

constexpr size_t kStaging = 64 * kKiB;
constexpr size_t kFirstStaging = 4 * kKiB;  // enough for pings and beats: thousands of idle sessions are cheap
constexpr size_t kReadPiece = 128 * kKiB;   // larger reads evict what the caches hold
constexpr size_t kTurn = 1 * kMiB;          // then others get their turn
constexpr size_t kMaxPieces = 64;           // of one writev
constexpr size_t kMaxWaitingDescriptors = 64;
constexpr size_t kDrip = 64 * kKiB;  // of a message between two looks: a link that gives less holds a session for nothing
constexpr auto kFarewell = 1s;

}  // namespace

FramePipe::FramePipe(IoThread& io, Fd fd, bool payload_crc, std::unique_ptr<ByteStream> stream)
    : io_(io), socket_(io.context(), fd.release()), stream_(std::move(stream)), farewell_(io), payload_crc_(payload_crc), staging_(kFirstStaging) {
  mark_.emplace(socket_.native_handle());
  io_.Add(*this);
}

FramePipe::~FramePipe() {
  if (open_) io_.Remove(*this);
}

void FramePipe::OnIoStop() {
  while (open_ && shaken_ && !queue_.empty() && WriteOnce()) {
  }
  Shut();
}

void FramePipe::Shut() {
  owner_ = nullptr;
  if (!open_) return;
  open_ = false;
  io_.Remove(*this);
  farewell_.Cancel();
  mark_.reset();
  socket_.close();
  queue_.clear();
  payload_.Reset();
}

void FramePipe::Break(const Status& why) {
  Owner* owner = std::exchange(owner_, nullptr);
  if (owner != nullptr) owner->OnBroken(why);
}

// ---- reading

void FramePipe::Start(Owner& owner) {
  owner_ = &owner;
  Shake();
}

void FramePipe::Shake() {
  if (!open_ || owner_ == nullptr) return;
  const auto step = stream_->Shake(socket_.native_handle());
  if (!step.ok()) return Break(step.status());
  if (*step == ByteStream::Step::kDone) {
    shaken_ = true;
    Flush();
    return WaitToRead();
  }
  const auto ready = *step == ByteStream::Step::kWantsRead ? asio::posix::stream_descriptor::wait_read : asio::posix::stream_descriptor::wait_write;
  socket_.async_wait(ready, [self = shared_from_this()](std::error_code error) {
    if (!error) self->Shake();
  });
}

void FramePipe::HandOver(Owner& owner) {
  owner_ = &owner;
  caps_ = FrameCaps{};
}

void FramePipe::WaitToRead() {
  if (!open_ || waiting_to_read_) return;
  waiting_to_read_ = true;
  if (!leaving_ && stream_->holds_bytes()) {  // the socket would not wake us for them
    return asio::post(io_.context(), [self = shared_from_this()] {
      self->waiting_to_read_ = false;
      if (self->open_) self->ReadTurn();
    });
  }
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](std::error_code error) {
    self->waiting_to_read_ = false;
    if (!error && self->open_) self->ReadTurn();
  });
}

void FramePipe::ReadTurn() {
  size_t budget = kTurn;
  while (ReadOnce(budget)) {
  }
}

// Reads what is there, once. False: the turn is over, and the next one is arranged.
bool FramePipe::ReadOnce(size_t& budget) {
  if (open_ && leaving_) Discard();
  if (!open_ || owner_ == nullptr) return false;
  if (begin_ == end_) begin_ = end_ = 0;
  std::array<iovec, 2> into{};
  size_t pieces = 0;
  uint64_t rest = 0;  // of the payload
  size_t direct = 0;
  if (wants_ == Wants::kPayload && payload_.size() > 0) {
    rest = header_.payload_bytes - payload_got_;
    const std::span<std::byte> room = PayloadRoom();
    direct = std::min(room.size(), kReadPiece);
    into[pieces++] = {room.data(), direct};
  }
  if (direct == rest) into[pieces++] = {staging_.data() + end_, staging_.size() - end_};  // else more payload would come here, and be copied
  std::vector<Fd> descriptors;
  const Moved moved = stream_->Read(socket_.native_handle(), std::span(into).first(pieces), descriptors);
  for (Fd& fd : descriptors) descriptors_.push_back(std::move(fd));
  if (moved.error == 0 && moved.bytes == 0) {
    WaitToRead();
    return false;
  }
  heard_ = true;
  Status status = moved.error != 0 ? stream_->Explain(moved.error) : Status();
  if (descriptors_.size() > kMaxWaitingDescriptors) status = Status(Code::kData, "descriptors that no frame announced");
  if (status.ok()) {
    const size_t into_payload = std::min(moved.bytes, direct);
    end_ += moved.bytes - into_payload;
    const bool full = end_ == staging_.size();
    if (into_payload > 0) status = WrotePayload(into_payload);
    if (status.ok()) status = Parse();
    if (full && staging_.size() < kStaging) staging_.resize(kStaging);
  }
  if (!status.ok()) Break(status);
  budget -= std::min(budget, moved.bytes);
  if (budget > 0) return true;
  WaitToRead();
  return false;
}

Status FramePipe::Parse() {
  // Once nothing is left but the start of a frame, it moves to the front, so that the rest fits behind.
  while (owner_ != nullptr) {
    const Wants before = wants_;
    const size_t at = begin_;
    switch (wants_) {
      case Wants::kHeader: PENSTOCK_TRY(TakeHeader()); break;
      case Wants::kBody: PENSTOCK_TRY(TakeBody()); break;
      case Wants::kPayload: PENSTOCK_TRY(TakePayload()); break;
    }
    if (wants_ == before && begin_ == at) break;
  }
  if (begin_ > 0 && begin_ < end_) std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return {};
}

Status FramePipe::TakeHeader() {
  if (end_ - begin_ < kFrameHeaderBytes) return {};
  PENSTOCK_ASSIGN(header_, DecodeFrameHeader(Staged().first<kFrameHeaderBytes>(), caps_));
  begin_ += kFrameHeaderBytes;
  body_.clear();
  if (header_.body_bytes > 0) {
    wants_ = Wants::kBody;
  } else if (header_.payload_bytes > 0) {
    return BeginPayload();
  } else {
    return Deliver();
  }
  return {};
}

// A body grows as its bytes come: a header alone makes nobody allocate.
Status FramePipe::TakeBody() {
  const auto piece = Staged().first(std::min<size_t>(end_ - begin_, header_.body_bytes - body_.size()));
  body_.insert(body_.end(), piece.begin(), piece.end());
  begin_ += piece.size();
  if (body_.size() < header_.body_bytes) return {};
  return packed() ? BeginPayload() : Deliver();
}

Status FramePipe::Deliver() {
  wants_ = Wants::kHeader;
  same_body_ = false;
  return owner_->OnFrame(header_, body_, std::move(payload_));
}

bool FramePipe::TakeDripping() {
  const bool dripping = same_body_ && body_.size() < body_before_ + kDrip;
  same_body_ = wants_ == Wants::kBody;
  body_before_ = body_.size();
  return dripping;
}

Fd FramePipe::TakeDescriptor() {
  if (descriptors_.empty()) return Fd();
  Fd fd = std::move(descriptors_.front());
  descriptors_.pop_front();
  return fd;
}

// ---- writing

// The pieces of one writev, from the first byte that was not written.
class FramePipe::Gather {
 public:
  explicit Gather(size_t written) : skip_(written) {}

  void Add(const Outgoing& out) {
    Add(out.head);
    Add(std::as_bytes(std::span(out.frame.body.data(), out.frame.body.size())));
    Add(out.frame.payload.sent());
    if (out.frame.payload.following() == nullptr) return;
    for (const auto piece : out.frame.payload.following()->pieces) Add(piece);
  }
  bool full() const { return count_ == kMaxPieces; }
  bool empty() const { return count_ == 0; }
  std::span<iovec> pieces() { return std::span(pieces_).first(count_); }

 private:
  void Add(std::span<const std::byte> part) {
    const size_t skipped = std::min(skip_, part.size());
    skip_ -= skipped;
    if (skipped < part.size() && !full()) pieces_[count_++] = {const_cast<std::byte*>(part.data()) + skipped, part.size() - skipped};
  }

  size_t skip_;
  std::array<iovec, kMaxPieces> pieces_;
  size_t count_ = 0;
};

namespace {

uint32_t CrcOf(const Extent& payload) {
  uint32_t crc = Crc32c(payload.sent());
  if (payload.following() == nullptr) return crc;
  for (const auto piece : payload.following()->pieces) crc = Crc32c(piece, crc);
  return crc;
}

}  // namespace

uint64_t FramePipe::Queue(OutFrame frame) {
  if (!open_ || leaving_) return 0;
  if (frame.payload.packed()) {
    frame.header.flags |= kPacked;
    frame.body = EncodePackedHead(*frame.payload.packing());
  }
  frame.header.body_bytes = static_cast<uint32_t>(frame.body.size());
  frame.header.payload_bytes = frame.payload.sent_size();
  if (payload_crc_ && frame.payload.size() > 0) {
    frame.header.flags |= kPayloadCrc;
    frame.header.payload_crc = CrcOf(frame.payload);
  }
  const uint64_t behind_header = frame.body.size() + frame.payload.sent_size();
  unsent_ += kFrameHeaderBytes + behind_header;
  if (frame.payload.size() == 0) unsent_control_ += kFrameHeaderBytes + frame.body.size();
  const FrameHeaderBytes head = EncodeFrameHeader(frame.header);
  queue_.push_back({head, std::move(frame)});
  if (flush_due_ || waiting_to_write_) return behind_header;
  flush_due_ = true;
  asio::post(io_.context(), [self = shared_from_this()] {
    self->flush_due_ = false;
    self->Flush();
  });
  return behind_header;
}

void FramePipe::Flush() {
  for (size_t budget = 4 * kTurn; open_ && shaken_ && !queue_.empty();) {
    const uint64_t before = unsent_;
    if (!WriteOnce()) break;
    if (budget <= before - unsent_) break;
    budget -= before - unsent_;
  }
  if (!open_ || !shaken_) return;
  if (!queue_.empty()) {
    WaitToWrite();
  } else if (leaving_) {
    AfterFlush();
  }
}

// One writev of what fits into it. False: the socket takes no more now, or is broken.
bool FramePipe::WriteOnce() {
  Gather gathered(front_written_);
  int beside = -1;
  for (const Outgoing& out : queue_) {
    const bool carries = out.frame.beside != nullptr;
    if (gathered.full() || (carries && !gathered.empty())) break;  // a descriptor goes with the first byte of its frame
    if (carries && front_written_ == 0) beside = out.frame.beside->descriptor();
    gathered.Add(out);
  }
  const Moved moved = stream_->Write(socket_.native_handle(), gathered.pieces(), beside);
  if (moved.error != 0) {
    if (leaving_) {
      Shut();
    } else {
      // The read side may still hold the peer's reason; if it has none, it sees the same break.
      queue_.clear();
      unsent_ = unsent_control_ = 0;
      front_written_ = 0;
      asio::post(io_.context(), [self = shared_from_this(), error = moved.error] {
        if (self->owner_ == nullptr) return;
        self->ReadTurn();
        self->Break(self->stream_->Explain(error));
      });
    }
    return false;
  }
  Advance(moved.bytes);
  return moved.bytes > 0;
}

void FramePipe::Advance(size_t bytes) {
  spoke_ = spoke_ || bytes > 0;
  use_.written += bytes;
  unsent_ -= bytes;
  bytes += front_written_;
  while (!queue_.empty()) {
    const OutFrame& front = queue_.front().frame;
    const size_t whole = queue_.front().bytes();
    if (bytes < whole) break;
    bytes -= whole;
    if (front.payload.size() == 0) unsent_control_ -= whole;
    queue_.pop_front();
  }
  front_written_ = bytes;
}

void FramePipe::WaitToWrite() {
  if (waiting_to_write_) return;
  waiting_to_write_ = true;
  waiting_since_ = std::chrono::steady_clock::now();
  socket_.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this()](std::error_code error) {
    self->use_ = self->use();
    self->waiting_to_write_ = false;
    if (!error && self->open_) self->Flush();
  });
}

LinkUse FramePipe::use() const {
  LinkUse use = use_;
  if (waiting_to_write_) use.blocked += std::chrono::steady_clock::now() - waiting_since_;
  return use;
}

// ---- parting

void FramePipe::Farewell(OutFrame last) {
  owner_ = nullptr;
  if (!open_ || leaving_) return;
  if (shaken_) Queue(std::move(last));
  leaving_ = true;
  payload_.Reset();
  farewell_.After(kFarewell, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Shut();
  });
  WaitToRead();
  if (shaken_) return Flush();
  queue_.clear();
  AfterFlush();  // a refused handshake has said why in an alert
}

// All was said. What the peer still says is read and thrown away until it hangs up: closing with unread bytes would reset the connection, and
// with it what the peer has not read yet.
void FramePipe::AfterFlush() { shutdown(socket_.native_handle(), SHUT_WR); }

void FramePipe::Discard() {
  std::array<iovec, 1> into{{{staging_.data(), staging_.size()}}};
  std::vector<Fd> descriptors;
  for (size_t read = 0; read < kTurn;) {
    const Moved moved = ReadSome(socket_.native_handle(), into, descriptors);
    descriptors.clear();
    if (moved.error != 0) return Shut();
    if (moved.bytes == 0) break;
    read += moved.bytes;
  }
  WaitToRead();
}

}  // namespace penstock
