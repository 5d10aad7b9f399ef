#include "wire/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>

#include "wire/address.h"
#include "wire/socket.h"

namespace penstock {
namespace {

using testing::HasSubstr;

// Has its descriptor from the beginning.
class Peer {
 public:
  Peer() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {}

  void Ask(const std::string& address) {
    const auto parsed = ParseAddress(address);
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(std::get<TcpAddress>(*parsed).port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    ASSERT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const std::string question = "GET /healthz HTTP/1.1\r\n\r\n";
    ASSERT_EQ(send(fd_.get(), question.data(), question.size(), 0), static_cast<ssize_t>(question.size()));
  }
  // "" where nothing came in that time.
  std::string AnswerWithin(std::chrono::milliseconds wait) const {
    const timeval time{.tv_sec = wait.count() / 1000, .tv_usec = wait.count() % 1000 * 1000};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    std::string text(4096, '\0');
    const ssize_t got = recv(fd_.get(), text.data(), text.size(), 0);
    return text.substr(0, got < 0 ? 0 : static_cast<size_t>(got));
  }

 private:
  Fd fd_;
};

// While one lives, no more descriptors can be had.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;
  NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

 private:
  rlimit before_{};
};

std::chrono::microseconds CpuOfThisProcess() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) { return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec); };
  return of(used.ru_utime) + of(used.ru_stime);
}

TEST(HttpServer, AnswersWhatItsHandlerSays) {
  const auto server = HttpServer::Start("127.0.0.1:0", [](const std::string& path) { return HttpResponse{200, "for " + path}; });
  ASSERT_TRUE(server.ok()) << server.status();
  Peer peer;
  peer.Ask((*server)->address());
  EXPECT_THAT(peer.AnswerWithin(std::chrono::seconds(10)), HasSubstr("for /healthz"));
}

TEST(HttpServer, WithoutDescriptorsItWaitsUntilThereAreAndNotInALoop) {
  const auto server = HttpServer::Start("127.0.0.1:0", [](const std::string&) { return HttpResponse{200, "fine"}; });
  ASSERT_TRUE(server.ok()) << server.status();
  Peer peer;
  {
    const NoMoreDescriptors none;
    peer.Ask((*server)->address());
    const auto before = CpuOfThisProcess();
    EXPECT_EQ(peer.AnswerWithin(std::chrono::milliseconds(500)), "");
    EXPECT_LT(CpuOfThisProcess() - before, std::chrono::milliseconds(50));
  }
  EXPECT_THAT(peer.AnswerWithin(std::chrono::seconds(10)), HasSubstr("fine"));
}

}  // namespace
}  // namespace penstock
