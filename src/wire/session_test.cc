#include "wire/session.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cstring>

#include "base/crc32c.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/same_host.h"
#include "wire/session_fixture.h"
#include "wire/socket.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

const Pace kFast{.ping_every = 20ms, .silence = 300ms, .hello_within = 300ms};

// The same promises over every kind of socket.
class EverySession : public SessionTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string address() const {
    const std::string kind = GetParam();
    if (kind == "abstract") return MakeSocketName("test");
    if (kind == "unix") return "unix:" + ::testing::TempDir() + "penstock-" + std::to_string(getpid()) + ".sock";
    return kind == "v6" ? "[::1]:0" : "127.0.0.1:0";
  }
};
INSTANTIATE_TEST_SUITE_P(Over, EverySession, ::testing::Values("tcp", "v6", "unix", "abstract"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(EverySession, AnswersRequests) {
  Serve({.address = address(), .cluster = "c1", .term = Term{7}});
  ConnectPair({.role = "cli", .name = "me"});
  EXPECT_EQ(std::get<msg::Registered>(Ask(msg::Register{"hello"}).value()).dataset, "hello");
  EXPECT_EQ(session_->hello_reply().cluster, "c1");
  EXPECT_EQ(session_->hello_reply().term, Term{7});
  EXPECT_EQ(accepted_->peer_hello().role, "cli");
  EXPECT_THAT(accepted_->peer(), HasSubstr("me"));
}

TEST_P(EverySession, CarriesBlocksOfManySizes) {
  Serve({.address = address()});
  ConnectPair();
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{63}, 64 * kKiB - 40, 64 * kKiB, 128 * kKiB + 1, 3 * kMiB}) {
    On(server_io_, [&] {
      Extent block = HeapExtents().Allocate(bytes).value();
      for (size_t i = 0; i < bytes; ++i) block.bytes()[i] = static_cast<std::byte>(i * 31 + bytes);
      accepted_->SendBlock(StreamId{5}, std::move(block), Handover::kLend);
      accepted_->Send(StreamId{5}, msg::LaneEnded{{bytes, 0}, true});
    });
    const Extent block = client_.TakeBlock();
    ASSERT_EQ(block.size(), bytes);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(block.bytes()[i], static_cast<std::byte>(i * 31 + bytes));
  }
  client_.WaitFor([this] { return client_.heard.size() == 6; });
}

// More pieces than one writev takes.
TEST_P(EverySession, CarriesABlockWhosePiecesLieElsewhere) {
  Serve({.address = address()});
  ConnectPair();
  const auto pieces = std::make_shared<std::vector<std::string>>();
  auto following = std::make_shared<Following>();
  std::string wanted(128, 'h');
  for (size_t i = 0; i < 150; ++i) wanted += pieces->emplace_back(i * 37, static_cast<char>('a' + i % 26));
  for (const std::string& piece : *pieces) following->pieces.push_back(std::as_bytes(std::span(piece)));
  following->bytes = wanted.size() - 128;
  following->owner = pieces;
  On(server_io_, [&] {
    Extent block = HeapExtents().Allocate(128).value();
    std::memset(block.bytes().data(), 'h', 128);
    block.Follow(following);
    accepted_->SendBlock(StreamId{5}, std::move(block), Handover::kLend);
  });
  const Extent block = client_.TakeBlock();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(block.bytes().data()), block.size()), wanted);
}

TEST_F(SessionTest, AFailedReplyArrivesAsItsStatus) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  EXPECT_EQ(Ask(msg::Register{"fail"}).status(), Status(Code::kNotFound, "no such thing"));
}

TEST_F(SessionTest, ARequestThatNobodyAnswersEndsAtItsDeadline) {
  server_.echo = false;
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  const auto answer = Ask(msg::Register{"x"}, 20ms);
  EXPECT_EQ(answer.status().code(), Code::kDeadline);
  EXPECT_THAT(answer.status().message(), HasSubstr("did not answer Register within 20 ms"));
  server_.WaitFor([this] { return server_.heard.size() == 1; });
  On(server_io_, [&] { accepted_->Reply(server_.heard[0].request, msg::Done{}); });
  server_.echo = true;
  EXPECT_TRUE(Ask(msg::Register{"y"}).ok()) << "a late reply harms nobody";
}

TEST_F(SessionTest, ARequestEndsWithTheReasonWhenTheSessionCloses) {
  server_.echo = false;
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  On(server_io_, [&] { accepted_->Close(Status(Code::kFinished, "enough for today")); });
  const auto answer = Ask(msg::Register{"x"});
  EXPECT_FALSE(answer.ok());
  EXPECT_THAT(client_.WaitClosed().message(), HasSubstr("enough for today"));
  EXPECT_EQ(Ask(msg::Register{"x"}).status().code(), Code::kUnavailable);
  EXPECT_EQ(server_.WaitClosed(), Status(Code::kFinished, "enough for today"));
}

TEST_F(SessionTest, CarriesTenThousandSmallMessagesInOrder) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  constexpr uint32_t kCount = 10'000;
  On(client_io_, [&] {
    for (uint32_t i = 0; i < kCount; ++i) session_->Send(StreamId{1}, msg::Credit{i, {}});
  });
  server_.WaitFor([this] { return server_.heard.size() == kCount; });
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(std::get<msg::Credit>(server_.heard[i].message).bytes, i);
}

TEST_F(SessionTest, CarriesABlockOf64MiBAndAMessageOf8MiB) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  On(server_io_, [&] {
    Extent block = HeapExtents().Allocate(64 * kMiB).value();
    std::memset(block.bytes().data(), 7, block.size());
    accepted_->SendBlock(StreamId{1}, std::move(block), Handover::kLend);
    EXPECT_GE(accepted_->unsent_bytes(), 64 * kMiB);
  });
  const Extent block = client_.TakeBlock();
  ASSERT_EQ(block.size(), 64 * kMiB);
  EXPECT_EQ(block.bytes().back(), std::byte{7});
  const std::string plan(8 * kMiB, 'p');
  EXPECT_EQ(std::get<msg::Registered>(Ask(msg::Register{plan}).value()).dataset, plan);
}

TEST_F(SessionTest, ABlockOverTheCreditClosesTheSession) {
  client_.block_limit = 100;
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  On(server_io_, [&] { accepted_->SendBlock(StreamId{1}, HeapExtents().Allocate(101).value(), Handover::kLend); });
  EXPECT_EQ(client_.WaitClosed().code(), Code::kTooLarge);
  EXPECT_THAT(server_.WaitClosed().message(), HasSubstr("more than the credit"));
}

TEST_F(SessionTest, ABlockThatNobodyWantsIsReadOver) {
  client_.unwanted = StreamId{1};
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  On(server_io_, [&] {
    for (const uint32_t stream : {1u, 2u}) {
      Extent block = HeapExtents().Allocate(3 * kMiB).value();
      std::memset(block.bytes().data(), static_cast<int>(stream), block.size());
      accepted_->SendBlock(StreamId{stream}, std::move(block), Handover::kCopy);
    }
  });
  EXPECT_EQ(client_.TakeBlock().bytes().front(), std::byte{2});
  EXPECT_TRUE(client_.closed.empty());
}

TEST_F(SessionTest, ABlockThatIsHalfHereIsLetGoOfWhenNobodyWantsItAnyMore) {
  client_.on_coming = [this](Session& session, StreamId stream) {
    if (stream == StreamId{1}) client_io_.Post([&session] { session.Skip(StreamId{1}); });
  };
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  On(server_io_, [&] {
    accepted_->SendBlock(StreamId{1}, HeapExtents().Allocate(64 * kMiB).value(), Handover::kCopy);
    accepted_->SendBlock(StreamId{2}, HeapExtents().Allocate(100).value(), Handover::kCopy);
  });
  EXPECT_EQ(client_.TakeBlock().size(), 100u);
  EXPECT_TRUE(client_.closed.empty());
}

TEST_F(SessionTest, StaysOpenByPingsAlone) {
  Serve({.address = "127.0.0.1:0", .pace = kFast});
  ConnectPair({.pace = kFast});
  EXPECT_EQ(Ask(msg::GetJob{JobId{1}}, 700ms).status().code(), Code::kDeadline) << "nothing else was said for twice the silence";
  EXPECT_TRUE(Ask(msg::Register{"x"}).ok());
}

// ---- who is let in

TEST_F(SessionTest, AWrongTokenIsRefusedAndToldWhatToSet) {
  Serve({.address = "127.0.0.1:0", .token = "secret"});
  for (const char* token : {"", "wrong", "secret2"}) {
    const auto session = TryConnect({.token = token});
    EXPECT_EQ(session.status().code(), Code::kPermission) << token;
    EXPECT_THAT(session.status().message(), HasSubstr("PENSTOCK_TOKEN_FILE"));
  }
  EXPECT_TRUE(TryConnect({.token = "secret"}).ok());
}

TEST_F(SessionTest, AnotherVersionIsRefusedWithBothNamed) {
  Serve({.address = "127.0.0.1:0"});
  const auto session = TryConnect({.min_version = 2, .max_version = 3});
  EXPECT_EQ(session.status().code(), Code::kMismatch);
  EXPECT_THAT(session.status().message(), HasSubstr("speaks version 1 of the protocol and this program versions 2 to 3"));
}

TEST_F(SessionTest, TheHighestCommonVersionIsChosen) {
  Serve({.address = "127.0.0.1:0", .min_version = 1, .max_version = 4});
  EXPECT_EQ(TryConnect({.min_version = 2, .max_version = 3}).value()->hello_reply().version, 3);
}

TEST_F(SessionTest, ConnectingToNobodySaysSo) {
  Serve({.address = "127.0.0.1:0"});
  const std::string address = listener_->address();
  listener_.reset();
  On(server_io_, [] {});
  const auto session = ConnectAndWait(client_io_, address, {}, client_);
  EXPECT_EQ(session.status().code(), Code::kUnavailable);
  EXPECT_THAT(session.status().message(), HasSubstr(address));
  EXPECT_EQ(ConnectAndWait(client_io_, "@penstock-nobody-here", {}, client_).status().code(), Code::kUnavailable);
  EXPECT_EQ(ConnectAndWait(client_io_, "no port", {}, client_).status().code(), Code::kInvalid);
}

TEST_F(SessionTest, ConnectingToAPeerThatNeverAnswersEndsAtTheDeadline) {
  const Bound silent = ListenOn(TcpAddress{"127.0.0.1", 0}).value();
  const auto session = ConnectAndWait(client_io_, ToString(silent.address), {.timeout = 50ms}, client_);
  EXPECT_EQ(session.status().code(), Code::kDeadline);
  EXPECT_THAT(session.status().message(), HasSubstr("did not answer hello"));
}

TEST_F(SessionTest, ConnectingOnAStoppedThreadIsAnError) {
  Serve({.address = "127.0.0.1:0"});
  client_io_.Stop();
  EXPECT_EQ(TryConnect().status().code(), Code::kCancelled);
}

TEST_F(SessionTest, ListeningWhereAnotherListensIsAnErrorThatNamesTheAddress) {
  Serve({.address = "127.0.0.1:0"});
  const auto second = Listen(server_io_, {.address = listener_->address()}, server_, [](auto) {});
  EXPECT_EQ(second.status().code(), Code::kBusy);
  EXPECT_THAT(second.status().message(), HasSubstr(listener_->address()));
}

TEST_F(SessionTest, ASocketFileThatADeadProcessLeftIsTakenOver) {
  const std::string path = ::testing::TempDir() + "penstock-stale-" + std::to_string(getpid()) + ".sock";
  { const Bound dead = ListenOn(UnixAddress{path, false}).value(); }
  Serve({.address = "unix:" + path});
  EXPECT_TRUE(TryConnect().ok());
}

// ---- peers that misbehave

// A socket that says what it likes.
class RawPeer {
 public:
  explicit RawPeer(const std::string& address) {
    const auto tcp = std::get<TcpAddress>(ParseAddress(address).value());
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(tcp.port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  }
  void Say(std::string_view bytes) { EXPECT_EQ(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size())); }
  void SayFrame(FrameHeader header, std::string_view body) {
    header.body_bytes = std::max(header.body_bytes, static_cast<uint32_t>(body.size()));
    const auto head = EncodeFrameHeader(header);
    Say({reinterpret_cast<const char*>(head.data()), head.size()});
    Say(body);
  }
  void SayHello() { SayFrame({}, EncodeMessage(msg::Hello{.min_version = 1, .max_version = 1})); }
  // Everything up to the end of the connection, saying `drip` after each piece of it.
  std::string ReadAll(std::string_view drip = {}) {
    std::string all;
    std::array<char, 4096> piece;
    for (ssize_t got = 0; (got = read(fd_.get(), piece.data(), piece.size())) > 0;) {
      all.append(piece.data(), static_cast<size_t>(got));
      (void)send(fd_.get(), drip.data(), drip.size(), MSG_NOSIGNAL);
    }
    return all;
  }
  // The reason in the last frame.
  std::string ReadGoodbye(std::string_view drip = {}) {
    const std::string all = ReadAll(drip);
    size_t at = 0;
    for (;;) {
      if (all.size() - at < kFrameHeaderBytes) return "no goodbye in " + std::to_string(all.size()) + " bytes";
      const auto head = std::as_bytes(std::span(all)).subspan(at).first<kFrameHeaderBytes>();
      const FrameHeader header = DecodeFrameHeader(head, FrameCaps{}).value();
      const auto body = std::as_bytes(std::span(all)).subspan(at + kFrameHeaderBytes, header.body_bytes);
      if (header.type == FrameType::kGoodbye) {
        const std::string aligned(reinterpret_cast<const char*>(body.data()), body.size());
        return std::get<msg::Failed>(DecodeMessage(std::as_bytes(std::span(aligned))).value()).error.ToString();
      }
      at += kFrameHeaderBytes + body.size();
    }
  }

 private:
  Fd fd_;
};

TEST_F(SessionTest, APeerThatSaysNothingIsToldAndClosed) {
  Serve({.address = "127.0.0.1:0", .pace = kFast});
  EXPECT_THAT(RawPeer(listener_->address()).ReadGoodbye(), HasSubstr("no hello came in time"));
}

TEST_F(SessionTest, GarbageIsToldAndClosed) {
  Serve({.address = "127.0.0.1:0"});
  RawPeer peer(listener_->address());
  peer.Say("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n" + std::string(100'000, 'x'));
  EXPECT_THAT(peer.ReadGoodbye(), HasSubstr("not a penstock frame"));
}

TEST_F(SessionTest, AnOversizedFrameIsRefusedBeforeItIsRead) {
  Serve({.address = "127.0.0.1:0"});
  RawPeer before(listener_->address());
  before.SayFrame({.body_bytes = 100'000}, "");
  EXPECT_THAT(before.ReadGoodbye(), HasSubstr("at most 65536 are taken before hello"));
  RawPeer after(listener_->address());
  after.SayHello();
  after.SayFrame({.body_bytes = 1'000'000'000}, "");
  EXPECT_THAT(after.ReadGoodbye(), HasSubstr("1000000000 bytes; at most"));
  EXPECT_EQ(server_.WaitClosed().code(), Code::kTooLarge);
}

TEST_F(SessionTest, AMessageBeforeHelloIsRefused) {
  Serve({.address = "127.0.0.1:0"});
  RawPeer peer(listener_->address());
  peer.SayFrame({}, EncodeMessage(msg::StatusAsk{}));
  EXPECT_THAT(peer.ReadGoodbye(), HasSubstr("StatusAsk came before hello"));
}

TEST_F(SessionTest, AFrameTypeOfTheFutureIsRefusedByItsNumber) {
  Serve({.address = "127.0.0.1:0"});
  RawPeer peer(listener_->address());
  peer.SayHello();
  peer.SayFrame({.type = FrameType{42}}, "");
  EXPECT_THAT(peer.ReadGoodbye(), HasSubstr("unknown frame type 42"));
}

TEST_F(SessionTest, ABodyThatIsNoMessageIsRefused) {
  Serve({.address = "127.0.0.1:0"});
  RawPeer peer(listener_->address());
  peer.SayHello();
  peer.SayFrame({}, "certainly no message");
  EXPECT_THAT(peer.ReadGoodbye(), HasSubstr("no message"));
}

TEST_F(SessionTest, ABlockThatWasDamagedOnItsWayIsNotTaken) {
  Serve({.address = "127.0.0.1:0"});
  const std::string block = "eight by";
  const uint32_t crc = Crc32c(std::as_bytes(std::span(block)));
  const FrameHeader header{.type = FrameType::kBlock, .flags = kPayloadCrc, .stream = 7, .payload_bytes = block.size(), .payload_crc = crc};
  RawPeer peer(listener_->address());
  peer.SayHello();
  peer.SayFrame(header, "");
  peer.Say(block);
  EXPECT_EQ(server_.TakeBlock().bytes().size(), block.size());
  peer.SayFrame(header, "");
  peer.Say("eight b!");
  EXPECT_THAT(peer.ReadGoodbye(), HasSubstr("a block was damaged on its way"));
  EXPECT_EQ(server_.WaitClosed().code(), Code::kData);
  EXPECT_TRUE(server_.blocks.empty());
}

TEST_F(SessionTest, APeerThatFallsSilentIsClosed) {
  Serve({.address = "127.0.0.1:0", .pace = kFast});
  RawPeer peer(listener_->address());
  peer.SayHello();
  EXPECT_THAT(peer.ReadGoodbye(), HasSubstr("was silent for 300 ms"));
  EXPECT_EQ(server_.WaitClosed().code(), Code::kUnavailable);
}

TEST_F(SessionTest, APeerThatDripsAMessageIsClosed) {
  Serve({.address = "127.0.0.1:0", .pace = {.ping_every = 20ms, .stalled = 200ms}});
  RawPeer peer(listener_->address());
  peer.SayHello();
  peer.SayFrame({.body_bytes = 100'000}, "the start of a message");
  EXPECT_THAT(peer.ReadGoodbye("x"), HasSubstr("has not finished a message within 200 ms"));
}

TEST_F(SessionTest, APeerThatReadsNothingIsClosed) {
  Serve({.address = "127.0.0.1:0", .pace = {.ping_every = 20ms, .stalled = 200ms}});
  RawPeer peer(listener_->address());
  peer.SayHello();
  server_.WaitFor([this] { return !server_.accepted.empty(); });
  On(server_io_, [this] { server_.accepted[0]->SendBlock(StreamId{1}, HeapExtents().Allocate(64 * kMiB).value(), Handover::kCopy); });
  EXPECT_THAT(server_.WaitClosed().message(), HasSubstr("has read nothing of what it was sent for 200 ms"));
}

TEST_F(SessionTest, APeerThatBreaksOffIsNoticedAtOnce) {
  Serve({.address = "127.0.0.1:0"});
  {
    RawPeer peer(listener_->address());
    peer.SayHello();
    server_.WaitFor([this] { return !server_.accepted.empty(); });
    peer.SayFrame({.body_bytes = 1000}, "the start of a message");
  }
  EXPECT_EQ(server_.WaitClosed().code(), Code::kUnavailable);
}

TEST_F(SessionTest, AnIoThreadThatStopsSendsWhatWasSaidLast) {
  Serve({.address = "127.0.0.1:0"});
  ConnectPair();
  client_io_.Post([this] { session_->Send(StreamId{0}, msg::Draining{}); });
  client_io_.Stop();
  server_.WaitFor([this] { return server_.heard.size() == 1; });
  EXPECT_EQ(server_.WaitClosed().code(), Code::kUnavailable);
}

TEST_F(SessionTest, MayBeHeldLongerThanItsThread) {
  Serve({.address = "127.0.0.1:0"});
  auto io = std::make_unique<IoThread>("short");
  const auto session = ConnectAndWait(*io, listener_->address(), {}, client_).value();
  io.reset();
  EXPECT_EQ(session->unsent_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
