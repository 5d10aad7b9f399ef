#include "wire/same_host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <random>

namespace penstock {

const HostIdentity& ThisHost() {
  // Never destroyed, as the system clock is not.
  static const HostIdentity& host = *[] {
    auto* identity = new HostIdentity;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> identity->boot_id;
    struct stat netns {};
    if (stat("/proc/self/ns/net", &netns) == 0) identity->netns = netns.st_ino;
    return identity;
  }();
  return host;
}

bool SameHost(const HostIdentity& identity) {
  const HostIdentity& here = ThisHost();
  return !here.boot_id.empty() && here.netns != 0 && identity.boot_id == here.boot_id && identity.netns == here.netns;
}

std::string MakeSocketName(std::string_view what) {
  std::random_device random;
  return "@penstock-" + std::string(what) + "-" + std::to_string(getpid()) + "-" + std::to_string(random());
}

std::string HostAndPid() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

}  // namespace penstock
