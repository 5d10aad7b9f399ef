#include "wire/refusal_log.h"

#include "base/clock.h"
#include "base/log.h"

namespace penstock {
namespace {

void Write(const RefusalBook::Line& line) { LogWarn(line.event, {{"peer", line.peer}, {"why", line.why}, {"count", line.count}}); }

}  // namespace

void RefusalLog::Say(std::string_view event, const std::string& host, const std::string& peer, const Status& why) {
  const bool waits = !book_.idle();
  if (const auto line = book_.Note(Clock::System().Now(), host, {event, peer, why.message(), 1})) Write(*line);
  if (!waits) SayHeldLater();
}

void RefusalLog::Close() {
  timer_.reset();
  for (const auto& line : book_.Due(Clock::System().Now() + RefusalBook::kPause)) Write(line);
}

void RefusalLog::SayHeldLater() {
  if (timer_ == nullptr || book_.idle()) return;
  timer_->After(RefusalBook::kPause, [this] {
    for (const auto& line : book_.Due(Clock::System().Now())) Write(line);
    SayHeldLater();
  });
}

}  // namespace penstock
