// What other threads have to tell the worker's I/O thread: collected, and taken over whole with one wake.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/extent.h"
#include "wire/io_thread.h"
#include "worker/events.h"

namespace penstock::worker {

// An event, and the memory of the blocks that it may bring, in their order.
struct Note {
  Event event;
  std::vector<Extent> blocks;
};

// Any thread. Outlives the server where extents do: after Close it takes nothing any more.
class Inbox {
 public:
  using Notes = std::vector<Note>;
  Inbox(IoThread& io, std::function<void(Notes)> take) : io_(&io), take_(std::move(take)) {}

  void Push(Note note) {
    const std::lock_guard lock(mutex_);
    if (io_ == nullptr) return;
    notes_.push_back(std::move(note));
    if (notes_.size() == 1) io_->Post([this] { Drain(); });
  }
  void Close() {
    Notes dropped;
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
    dropped.swap(notes_);
  }

 private:
  void Drain() {
    Notes notes;
    {
      const std::lock_guard lock(mutex_);
      notes.swap(notes_);
    }
    take_(std::move(notes));
  }

  std::mutex mutex_;
  IoThread* io_;
  Notes notes_;
  std::function<void(Notes)> take_;
};

}  // namespace penstock::worker
