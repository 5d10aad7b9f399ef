#include "dispatcher/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <future>

#include "dispatcher/full_disk.h"
#include "penstock/plan.h"
#include "wire/net.h"
#include "wire/token.h"

namespace penstock::dispatcher {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// Somebody who asks a dispatcher.
class Peer final : public ControlHandler {
 public:
  Status Connect(const std::string& address, const std::string& token = "") {
    ConnectParams params;
    params.token = token;
    params.role = "cli";
    PENSTOCK_ASSIGN(session_, ConnectAndWait(io_, address, params, *this));
    return {};
  }
  ~Peer() override { io_.Stop(); }

  Result<Message> Ask(Message message) {
    std::promise<Result<Message>> promise;
    io_.Post([&] { session_->Request(std::move(message), 20s, [&](Result<Message> answer) { promise.set_value(std::move(answer)); }); });
    return promise.get_future().get();
  }
  const msg::HelloReply& hello() const { return session_->hello_reply(); }
  Status WaitClosed() { return closed_.get_future().get(); }

  void OnMessage(Session& session, StreamId, RequestId request, Message message) override {
    // As a worker it lists inputs: three lanes.
    if (std::holds_alternative<msg::ListInputs>(message)) {
      msg::Inputs inputs;
      inputs.layout.lanes = 3;
      inputs.layout.row_spec = LeafSpec(DType::kInt64, {});
      session.Reply(request, std::move(inputs));
    }
  }
  void OnClosed(Session&, const Status& why) override { closed_.set_value(why); }

 private:
  IoThread io_{"peer"};
  std::shared_ptr<Session> session_;
  std::promise<Status> closed_;
};

std::string SomePlan() {
  AttrMap attrs;
  attrs.Set("start", int64_t{0});
  attrs.Set("stop", int64_t{10});
  attrs.Set("step", int64_t{1});
  return SerializePlan(Plan::Over({}, "range", attrs));
}

class DispatcherServerTest : public testing::Test {
 protected:
  DispatcherServerTest() : dir_(testing::TempDir() + "penstock-server-" + std::to_string(::getpid())) { std::filesystem::remove_all(dir_); }
  ~DispatcherServerTest() override { std::filesystem::remove_all(dir_); }

  static std::unique_ptr<DispatcherServer> Start(ServerOptions options) {
    Result<std::unique_ptr<DispatcherServer>> server = DispatcherServer::Start(std::move(options));
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? std::move(*server) : nullptr;
  }

  const std::string dir_;
};

TEST_F(DispatcherServerTest, AnswersOverRealSockets) {
  auto server = Start({});
  Peer worker, consumer;
  ASSERT_TRUE(worker.Connect(server->address()).ok());
  ASSERT_TRUE(consumer.Connect(server->address()).ok());
  msg::WorkerHello hello;
  hello.incarnation = 7;
  ASSERT_TRUE(worker.Ask(hello).ok());
  msg::Join join;
  join.dataset = std::get<msg::Registered>(consumer.Ask(msg::Register{SomePlan()}).value()).dataset;
  join.incarnation = 1;
  const Result<Message> joined = consumer.Ask(join);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(std::get<msg::Joined>(*joined).layout.lanes, 3u);
}

TEST_F(DispatcherServerTest, ARestartOnItsDirectoryIsANewTermOfTheSameCluster) {
  std::string dataset, cluster;
  {
    auto server = Start({.state_dir = dir_});
    cluster = server->cluster();
    Peer peer;
    ASSERT_TRUE(peer.Connect(server->address()).ok());
    dataset = std::get<msg::Registered>(peer.Ask(msg::Register{SomePlan()}).value()).dataset;
  }
  auto server = Start({.state_dir = dir_});
  Peer peer;
  ASSERT_TRUE(peer.Connect(server->address()).ok());
  EXPECT_EQ(peer.hello().cluster, cluster);
  EXPECT_EQ(peer.hello().term, Term{2});
  EXPECT_EQ(std::get<msg::DatasetReply>(peer.Ask(msg::GetDataset{dataset}).value()).plan, SomePlan());
}

TEST_F(DispatcherServerTest, ASecondOneOnTheSameDirectoryRefusesAndNamesTheFirst) {
  auto first = Start({.state_dir = dir_});
  const Status error = DispatcherServer::Start({.state_dir = dir_}).status();
  EXPECT_EQ(error.code(), Code::kBusy);
  EXPECT_THAT(error.message(), HasSubstr(first->address()));
}

TEST_F(DispatcherServerTest, APortInUseIsNamed) {
  auto first = Start({});
  const Status error = DispatcherServer::Start({.listen = first->address()}).status();
  EXPECT_EQ(error.code(), Code::kBusy) << "worth trying again: the one before may be about to end";
  EXPECT_THAT(error.message(), HasSubstr(first->address()));
}

TEST_F(DispatcherServerTest, AWrongTokenIsRefused) {
  auto server = Start({.token = "secret"});
  Peer stranger, friendly;
  EXPECT_EQ(stranger.Connect(server->address(), "guess").code(), Code::kPermission);
  EXPECT_TRUE(friendly.Connect(server->address(), "secret").ok());
}

TEST_F(DispatcherServerTest, WithATokenForAJobOrATimeNobodyIsAWorker) {
  const std::string own = "the service's own";
  auto server = Start({.token = own});
  const int64_t later = std::time(nullptr) + 3600;
  for (const TokenClaims& claims : {TokenClaims{.job = {}, .expires = later}, TokenClaims{.job = "mine"}}) {
    Peer peer;
    ASSERT_TRUE(peer.Connect(server->address(), DeriveToken(own, claims)).ok());
    EXPECT_TRUE(peer.Ask(msg::Register{SomePlan()}).ok());
    for (const Message& asked : {Message(msg::WorkerHello{}), Message(msg::WorkerBeat{}), Message(msg::GetJob{})}) {
      const Status refused = peer.Ask(asked).status();
      EXPECT_EQ(refused.code(), Code::kPermission);
      EXPECT_THAT(refused.message(), HasSubstr("a worker shows the service's own"));
    }
  }
}

TEST_F(DispatcherServerTest, APlanThatIsNoneIsRefused) {
  auto server = Start({});
  Peer peer;
  ASSERT_TRUE(peer.Connect(server->address()).ok());
  EXPECT_FALSE(peer.Ask(msg::Register{"no plan"}).ok());
}

TEST_F(DispatcherServerTest, ACommitThatFailsIsNotAnsweredAndStopsItWithTheReason) {
  auto server = Start({.state_dir = dir_});
  Peer peer;
  ASSERT_TRUE(peer.Connect(server->address()).ok());
  AttrMap large;
  large.Set("name", std::string(4 << 20, 'x'));
  {
    const FullDisk full;
    const Result<Message> answer = peer.Ask(msg::Register{SerializePlan(Plan::Over({}, "any", large))});
    EXPECT_FALSE(answer.ok());
    EXPECT_THAT(server->Wait().message(), HasSubstr("the disk is full"));
  }
  EXPECT_THAT(peer.WaitClosed().message(), HasSubstr("the disk is full")) << "who is connected hears why";
  server.reset();
  EXPECT_TRUE(DispatcherServer::Start({.state_dir = dir_}).ok()) << "with room again it starts from what was stored";
}

TEST_F(DispatcherServerTest, StopEndsWaitAndClosesSessions) {
  auto server = Start({});
  Peer peer;
  ASSERT_TRUE(peer.Connect(server->address()).ok());
  auto waited = std::async(std::launch::async, [&] { return server->Wait(); });
  server->Stop();
  EXPECT_TRUE(waited.get().ok());
  EXPECT_FALSE(peer.WaitClosed().ok());
}

}  // namespace
}  // namespace penstock::dispatcher
