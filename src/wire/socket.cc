#include "wire/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <system_error>

namespace penstock {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kMaxDescriptors = 16;  // beside one read

struct UnixSockaddr {
  sockaddr_un address{};
  socklen_t length = 0;
};

UnixSockaddr ToSockaddr(const UnixAddress& address) {
  UnixSockaddr out;
  out.address.sun_family = AF_UNIX;
  // An abstract name begins with a zero byte and has no end mark.
  std::memcpy(out.address.sun_path + (address.abstract ? 1 : 0), address.path.data(), address.path.size());
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.path.size() + 1);
  return out;
}

Status CannotListen(const Address& address, int error) {
  const std::string what = "cannot listen on " + ToString(address) + ": " + ErrorText(error);
  switch (error) {
    // Worth trying again: it may be the one before this, which ends.
    case EADDRINUSE: return Status(Code::kBusy, what + "; another process listens there: wait for it to end, or choose another port, or 0 for any");
    case EADDRNOTAVAIL:
      return Status(Code::kInvalid,
                    what + "; it is no address of this machine: listen on one of its own, on 0.0.0.0 for all of them, or on 127.0.0.1");
    case EACCES: return Status(Code::kPermission, what + "; choose a port from 1024, or a path that this user may write to");
    default: return Status(Code::kUnavailable, what);
  }
}

Result<Fd> BindAndListen(const Address& address, int family, const sockaddr* name, socklen_t length) {
  Fd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return CannotListen(address, errno);
  const int on = 1;
  if (family != AF_UNIX) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), name, length) != 0 || listen(fd.get(), kBacklog) != 0) return CannotListen(address, errno);
  return fd;
}

Result<Bound> ListenTcp(const Address& address, const TcpAddress& tcp) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(tcp.port);
  const char* host = tcp.host.empty() ? "0.0.0.0" : tcp.host.c_str();
  if (const int error = getaddrinfo(host, port.c_str(), &hints, &found); error != 0) {
    return Status(Code::kInvalid, "cannot listen on " + ToString(address) + ": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(found, freeaddrinfo);
  PENSTOCK_ASSIGN(Fd fd, BindAndListen(address, found->ai_family, found->ai_addr, found->ai_addrlen));
  sockaddr_in6 name{};  // the port lies at the same place in both families
  socklen_t length = sizeof name;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &length);
  return Bound{std::move(fd), TcpAddress{host, ntohs(name.sin6_port)}};
}

Result<Bound> ListenUnix(const Address& address, const UnixAddress& local) {
  const UnixSockaddr name = ToSockaddr(local);
  const auto* raw = reinterpret_cast<const sockaddr*>(&name.address);
  auto fd = BindAndListen(address, AF_UNIX, raw, name.length);
  if (!fd.ok() && fd.status().code() == Code::kBusy && !local.abstract) {
    // A socket file outlives its process: it is in use only if somebody answers.
    const Connecting probe = StartConnect(local);
    if (probe.error == ECONNREFUSED && unlink(local.path.c_str()) == 0) fd = BindAndListen(address, AF_UNIX, raw, name.length);
  }
  if (!fd.ok()) return fd.status();
  return Bound{std::move(*fd), address};
}

void TakeDescriptors(msghdr& message, std::vector<Fd>& out) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

std::string ErrorText(int error) { return std::generic_category().message(error); }

Result<Bound> ListenOn(const Address& address) {
  if (const auto* local = std::get_if<UnixAddress>(&address)) return ListenUnix(address, *local);
  return ListenTcp(address, std::get<TcpAddress>(address));
}

Connecting AcceptOn(int listener) {
  Connecting out{Fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)), 0};
  if (!out.fd) out.error = errno;
  return out;
}

bool IsShortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

Connecting StartConnect(const sockaddr* address, socklen_t length) {
  Connecting out{Fd(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), 0};
  if (!out.fd || connect(out.fd.get(), address, length) != 0) out.error = errno;
  return out;
}

Connecting StartConnect(const UnixAddress& address) {
  const UnixSockaddr name = ToSockaddr(address);
  return StartConnect(reinterpret_cast<const sockaddr*>(&name.address), name.length);
}

int ConnectError(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool IsLocalPeer(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
  if (peer.ss_family == AF_UNIX) return true;
  if (peer.ss_family == AF_INET) return (ntohl(reinterpret_cast<sockaddr_in&>(peer).sin_addr.s_addr) >> 24) == 127;
  if (peer.ss_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<sockaddr_in6&>(peer).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

std::string PeerText(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return "a peer that is gone";
  if (peer.ss_family == AF_UNIX) {
    ucred who{};
    socklen_t size = sizeof who;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    return "pid " + std::to_string(who.pid) + " on this host";
  }
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  getnameinfo(reinterpret_cast<sockaddr*>(&peer), length, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  return peer.ss_family == AF_INET6 ? "[" + std::string(host.data()) + "]:" + port.data() : std::string(host.data()) + ":" + port.data();
}

std::string PeerHost(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0 || peer.ss_family == AF_UNIX) return {};
  std::array<char, NI_MAXHOST> host{};
  getnameinfo(reinterpret_cast<sockaddr*>(&peer), length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return host.data();
}

std::optional<uid_t> PeerUid(int fd) {
  ucred who{};
  socklen_t length = sizeof who;
  sockaddr_storage peer{};
  socklen_t peer_length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 || peer.ss_family != AF_UNIX) return std::nullopt;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return std::nullopt;
  return who.uid;
}

Moved ReadSome(int fd, std::span<iovec> into, std::vector<Fd>& descriptors) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = into.data();
  message.msg_iovlen = into.size();
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Moved{} : Moved{0, errno};
  TakeDescriptors(message, descriptors);
  return got == 0 ? Moved{0, EPIPE} : Moved{static_cast<size_t>(got), 0};
}

Moved WriteSome(int fd, std::span<iovec> from, int descriptor_beside) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = from.data();
  message.msg_iovlen = from.size();
  if (descriptor_beside >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor_beside, sizeof(int));
  }
  ssize_t put = 0;
  do {
    put = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (put < 0 && errno == EINTR);
  if (put < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Moved{} : Moved{0, errno};
  return Moved{static_cast<size_t>(put), 0};
}

}  // namespace penstock
