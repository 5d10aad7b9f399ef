#include <unistd.h>

#include <cerrno>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "wire/asio.h"
#include "wire/codec.h"
#include "wire/fork_marks.h"
#include "wire/frame_pipe.h"
#include "wire/hello.h"
#include "wire/net.h"
#include "wire/session_impl.h"
#include "wire/tls.h"

namespace penstock {
namespace {

using Tcp = asio::ip::tcp;

// One way to a session: resolve, connect, hello. Lives until `done` was called.
class Attempt final : public std::enable_shared_from_this<Attempt>, private FramePipe::Owner, private IoResident {
 public:
  Attempt(IoThread& io, std::string address, ConnectParams params, SessionHandler& handler, Connected done)
      : io_(io),
        address_(std::move(address)),
        params_(std::move(params)),
        handler_(handler),
        done_(std::move(done)),
        parts_(std::make_unique<Parts>(io)) {}

  void Begin() {
    self_ = shared_from_this();
    io_.Add(*this);
    parts_->timer.After(params_.timeout, [this] { OnTimeout(); });
    const auto address = ParseAddress(address_);
    if (!address.ok()) return Fail(address.status());
    if (const auto* local = std::get_if<UnixAddress>(&*address)) return ConnectUnix(*local);
    const auto& tcp = std::get<TcpAddress>(*address);
    host_ = tcp.host;
    if (params_.tls != nullptr && !params_.tls->can_check()) {
      return Fail(Status(Code::kInvalid,
                         "nothing says which authority " + address_ + " must have its certificate from: give --tls-ca, or set PENSTOCK_TLS_CA"));
    }
    Resolve(tcp);
  }

 private:
  // What belongs to the I/O thread, and goes with it.
  struct Parts {
    explicit Parts(IoThread& io) : timer(io), resolver(io.context()), socket(io.context()) {}
    Timer timer;
    Tcp::resolver resolver;
    asio::posix::stream_descriptor socket;
    std::optional<ForkMark> mark;  // of the socket
    std::shared_ptr<FramePipe> pipe;
  };

  void Resolve(const TcpAddress& address) {
    std::error_code error;
    const auto numeric = asio::ip::make_address(address.host, error);
    if (!error) {
      endpoints_.emplace_back(numeric, address.port);
      return ConnectNext();
    }
    parts_->resolver.async_resolve(
        address.host, std::to_string(address.port), [self = shared_from_this()](std::error_code failed, const Tcp::resolver::results_type& found) {
          if (self->parts_ == nullptr) return;
          if (failed) return self->Fail(Status(Code::kUnavailable, "cannot find the host of " + self->address_ + ": " + failed.message()));
          for (const auto& entry : found) self->endpoints_.push_back(entry.endpoint());
          self->ConnectNext();
        });
  }

  void ConnectNext() {
    if (next_ == endpoints_.size()) return FailToConnect();
    const Tcp::endpoint& endpoint = endpoints_[next_++];
    Connecting connecting = StartConnect(endpoint.data(), static_cast<socklen_t>(endpoint.size()));
    if (connecting.error == 0) return SayHello(std::move(connecting.fd), false);
    if (connecting.error != EINPROGRESS) {
      last_error_ = connecting.error;
      return ConnectNext();
    }
    parts_->socket.assign(connecting.fd.release());
    parts_->mark.emplace(parts_->socket.native_handle());
    parts_->socket.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this()](std::error_code failed) {
      if (!failed && self->parts_ != nullptr) self->OnWritable();
    });
  }

  void OnWritable() {
    last_error_ = ConnectError(parts_->socket.native_handle());
    parts_->mark.reset();
    Fd fd(parts_->socket.release());
    if (last_error_ != 0) return ConnectNext();
    SetNoDelay(fd.get());
    SayHello(std::move(fd), false);
  }

  void ConnectUnix(const UnixAddress& address) {
    Connecting connecting = StartConnect(address);
    if (connecting.error != 0) {
      last_error_ = connecting.error;
      return FailToConnect();
    }
    // Anybody may take an abstract name: the token goes only to a process of our own user.
    const auto uid = PeerUid(connecting.fd.get());
    if (address.abstract && uid != std::optional(geteuid())) {
      return Fail(Status(Code::kPermission, "the process at " + address_ + " belongs to another user: use its TCP address"));
    }
    SayHello(std::move(connecting.fd), params_.shared_memory && uid == std::optional(geteuid()));
  }

  void SayHello(Fd fd, bool shared_memory) {
    const bool tls = params_.tls != nullptr && !PeerUid(fd.get()).has_value();
    const bool crc = !tls && !IsLocalPeer(fd.get());
    parts_->pipe = std::make_shared<FramePipe>(io_, std::move(fd), crc, tls ? params_.tls->Client(host_) : PlainStream());
    parts_->pipe->Queue({{.type = FrameType::kControl}, EncodeMessage(MakeHello(params_, shared_memory)), {}, nullptr});
    parts_->pipe->Start(*this);
  }

  Result<Extent> OnPayloadComing(const FrameHeader&, uint64_t) override { return Status(Code::kInvalid, "a block before hello"); }

  Status OnFrame(const FrameHeader& header, std::span<const std::byte> body, Extent) override {
    PENSTOCK_ASSIGN(Message message, DecodeMessage(body));
    if (auto* failed = std::get_if<msg::Failed>(&message); failed != nullptr && header.type == FrameType::kGoodbye) {
      Fail(std::move(failed->error).Prefixed(address_));
      return {};
    }
    auto* reply = std::get_if<msg::HelloReply>(&message);
    if (reply == nullptr) return Status(Code::kMismatch, "it answered hello with " + std::string(MessageName(message)));
    if (!reply->error.ok()) {
      Fail(std::move(reply->error).Prefixed(address_));
      return {};
    }
    if (reply->version < params_.min_version || reply->version > params_.max_version) {
      return Status(Code::kMismatch, "it chose version " + std::to_string(reply->version) + " of the protocol, which was not offered");
    }
    Succeed(std::move(*reply));
    return {};
  }

  void OnBroken(const Status& why) override { Fail(Status(why).Prefixed(address_)); }

  void OnTimeout() {
    const std::string limit = std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(params_.timeout).count()) + " ms";
    Fail(Status(Code::kDeadline, parts_->pipe != nullptr ? address_ + ": it took the connection but did not answer hello within " + limit
                                                         : "no connection to " + address_ + " within " + limit));
  }

  void FailToConnect() { Fail(Status(Code::kUnavailable, "nobody can be reached at " + address_ + ": " + ErrorText(last_error_))); }

  void Succeed(msg::HelloReply reply) {
    SessionFacts facts{.peer = address_, .hello = {}, .reply = std::move(reply), .pace = params_.pace, .lends = nullptr, .borrows = false};
    facts.borrows = facts.reply.shm;
    const auto session = std::make_shared<SessionImpl>(io_, parts_->pipe, handler_, std::move(facts));
    const auto self = LetGo();
    session->Begin();
    done_(std::shared_ptr<Session>(session));
  }

  void Fail(Status why) {
    if (parts_->pipe != nullptr) parts_->pipe->Shut();
    const auto self = LetGo();
    done_(std::move(why));
  }

  void OnIoStop() override {
    if (parts_->pipe != nullptr) parts_->pipe->OnIoStop();
    LetGo();
  }

  std::shared_ptr<Attempt> LetGo() {
    io_.Remove(*this);
    parts_.reset();
    return std::exchange(self_, nullptr);
  }

  IoThread& io_;
  const std::string address_;
  std::string host_;  // of a TCP address: what a certificate is checked for
  const ConnectParams params_;
  SessionHandler& handler_;
  const Connected done_;
  std::unique_ptr<Parts> parts_;
  std::vector<Tcp::endpoint> endpoints_;
  size_t next_ = 0;
  int last_error_ = 0;
  std::shared_ptr<Attempt> self_;
};

// Always set: an I/O thread that is stopped drops what it was given.
struct Outcome {
  ~Outcome() {
    if (!set) promise.set_value(Status(Code::kCancelled, "the I/O thread was stopped"));
  }
  void Set(Result<std::shared_ptr<Session>> result) {
    set = true;
    promise.set_value(std::move(result));
  }
  std::promise<Result<std::shared_ptr<Session>>> promise;
  bool set = false;
};

}  // namespace

void Connect(IoThread& io, const std::string& address, ConnectParams params, SessionHandler& handler, Connected done) {
  io.Post([&io, &handler, address, params = std::move(params), done = std::move(done)] {
    std::make_shared<Attempt>(io, address, params, handler, done)->Begin();
  });
}

Result<std::shared_ptr<Session>> ConnectAndWait(IoThread& io, const std::string& address, ConnectParams params, SessionHandler& handler) {
  auto outcome = std::make_shared<Outcome>();
  auto future = outcome->promise.get_future();
  Connect(io, address, std::move(params), handler,
          [outcome = std::exchange(outcome, nullptr)](Result<std::shared_ptr<Session>> result) { outcome->Set(std::move(result)); });
  return future.get();
}

}  // namespace penstock
