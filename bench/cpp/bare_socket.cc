// What a loopback socket gives, with nothing around it: one process sends blocks as far as it has credit, the other reads each into the same memory.
//   bench_bare_socket kept|made BYTES COUNT
// kept: blocks are sent from where they lie, one after the other, in as much memory as penstock's dataset has (bench/transport.py). made: each is
// copied first, from anywhere in it, as one that is produced on the way.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

constexpr uint64_t kCreditBytes = 16 << 20;
constexpr uint64_t kKeptBytes = 32 << 20;
constexpr uint64_t kStride = 7919;  // a prime: blocks are taken in no order that helps

void Must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

void SendAll(int socket, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, bytes, 0);
    Must(sent > 0, "send");
    data += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void ReceiveAll(int socket, char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(socket, data, bytes, 0);
    Must(got > 0, "recv");
    data += got;
    bytes -= static_cast<size_t>(got);
  }
}

void SendBlocks(int socket, uint64_t bytes, uint64_t count, bool made) {
  const uint64_t rows = std::max<uint64_t>(kKeptBytes / bytes, 1);
  const std::vector<char> kept(rows * bytes, 1);
  std::vector<char> copy(bytes);
  uint64_t credit = std::max<uint64_t>(kCreditBytes / bytes, 2);
  for (uint64_t block = 0; block < count; ++block) {
    const char* row = kept.data() + block * (made ? kStride : 1) % rows * bytes;
    if (made) std::memcpy(copy.data(), row, bytes);
    char returned = 0;
    if (credit == 0) {
      ReceiveAll(socket, &returned, 1);
      ++credit;
    }
    SendAll(socket, made ? copy.data() : row, bytes);
    --credit;
  }
}

double ReceiveBlocks(int socket, uint64_t bytes, uint64_t count) {
  std::vector<char> block(bytes);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < count; ++i) {
    ReceiveAll(socket, block.data(), bytes);
    const char returned = 1;
    SendAll(socket, &returned, 1);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int count, char** arguments) {
  Must(count == 4, "bench_bare_socket kept|made BYTES COUNT");
  const bool made = std::string_view(arguments[1]) == "made";
  const uint64_t bytes = std::strtoull(arguments[2], nullptr, 10);
  const uint64_t blocks = std::strtoull(arguments[3], nullptr, 10);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  Must(bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(listener, 1) == 0, "listen");
  Must(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0, "getsockname");
  const int one = 1;
  const pid_t child = fork();
  if (child == 0) {
    const int out = accept(listener, nullptr, nullptr);
    setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    SendBlocks(out, bytes, blocks, made);
    char rest = 0;
    while (recv(out, &rest, 1, 0) > 0) {
    }
    _exit(0);
  }
  const int in = socket(AF_INET, SOCK_STREAM, 0);
  Must(connect(in, reinterpret_cast<sockaddr*>(&address), length) == 0, "connect");
  setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const double seconds = ReceiveBlocks(in, bytes, blocks);
  shutdown(in, SHUT_WR);
  waitpid(child, nullptr, 0);
  std::printf("{\"elements\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(blocks), seconds);
}
