#include "wire/http.h"

#include <sys/socket.h>

#include <array>
#include <deque>
#include <utility>

#include "base/constants.h"
#include "wire/address.h"
#include "wire/asio.h"
#include "wire/io_thread.h"
#include "wire/socket.h"

namespace penstock {
namespace {

constexpr size_t kMaxRequest = 8 * kKiB;
constexpr size_t kMaxConnections = 64;
constexpr size_t kAcceptedATurn = 16;

std::string_view Reason(int code) {
  switch (code) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

// A HEAD is told how long the body would be.
std::string Render(const HttpResponse& response, bool with_body) {
  return "HTTP/1.1 " + std::to_string(response.code) + " " + std::string(Reason(response.code)) + "\r\nContent-Type: " + response.type +
         "\r\nContent-Length: " + std::to_string(response.body.size()) + "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n" +
         (with_body ? response.body : "");
}

constexpr std::string_view kHead = "HEAD";

HttpResponse Answer(const HttpHandler& handler, std::string_view request) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const size_t space = line.find(' ');
  const size_t end = line.rfind(" HTTP/1.");
  if (space == std::string_view::npos || end == std::string_view::npos || end <= space) return {400, "not an HTTP/1 request\n"};
  if (line.substr(0, space) != "GET" && line.substr(0, space) != kHead) return {405, "only GET and HEAD are answered here\n"};
  const std::string_view target = line.substr(space + 1, end - space - 1);
  return handler(std::string(target.substr(0, target.find('?'))));
}

class Server;

class Connection final : public std::enable_shared_from_this<Connection>, private IoResident {
 public:
  Connection(Server& server, IoThread& io, Fd fd);
  ~Connection() override;

  void Begin() {
    io_.Add(*this);
    timer_->After(kHelloWithin, [self = weak_from_this()] {
      if (const auto alive = self.lock()) alive->Close();
    });
    WaitToRead();
  }
  void Close() {
    if (!socket_.is_open()) return;
    io_.Remove(*this);
    OnIoStop();
  }

 private:
  void OnIoStop() override {
    timer_.reset();
    socket_.close();
  }

  void WaitToRead() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](std::error_code error) {
      if (!error && self->socket_.is_open()) self->Read();
    });
  }

  void Read() {
    std::array<char, 2048> piece{};
    const ssize_t got = recv(socket_.native_handle(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return WaitToRead();
    if (got <= 0) return Close();
    request_.append(piece.data(), static_cast<size_t>(got));
    if (request_.find("\r\n\r\n") != std::string::npos) return Respond();
    if (request_.size() > kMaxRequest) return Close();
    WaitToRead();
  }

  void Respond();

  void Write() {
    const ssize_t put = send(socket_.native_handle(), response_.data() + written_, response_.size() - written_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return Close();
    if (put > 0) written_ += static_cast<size_t>(put);
    if (written_ == response_.size()) return Close();
    socket_.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this()](std::error_code error) {
      if (!error && self->socket_.is_open()) self->Write();
    });
  }

  Server& server_;
  IoThread& io_;
  asio::posix::stream_descriptor socket_;
  std::unique_ptr<Timer> timer_;
  std::string request_;
  std::string response_;
  size_t written_ = 0;
};

class Server final : public HttpServer, private IoResident {
 public:
  Server(Bound bound, HttpHandler answers)
      : handler(std::move(answers)), address_(ToString(bound.address)), io_("penstock-http"), socket_(io_.context(), bound.fd.release()) {
    io_.Post([this] {
      io_.Add(*this);
      Wait();
    });
  }
  ~Server() override { io_.Stop(); }
  const std::string& address() const override { return address_; }

  const HttpHandler handler;
  size_t connections = 0;

 private:
  void OnIoStop() override {
    pause_.reset();
    socket_.close();
  }

  void Wait() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (!error && socket_.is_open()) AcceptSome();
    });
  }

  // A few at a time, so that they are read in between.
  void AcceptSome() {
    for (size_t taken = 0; taken < kAcceptedATurn; ++taken) {
      Connecting peer = AcceptOn(socket_.native_handle());
      if (IsShortage(peer.error)) return pause_->After(kShortagePause, [this] { Wait(); });
      if (peer.error != 0) return Wait();
      if (connections >= kMaxConnections) CloseOldest();
      const auto connection = std::make_shared<Connection>(*this, io_, std::move(peer.fd));
      connection->Begin();
      oldest_first_.push_back(connection);
      while (oldest_first_.front().expired()) oldest_first_.pop_front();
    }
    Wait();
  }

  // Who comes next may be a probe, by whose answer this process lives or dies; who has waited longest has most likely nothing to ask.
  void CloseOldest();

  const std::string address_;
  IoThread io_;
  asio::posix::stream_descriptor socket_;
  std::unique_ptr<Timer> pause_ = std::make_unique<Timer>(io_);
  std::deque<std::weak_ptr<Connection>> oldest_first_;  // some are gone
};

Connection::Connection(Server& server, IoThread& io, Fd fd)
    : server_(server), io_(io), socket_(io.context(), fd.release()), timer_(std::make_unique<Timer>(io)) {
  ++server_.connections;
}
Connection::~Connection() {
  if (socket_.is_open()) io_.Remove(*this);
  --server_.connections;
}

void Server::CloseOldest() {
  std::shared_ptr<Connection> oldest;
  while (oldest == nullptr && !oldest_first_.empty()) {
    oldest = oldest_first_.front().lock();
    oldest_first_.pop_front();
  }
  if (oldest != nullptr) oldest->Close();
}

void Connection::Respond() {
  response_ = Render(Answer(server_.handler, request_), !request_.starts_with(std::string(kHead) + " "));
  Write();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, HttpHandler handler) {
  PENSTOCK_ASSIGN(const Address parsed, ParseAddress(address));
  if (!std::holds_alternative<TcpAddress>(parsed)) return Status(Code::kInvalid, "--http takes HOST:PORT or :PORT; it is " + address);
  PENSTOCK_ASSIGN(Bound bound, ListenOn(parsed));
  return std::unique_ptr<HttpServer>(std::make_unique<Server>(std::move(bound), std::move(handler)));
}

}  // namespace penstock
