// The client's one I/O thread in a process (engine.md 6). Made at first use and never destroyed: batches and readers may die at any time, also
// while the program exits.
//
// A forked child has no such thread. There the hub is dead: its descriptors are closed, so that peers see the parent's end and not the child's;
// what else belonged to the parent is left alone (never destroyed, never recycled), an old reader says what to do, and a new Client gets a hub
// of its own. Batches that the child inherited stay as they are: the parent tells the worker not to use their memory again.
#pragma once

#include <cstdint>
#include <memory>

#include "client/core.h"
#include "client/worker_links.h"
#include "penstock/status.h"
#include "wire/io_thread.h"

namespace penstock {

// Which side of which fork this is. Things of the hub remember the stamp that they were made under.
enum class ForkStamp : uint64_t {};
ForkStamp CurrentStamp();  // any thread, cheap

class Hub {
 public:
  static Hub& Get();  // of this process, also after a fork

  IoThread& io() { return io_; }
  WorkerLinks& workers() { return workers_; }  // I/O thread only
  const std::shared_ptr<StreamNumbers>& streams() const { return streams_; }
  ForkStamp stamp() const { return stamp_; }

 private:
  Hub();
  const ForkStamp stamp_;
  IoThread io_;
  WorkerLinks workers_;
  std::shared_ptr<StreamNumbers> streams_ = std::make_shared<StreamNumbers>();
};

// Ok, or what to do in a forked child.
Status CheckNotForked(ForkStamp made, const char* what);

}  // namespace penstock
