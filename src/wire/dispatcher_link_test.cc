#include "wire/dispatcher_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/same_host.h"
#include "wire/session_fixture.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

class DispatcherLinkTest : public SessionTest {
 protected:
  ~DispatcherLinkTest() override { Stop(); }

  void ServeAs(const std::string& cluster, Term term) { Serve({.address = address_, .cluster = cluster, .term = term}); }

  void Link() {
    On(client_io_, [this] {
      DispatcherLink::Handler handler;
      handler.up = [this] { client_.Change([this] { ++ups_; }); };
      handler.down = [this](const Status& why) { client_.Change([&] { down_ = why; }); };
      handler.refused = [this](const Status& why) { client_.Change([&] { refused_ = why; }); };
      handler.said = [](RequestId, const Message&) {};
      link_ = DispatcherLink::Make(client_io_, address_, {}, identity_, std::move(handler));
      link_->Start();
    });
  }

  // The dispatcher goes, and another takes its address.
  void Replace(const std::string& cluster, Term term) {
    On(server_io_, [this] {
      listener_.reset();
      for (const auto& session : server_.accepted) session->Close(Status(Code::kUnavailable, "the dispatcher was stopped"));
    });
    On(server_io_, [] {});  // its socket is closed when the accept that was under way has been told
    ServeAs(cluster, term);
  }

  const std::string address_ = MakeSocketName("link");
  const std::shared_ptr<ServiceIdentity> identity_ = std::make_shared<ServiceIdentity>();
  std::shared_ptr<DispatcherLink> link_;
  int ups_ = 0;
  Status down_;
  Status refused_;
};

TEST_F(DispatcherLinkTest, ComesBackToALaterTermOfTheCluster) {
  ServeAs("a", Term{1});
  Link();
  client_.WaitFor([this] { return ups_ == 1; });
  Replace("a", Term{2});
  client_.WaitFor([this] { return ups_ == 2; });
  EXPECT_TRUE(refused_.ok());
}

TEST_F(DispatcherLinkTest, TakesNoOlderTermAndTriesUntilTheNewerOneIsBack) {
  ServeAs("a", Term{2});
  Link();
  client_.WaitFor([this] { return ups_ == 1; });
  Replace("a", Term{1});
  client_.WaitFor([this] { return down_.message().find("older term (1)") != std::string::npos; });
  EXPECT_EQ(ups_, 1);
  Replace("a", Term{2});
  client_.WaitFor([this] { return ups_ == 2; });
}

TEST_F(DispatcherLinkTest, TakesOneThatHasJustBegunForItsOwnThatLostItsState) {
  ServeAs("a", Term{5});
  Link();
  client_.WaitFor([this] { return ups_ == 1; });
  Replace("b", Term{1});
  client_.WaitFor([this] { return ups_ == 2; });
  EXPECT_TRUE(refused_.ok());
}

TEST_F(DispatcherLinkTest, RefusesAWorkerThatWasTakenForTheDispatcher) {
  ServeAs("", Term{});
  Link();
  client_.WaitFor([this] { return !refused_.ok(); });
  EXPECT_EQ(refused_.code(), Code::kInvalid);
  EXPECT_THAT(refused_.message(), HasSubstr("is a worker; give the address that `penstock dispatcher` prints"));
  EXPECT_EQ(ups_, 0);
}

TEST_F(DispatcherLinkTest, RefusesAnotherClusterUntilToldToStartAgain) {
  ServeAs("a", Term{5});
  Link();
  client_.WaitFor([this] { return ups_ == 1; });
  Replace("b", Term{2});
  client_.WaitFor([this] { return !refused_.ok(); });
  EXPECT_EQ(refused_.code(), Code::kMismatch);
  EXPECT_THAT(refused_.message(), HasSubstr("another cluster (b)"));
  On(client_io_, [this] {
    *identity_ = {};
    link_->Start();
  });
  client_.WaitFor([this] { return ups_ == 2; });
}

}  // namespace
}  // namespace penstock
