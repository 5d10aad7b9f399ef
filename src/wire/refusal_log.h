// Logs what was refused, with a RefusalBook's measure. I/O thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "penstock/status.h"
#include "wire/io_thread.h"
#include "wire/refusals.h"

namespace penstock {

// What it holds back it says within a second, and when it is closed.
class RefusalLog {
 public:
  explicit RefusalLog(IoThread& io) : timer_(std::make_unique<Timer>(io)) {}

  // event: a literal. host: of whom lines are counted together.
  void Say(std::string_view event, const std::string& host, const std::string& peer, const Status& why);
  void Close();

 private:
  void SayHeldLater();
  RefusalBook book_;
  std::unique_ptr<Timer> timer_;
};

}  // namespace penstock
