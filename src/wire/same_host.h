// Are two processes on one host, so that memory can be shared? Boot id and network namespace must agree; anything else means TCP.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

struct HostIdentity {
  std::string boot_id;  // "" where it cannot be read: then never the same
  uint64_t netns = 0;   // inode of the network namespace: abstract sockets live in it
};

const HostIdentity& ThisHost();
bool SameHost(const HostIdentity& identity);
std::string MakeSocketName(std::string_view what);  // "@penstock-worker-<pid>-<random>": an abstract Unix socket nobody else has
std::string HostAndPid();                           // "host:pid", for people

}  // namespace penstock
