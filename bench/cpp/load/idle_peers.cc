// Raw sockets, not sessions: what they cost here must not hide what they cost the server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "load/runs.h"
#include "wire/address.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace penstock::load {
namespace {

constexpr uint32_t kOfOneAddress = 200;  // connections, well below what a server lets one peer have
constexpr uint32_t kNewATurn = 50;
constexpr int kTurnMs = 20;
constexpr uint32_t kTurnsASecond = 1000 / kTurnMs;

std::string Frame(FrameType type, const std::string& body) {
  FrameHeader header{.type = type};
  header.body_bytes = static_cast<uint32_t>(body.size());
  const FrameHeaderBytes head = EncodeFrameHeader(header);
  return std::string(reinterpret_cast<const char*>(head.data()), head.size()) + body;
}

Status Failed(const char* what) { return Status(Code::kUnavailable, std::string(what) + ": " + std::strerror(errno)); }

class Crowd {
 public:
  explicit Crowd(const IdleOptions& options)
      : options_(options),
        hello_(Frame(FrameType::kControl, EncodeMessage(msg::Hello{.min_version = kMinVersion, .max_version = kMaxVersion, .role = "consumer"}))),
        ping_(Frame(FrameType::kPing, {})) {}
  ~Crowd() {
    for (const Peer& peer : peers_) close(peer.fd);
    if (epoll_ >= 0) close(epoll_);
  }

  Status Run() {
    PENSTOCK_ASSIGN(const Address address, ParseAddress(options_.address));
    const auto* tcp = std::get_if<TcpAddress>(&address);
    server_.sin_family = AF_INET;
    if (tcp == nullptr || inet_pton(AF_INET, tcp->host.c_str(), &server_.sin_addr) != 1) {
      return Status(Code::kInvalid, options_.address + " is no IPv4 address and port");
    }
    server_.sin_port = htons(tcp->port);
    epoll_ = epoll_create1(0);
    for (uint32_t turn = 0; !InputEnded(); ++turn) {
      for (uint32_t i = 0; i < kNewATurn && peers_.size() < options_.idle + options_.slow; ++i) PENSTOCK_TRY(Add());
      PENSTOCK_TRY(Speak(turn));
      ReadAll();
    }
    return {};
  }

 private:
  struct Peer {
    int fd = -1;
    bool slow = false;
    size_t said = 0;  // of a slow one's hello
  };

  static bool InputEnded() {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    return poll(&input, 1, 0) > 0;
  }

  Status Add() {
    peers_.push_back({});
    Peer& peer = peers_.back();
    peer.slow = peers_.size() > options_.idle;
    PENSTOCK_TRY(Open(peer, peers_.size() - 1));
    if (peers_.size() == options_.idle + options_.slow) {
      std::printf("{\"connected\": %zu}\n", peers_.size());
      std::fflush(stdout);
    }
    return {};
  }

  // From an address of its own for each few hundred: 127.20.0.1, 127.20.0.2…
  Status Open(Peer& peer, size_t number) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return Failed("no socket");
    peer.fd = fd;
    peer.said = 0;
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl((127U << 24) + (20U << 16) + 1 + static_cast<uint32_t>(number / kOfOneAddress));
    if (bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) return Failed("cannot bind");
    if (connect(fd, reinterpret_cast<const sockaddr*>(&server_), sizeof server_) != 0) return Failed("cannot connect");
    if (!peer.slow && write(fd, hello_.data(), hello_.size()) != static_cast<ssize_t>(hello_.size())) return Failed("cannot say hello");
    epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
    return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0 ? Status() : Failed("epoll");
  }

  // Each peer's turn comes once a second: a ping, or one more byte of a hello that never ends in time.
  Status Speak(uint32_t turn) {
    for (size_t i = turn % kTurnsASecond; i < peers_.size(); i += kTurnsASecond) {
      Peer& peer = peers_[i];
      const char* from = peer.slow ? hello_.data() + peer.said++ % hello_.size() : ping_.data();
      const size_t bytes = peer.slow ? 1 : ping_.size();
      if (send(peer.fd, from, bytes, MSG_NOSIGNAL) < 0 && !peer.slow) {
        return Status(Code::kUnavailable, "the server closed the session of idle peer " + std::to_string(i));
      }
    }
    return {};
  }

  void ReadAll() {
    std::array<epoll_event, 1024> ready;
    const int count = epoll_wait(epoll_, ready.data(), ready.size(), kTurnMs);
    std::array<char, 4096> thrown_away;
    for (int i = 0; i < count; ++i) {
      const size_t number = ready[static_cast<size_t>(i)].data.u64;
      Peer& peer = peers_[number];
      if (recv(peer.fd, thrown_away.data(), thrown_away.size(), MSG_DONTWAIT) > 0 || !peer.slow) continue;
      close(peer.fd);  // it was thrown out, and comes again
      (void)Open(peer, number);
    }
  }

  const IdleOptions options_;
  const std::string hello_;
  const std::string ping_;
  sockaddr_in server_{};
  int epoll_ = -1;
  std::vector<Peer> peers_;
};

}  // namespace

Status RunIdle(const IdleOptions& options) { return Crowd(options).Run(); }

}  // namespace penstock::load
