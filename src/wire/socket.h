// Sockets as the rest of wire uses them: descriptors that close themselves, reads and writes that never block and carry descriptors.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/status.h"
#include "wire/address.h"

namespace penstock {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

std::string ErrorText(int error);  // strerror, thread-safe

struct Bound {
  Fd fd;
  Address address;  // with the port that was got
};
Result<Bound> ListenOn(const Address& address);
// A descriptor, or why not (yet): EINPROGRESS, EAGAIN, or what is wrong.
struct Connecting {
  Fd fd;
  int error = 0;
};
Connecting AcceptOn(int listener);
// An error of accept that leaves the peer in line, so that the listener stays readable: without a pause one would do nothing but try.
bool IsShortage(int error);
inline constexpr std::chrono::milliseconds kShortagePause{100};
Connecting StartConnect(const sockaddr* address, socklen_t length);
Connecting StartConnect(const UnixAddress& address);
int ConnectError(int fd);  // after it became writable

void SetNoDelay(int fd);               // TCP only; others do not mind
bool IsLocalPeer(int fd);              // loopback or Unix socket: nothing is damaged on the way
std::string PeerText(int fd);          // for logs
std::string PeerHost(int fd);          // the address without its port; "" of a Unix socket
std::optional<uid_t> PeerUid(int fd);  // of a Unix socket

// Bytes moved; 0: would block. The error otherwise: ECONNRESET and the like; a read's end of file is EPIPE.
struct Moved {
  size_t bytes = 0;
  int error = 0;
};
// `descriptors` gets what came beside the bytes.
Moved ReadSome(int fd, std::span<iovec> into, std::vector<Fd>& descriptors);
Moved WriteSome(int fd, std::span<iovec> from, int descriptor_beside = -1);

}  // namespace penstock
