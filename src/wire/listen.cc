#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "wire/asio.h"
#include "wire/codec.h"
#include "wire/frame_pipe.h"
#include "wire/hello.h"
#include "wire/net.h"
#include "wire/refusal_log.h"
#include "wire/same_host.h"
#include "wire/session_impl.h"
#include "wire/tls.h"

namespace penstock {
namespace {

// What every accepted connection needs to know.
struct Service {
  IoThread& io;
  const ListenParams params;
  SessionHandler& handler;
  const Accepted accepted;
  const std::shared_ptr<PeerBook> peers;
  const std::shared_ptr<RefusalLog> refusals;

  // TLS is for peers that come over a network; with a token, who shows it needs no certificate.
  std::unique_ptr<ByteStream> StreamFor(bool local_socket) const {
    return local_socket || params.tls == nullptr ? PlainStream() : params.tls->Server(params.token.empty());
  }
};

// Tells a peer that was not let in, if it can be told at once. (One that speaks TLS cannot: a word in plain would tell it something else.)
void TurnAway(int fd, const std::string& why) {
  const std::string body = EncodeMessage(msg::Failed{Status(Code::kBusy, why + ": try again later")});
  FrameHeader header{.type = FrameType::kGoodbye};
  header.body_bytes = static_cast<uint32_t>(body.size());
  const FrameHeaderBytes head = EncodeFrameHeader(header);
  std::array<iovec, 2> pieces{{{const_cast<std::byte*>(head.data()), head.size()}, {const_cast<char*>(body.data()), body.size()}}};
  (void)WriteSome(fd, pieces);
}

// A peer that has not said hello yet. Lives until it has, or its time is over.
class Newcomer final : public std::enable_shared_from_this<Newcomer>, private FramePipe::Owner, private IoResident {
 public:
  Newcomer(std::shared_ptr<const Service> service, Fd fd, std::shared_ptr<PeerBook::Place> place)
      : service_(std::move(service)),
        place_(std::move(place)),
        peer_(PeerText(fd.get())),
        host_(PeerHost(fd.get())),
        may_share_(PeerUid(fd.get()) == std::optional(geteuid())),
        local_(IsLocalPeer(fd.get())),
        over_unix_(PeerUid(fd.get()).has_value()),
        pipe_(std::make_shared<FramePipe>(service_->io, std::move(fd), !local_ && service_->params.tls == nullptr, service_->StreamFor(over_unix_))),
        timer_(std::make_unique<Timer>(service_->io)) {}

  void Begin() {
    self_ = shared_from_this();
    service_->io.Add(*this);
    timer_->After(service_->params.pace.hello_within, [this] { Refuse(Status(Code::kDeadline, "no hello came in time"), FrameType::kGoodbye); });
    pipe_->Start(*this);
  }

 private:
  Result<Extent> OnPayloadComing(const FrameHeader&, uint64_t) override { return Status(Code::kInvalid, "a block before hello"); }

  Status OnFrame(const FrameHeader& header, std::span<const std::byte> body, Extent) override {
    if (header.type != FrameType::kControl) return Status(Code::kInvalid, "something else than a hello came first");
    PENSTOCK_ASSIGN(Message message, DecodeMessage(body));
    auto* hello = std::get_if<msg::Hello>(&message);
    if (hello == nullptr) return Status(Code::kInvalid, std::string(MessageName(message)) + " came before hello");
    const bool lacks_tls = service_->params.tls != nullptr && !over_unix_ && !pipe_->secure();
    HelloAnswer answer = AnswerHello(service_->params, *hello, {.may_share = may_share_, .lacks_tls = lacks_tls});
    if (!answer.reply.error.ok()) {
      Refuse(answer.reply.error, FrameType::kControl);
      return {};
    }
    hello->token.clear();  // it was checked, and nothing else has use for it
    pipe_->Queue({{.type = FrameType::kControl}, EncodeMessage(answer.reply), {}, nullptr});
    Admit(std::move(*hello), std::move(answer.reply), std::move(answer.claims));
    return {};
  }

  void Admit(msg::Hello hello, msg::HelloReply reply, TokenClaims claims) {
    place_->Admitted();
    const Reach reach = Reached(hello);
    SessionFacts facts{.peer = hello.name + " (" + peer_ + ")",
                       .hello = std::move(hello),
                       .reply = {},
                       .pace = service_->params.pace,
                       .lends = nullptr,
                       .borrows = false,
                       .only_job = claims.job,
                       .may_serve = claims == TokenClaims{},
                       .reach = reach,
                       .place = place_};
    if (reply.shm) facts.lends = service_->params.segments;
    facts.reply = std::move(reply);
    const auto session = std::make_shared<SessionImpl>(service_->io, pipe_, service_->handler, std::move(facts));
    const auto self = LetGo();
    session->Begin();
    service_->accepted(session);
  }

  // A peer in another network namespace of this host is on a network.
  Reach Reached(const msg::Hello& hello) const {
    if (over_unix_) return Reach::kUnixSocket;
    return local_ || SameHost({hello.boot_id, hello.netns}) ? Reach::kSameHost : Reach::kNetwork;
  }

  void OnBroken(const Status& why) override {
    if (why.code() != Code::kUnavailable) return Refuse(why, FrameType::kGoodbye);
    pipe_->Shut();
    LetGo();
  }

  // Tells the peer why, and forgets it. Whoever said a hello gets a reply to it.
  void Refuse(const Status& why, FrameType as) {
    service_->refusals->Say(pipe_->shaken() ? "hello.refused" : "handshake.refused", host_, peer_, why);
    const Message message =
        as == FrameType::kControl ? Message(msg::HelloReply{.version = 0, .cluster = {}, .term = {}, .shm = false, .error = why}) : msg::Failed{why};
    pipe_->Farewell({{.type = as}, EncodeMessage(message), {}, nullptr});
    LetGo();
  }

  void OnIoStop() override {
    pipe_->OnIoStop();
    LetGo();
  }

  std::shared_ptr<Newcomer> LetGo() {
    service_->io.Remove(*this);
    timer_.reset();
    pipe_.reset();
    return std::exchange(self_, nullptr);
  }

  const std::shared_ptr<const Service> service_;
  const std::shared_ptr<PeerBook::Place> place_;
  const std::string peer_;
  const std::string host_;
  const bool may_share_;
  const bool local_;
  const bool over_unix_;
  std::shared_ptr<FramePipe> pipe_;
  std::unique_ptr<Timer> timer_;
  std::shared_ptr<Newcomer> self_;
};

class Acceptor final : public std::enable_shared_from_this<Acceptor>, private IoResident {
 public:
  Acceptor(std::shared_ptr<const Service> service, Fd fd)
      : service_(std::move(service)), socket_(service_->io.context(), fd.release()), pause_(std::make_unique<Timer>(service_->io)) {}

  void Begin() {
    service_->io.Add(*this);
    Wait();
  }
  void Close() {
    service_->io.Remove(*this);
    OnIoStop();
  }

 private:
  void OnIoStop() override {
    pause_.reset();
    socket_.close();
    service_->refusals->Close();
  }

  void Wait() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](std::error_code error) {
      if (!error && self->socket_.is_open()) self->AcceptAll();
    });
  }

  void AcceptAll() {
    for (;;) {
      Connecting peer = AcceptOn(socket_.native_handle());
      if (IsShortage(peer.error)) return pause_->After(kShortagePause, [this] { Wait(); });
      if (peer.error == EAGAIN) return Wait();
      if (peer.error != 0) continue;  // a peer that hung up while it waited
      std::string why;
      auto place = service_->peers->Enter(PeerHost(peer.fd.get()), Clock::System().Now(), why);
      if (place == nullptr) {
        service_->refusals->Say("connection.refused", PeerHost(peer.fd.get()), PeerText(peer.fd.get()), Status(Code::kBusy, why));
        if (service_->params.tls == nullptr) TurnAway(peer.fd.get(), why);
        continue;
      }
      SetNoDelay(peer.fd.get());
      std::make_shared<Newcomer>(service_, std::move(peer.fd), std::move(place))->Begin();
    }
  }

  const std::shared_ptr<const Service> service_;
  asio::posix::stream_descriptor socket_;
  std::unique_ptr<Timer> pause_;
};

class ListenerImpl final : public Listener {
 public:
  ListenerImpl(IoThread& io, Address address, std::shared_ptr<Acceptor> acceptor)
      : io_(io), address_(std::move(address)), text_(ToString(address_)), acceptor_(std::move(acceptor)) {}
  ~ListenerImpl() override {
    const auto* local = std::get_if<UnixAddress>(&address_);
    if (local != nullptr && !local->abstract) unlink(local->path.c_str());
    io_.Post([acceptor = std::move(acceptor_)] { acceptor->Close(); });
  }
  const std::string& address() const override { return text_; }

 private:
  IoThread& io_;
  const Address address_;
  const std::string text_;
  std::shared_ptr<Acceptor> acceptor_;
};

}  // namespace

Result<std::unique_ptr<Listener>> Listen(IoThread& io, ListenParams params, SessionHandler& handler, Accepted accepted) {
  PENSTOCK_ASSIGN(const Address address, ParseAddress(params.address));
  PENSTOCK_ASSIGN(Bound bound, ListenOn(address));
  const auto peers = std::make_shared<PeerBook>(params.limits);
  const std::shared_ptr<const Service> service(
      new Service{io, std::move(params), handler, std::move(accepted), peers, std::make_shared<RefusalLog>(io)});
  auto acceptor = std::make_shared<Acceptor>(service, std::move(bound.fd));
  io.Post([acceptor] { acceptor->Begin(); });
  return std::unique_ptr<Listener>(std::make_unique<ListenerImpl>(io, std::move(bound.address), std::move(acceptor)));
}

}  // namespace penstock
