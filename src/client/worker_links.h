// Sessions to workers, shared by all readers of the process. I/O thread only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/extent.h"
#include "penstock/ids.h"
#include "penstock/status.h"
#include "wire/io_thread.h"
#include "wire/messages.h"
#include "wire/net.h"
#include "wire/session.h"

namespace penstock {

// A reader, as a link sees it. Calls come from the I/O thread, never from inside a call of WorkerLinks.
class LinkUser {
 public:
  virtual ~LinkUser() = default;
  virtual void OnWorkerUp(WorkerId worker) = 0;
  virtual void OnWorkerDown(WorkerId worker, const Status& why) = 0;  // detached with it
  virtual void OnWorkerDraining(WorkerId worker) = 0;
  virtual void OnLaneMessage(WorkerId worker, StreamId stream, Message message) = 0;
  virtual void OnLaneBlock(WorkerId worker, StreamId stream, Extent block, uint64_t on_wire) = 0;
  // Whether the worker has credit for so many bytes.
  virtual bool ExpectsBlock(StreamId stream, uint64_t bytes) const = 0;
};

// A worker, and how it is reached: a session is shared by those alone who show the same.
struct LinkKey {
  WorkerId worker{};
  bool shared_memory = true;
  std::string token{};
  std::shared_ptr<const Tls> tls{};
  friend auto operator<=>(const LinkKey&, const LinkKey&) = default;
};
struct LinkTarget {
  msg::WorkerInfo worker;
  Credentials credentials;
  bool shared_memory = true;

  LinkKey key() const { return {worker.worker, shared_memory, credentials.token, credentials.tls}; }
};

class WorkerLinks {
 public:
  explicit WorkerLinks(IoThread& io) : io_(io) {}

  // OnWorkerUp or OnWorkerDown follows.
  void Attach(const LinkTarget& target, const std::shared_ptr<LinkUser>& user);
  // The last user's leaving closes the session.
  void Detach(const LinkKey& key, LinkUser& user);
  // Open makes `stream` the user's; CloseLane, and the worker's last word on it, end that. Dropped where the link is down.
  void Send(const LinkKey& key, StreamId stream, Message message, LinkUser& user);

 private:
  class Link;
  friend class Link;
  void Forget(const LinkKey& key, const Link* link);

  IoThread& io_;
  HotExtents heap_;  // one for all: what is kept for use again does not grow with the workers
  std::map<LinkKey, std::shared_ptr<Link>> links_;
};

}  // namespace penstock
