#include "client/stopped.h"

#include <mutex>
#include <unordered_map>

namespace penstock {
namespace {

struct Stopped {
  std::mutex mutex;
  std::unordered_map<std::string, TimePoint> at;
};

Stopped& Known() {
  static auto* known = new Stopped;  // readers may ask while the program ends
  return *known;
}

}  // namespace

void NoteStopped(const std::string& address) {
  const std::lock_guard lock(Known().mutex);
  Known().at[address] = Clock::System().Now();
}

bool StoppedSince(const std::string& address, TimePoint since) {
  const std::lock_guard lock(Known().mutex);
  const auto found = Known().at.find(address);
  return found != Known().at.end() && found->second >= since;
}

Status ServiceStopped(const std::string& address) {
  return Status(Code::kUnavailable, "this process has stopped its own service at " + address +
                                        "; read inside `with penstock.local()`, and close() the service afterwards");
}

}  // namespace penstock
