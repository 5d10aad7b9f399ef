#include "client/worker_links.h"

#include <utility>
#include <vector>

#include "wire/net.h"
#include "wire/same_host.h"

namespace penstock {

class WorkerLinks::Link final : public SessionHandler, public std::enable_shared_from_this<Link> {
 public:
  Link(WorkerLinks& links, LinkTarget target) : links_(links), target_(std::move(target)) {}

  WorkerId worker() const { return target_.worker.worker; }

  void Attach(const std::shared_ptr<LinkUser>& user) {
    users_[user.get()] = user;
    if (session_ == nullptr) return;
    links_.io_.Post([self = shared_from_this(), weak = std::weak_ptr(user)] {
      const auto still = weak.lock();
      if (still != nullptr && self->session_ != nullptr && self->users_.contains(still.get())) still->OnWorkerUp(self->worker());
    });
  }

  // True: nobody is left, and it closes.
  bool Detach(LinkUser& user) {
    users_.erase(&user);
    std::erase_if(streams_, [&](const auto& item) { return item.second == &user; });
    if (users_.empty() && session_ != nullptr) session_->Close(Status(Code::kCancelled, "no reader needs it"));
    return users_.empty();
  }

  void Send(StreamId stream, Message message, LinkUser& user) {
    if (session_ == nullptr) return;
    if (std::holds_alternative<msg::Open>(message)) streams_[stream] = &user;
    const bool closes = std::holds_alternative<msg::CloseLane>(message);
    if (closes) streams_.erase(stream);
    session_->Send(stream, std::move(message));
    if (closes) session_->Skip(stream);
  }

  // By the worker's own socket where memory can be shared; else, or if that fails, over TCP.
  void Start() {
    const bool same_host = SameHost({target_.worker.boot_id, target_.worker.netns}) && !target_.worker.unix_socket.empty();
    if (target_.shared_memory && same_host) {
      ConnectTo(target_.worker.unix_socket, true);
    } else {
      ConnectTo(target_.worker.address, false);
    }
  }

  void OnMessage(Session& /*session*/, StreamId stream, RequestId /*request*/, Message message) override {
    if (std::holds_alternative<msg::Draining>(message)) {
      for (const auto& user : Users()) user->OnWorkerDraining(worker());
      return;
    }
    const auto user = UserOf(stream);
    if (user == nullptr) return;
    const bool last_word = std::holds_alternative<msg::LaneEnded>(message) || std::holds_alternative<msg::LaneFailed>(message) ||
                           std::holds_alternative<msg::Refused>(message);
    if (last_word) streams_.erase(stream);
    user->OnLaneMessage(worker(), stream, std::move(message));
  }

  Result<Extent> OnBlockComing(Session& /*session*/, StreamId stream, uint64_t bytes) override {
    const auto user = UserOf(stream);
    if (user == nullptr) return Extent();  // of a stream that was closed; the worker may not know yet
    if (!user->ExpectsBlock(stream, bytes)) {
      return Status(Code::kInvalid, "worker " + target_.worker.address + " sent " + std::to_string(bytes) + " bytes without credit");
    }
    return links_.heap_.Allocate(bytes);
  }

  void OnBlock(Session& /*session*/, StreamId stream, Extent block, uint64_t on_wire) override {
    if (const auto user = UserOf(stream)) user->OnLaneBlock(worker(), stream, std::move(block), on_wire);
  }

  void OnClosed(Session& /*session*/, const Status& why) override { Down(why); }

 private:
  void ConnectTo(const std::string& address, bool over_unix) {
    ConnectParams params;
    params.token = target_.credentials.token;
    params.tls = target_.credentials.tls;
    params.role = "consumer";
    params.shared_memory = over_unix;
    Connect(links_.io_, address, std::move(params), *this, [self = shared_from_this(), over_unix](Result<std::shared_ptr<Session>> outcome) {
      if (outcome.ok()) return self->Up(std::move(outcome).value());
      if (over_unix) return self->ConnectTo(self->target_.worker.address, false);
      self->Down(outcome.status());
    });
  }

  void Up(std::shared_ptr<Session> session) {
    session_ = std::move(session);
    self_ = shared_from_this();
    if (users_.empty()) return session_->Close(Status(Code::kCancelled, "no reader needs it"));
    for (const auto& user : Users()) user->OnWorkerUp(worker());
  }

  void Down(const Status& why) {
    const auto self = std::exchange(self_, nullptr);
    session_.reset();
    streams_.clear();
    const auto users = Users();
    users_.clear();
    links_.Forget(target_.key(), this);
    for (const auto& user : users) user->OnWorkerDown(worker(), why);
  }

  std::vector<std::shared_ptr<LinkUser>> Users() const {
    std::vector<std::shared_ptr<LinkUser>> users;
    for (const auto& [key, weak] : users_) {
      if (auto user = weak.lock()) users.push_back(std::move(user));
    }
    return users;
  }

  std::shared_ptr<LinkUser> UserOf(StreamId stream) const {
    const auto at = streams_.find(stream);
    if (at == streams_.end()) return nullptr;
    const auto user = users_.find(at->second);
    return user == users_.end() ? nullptr : user->second.lock();
  }

  WorkerLinks& links_;
  const LinkTarget target_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Link> self_;  // while the session may call back
  std::map<LinkUser*, std::weak_ptr<LinkUser>> users_;
  std::map<StreamId, LinkUser*> streams_;
};

void WorkerLinks::Attach(const LinkTarget& target, const std::shared_ptr<LinkUser>& user) {
  auto& link = links_[target.key()];
  if (link != nullptr) return link->Attach(user);
  link = std::make_shared<Link>(*this, target);
  link->Attach(user);
  link->Start();
}

void WorkerLinks::Detach(const LinkKey& key, LinkUser& user) {
  const auto at = links_.find(key);
  if (at == links_.end()) return;
  const std::shared_ptr<Link> link = at->second;
  if (link->Detach(user)) links_.erase(at);
}

void WorkerLinks::Send(const LinkKey& key, StreamId stream, Message message, LinkUser& user) {
  const auto link = links_.find(key);
  if (link != links_.end()) link->second->Send(stream, std::move(message), user);
}

void WorkerLinks::Forget(const LinkKey& key, const Link* link) {
  const auto at = links_.find(key);
  if (at != links_.end() && at->second.get() == link) links_.erase(at);
}

}  // namespace penstock
