// Frames over one socket: a read loop that takes them apart, a queue that goes out with one writev a turn (engine.md 5).
//
// On the I/O thread. Internal to wire: sessions give it its meaning.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/extent.h"
#include "penstock/status.h"
#include "wire/asio.h"
#include "wire/fork_marks.h"
#include "wire/frame.h"
#include "wire/io_thread.h"
#include "wire/link_use.h"
#include "wire/packing.h"
#include "wire/segments.h"
#include "wire/socket.h"
#include "wire/stream.h"

namespace penstock {

struct OutFrame {
  FrameHeader header;  // lengths and crcs are filled in
  std::string body;
  Extent payload;
  std::shared_ptr<Segment> beside;  // its descriptor goes with the frame
};

class FramePipe final : public std::enable_shared_from_this<FramePipe>, private IoResident {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Memory for a payload of so many bytes once it is unpacked, at least as large; or an empty extent, and it is read over. An error ends the pipe.
    virtual Result<Extent> OnPayloadComing(const FrameHeader& header, uint64_t bytes) = 0;
    // Without a payload where that was read over. An error ends the pipe: OnBroken follows.
    virtual Status OnFrame(const FrameHeader& header, std::span<const std::byte> body, Extent payload) = 0;
    // The last call. Nothing more comes or goes, but the pipe still takes a Farewell.
    virtual void OnBroken(const Status& why) = 0;
  };

  FramePipe(IoThread& io, Fd fd, bool payload_crc, std::unique_ptr<ByteStream> stream = PlainStream());
  ~FramePipe() override;

  void Start(Owner& owner);  // begins to read, with the caps that hold before hello
  // After hello: the next frame is the new owner's. Also from inside OnFrame.
  void HandOver(Owner& owner);
  // Goes out at the end of this turn of the loop, with whatever else was queued. How long it is behind its header.
  uint64_t Queue(OutFrame frame);
  uint64_t unsent_bytes() const { return unsent_; }
  // The rest of a payload of this stream that is half here is read over, and its memory let go of.
  void SkipPayload(uint32_t stream);
  LinkUse use() const;
  uint64_t unsent_control() const { return unsent_control_; }  // of it, what is no block
  bool secure() const { return stream_->secure(); }            // under TLS; known once a frame came
  bool shaken() const { return shaken_; }                      // past the TLS handshake, where there is one
  // The next descriptor that came beside the frames so far.
  Fd TakeDescriptor();
  // True once for each stretch in which something was read (written): how a session knows silence.
  bool TakeHeard() { return std::exchange(heard_, false); }
  bool TakeSpoke() { return std::exchange(spoke_, false); }
  // True where the message that comes in now was coming in when last asked, and little of it came since: how a session knows one that drips.
  bool TakeDripping();

  // Leaves its owner. Sends what is queued and `last`, for a moment: a peer that is told why it is closed should also get to read it.
  void Farewell(OutFrame last);
  // Leaves its owner and closes.
  void Shut();
  // The I/O thread ends: writes what goes out without waiting, and closes.
  void OnIoStop() override;

 private:
  struct Outgoing {
    FrameHeaderBytes head;
    OutFrame frame;
    size_t bytes() const { return kFrameHeaderBytes + frame.body.size() + frame.payload.sent_size(); }
  };

  void Shake();
  void WaitToRead();
  void ReadTurn();
  bool ReadOnce(size_t& budget);
  Status Parse();
  Status TakeHeader();
  Status TakeBody();
  Status BeginPayload();
  std::span<std::byte> PayloadRoom();
  Status WrotePayload(size_t bytes);
  Status TakePayload();
  bool packed() const { return (header_.flags & kPacked) != 0; }
  Status Deliver();
  std::span<const std::byte> Staged() const { return std::span(staging_).subspan(begin_, end_ - begin_); }
  void Break(const Status& why);
  void Discard();

  void Flush();
  bool WriteOnce();
  class Gather;
  void Advance(size_t bytes);
  void WaitToWrite();
  void AfterFlush();

  IoThread& io_;
  asio::posix::stream_descriptor socket_;
  std::optional<ForkMark> mark_;
  const std::unique_ptr<ByteStream> stream_;
  bool shaken_ = false;  // the stream is set up: frames may come and go
  Timer farewell_;
  Owner* owner_ = nullptr;
  const bool payload_crc_;
  FrameCaps caps_ = kCapsBeforeHello;
  bool open_ = true;
  bool leaving_ = false;

  // Reading: a header, then its body, then its payload.
  enum class Wants : uint8_t { kHeader, kBody, kPayload };
  Wants wants_ = Wants::kHeader;
  std::vector<std::byte> staging_;
  size_t begin_ = 0;
  size_t end_ = 0;
  FrameHeader header_;
  std::vector<std::byte> body_;
  Extent payload_;
  uint64_t payload_got_ = 0;            // as it travels
  std::unique_ptr<Unpacker> unpacker_;  // from the first packed payload on
  std::deque<Fd> descriptors_;
  bool waiting_to_read_ = false;
  bool heard_ = false;
  bool same_body_ = false;
  size_t body_before_ = 0;  // of it, when last asked

  // Writing.
  std::deque<Outgoing> queue_;
  size_t front_written_ = 0;
  uint64_t unsent_ = 0;
  uint64_t unsent_control_ = 0;
  bool flush_due_ = false;
  bool waiting_to_write_ = false;
  LinkUse use_;
  std::chrono::steady_clock::time_point waiting_since_{};
  bool spoke_ = false;
};

}  // namespace penstock
