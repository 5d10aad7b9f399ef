// Child processes that never outlive this one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "penstock/status.h"

namespace penstock::cli {

// A server of this same executable, and the pipe on which it says where it listens.
struct ServerChild {
  pid_t pid = -1;
  int ready = -1;
};

// Call before this process has threads. The child dies by SIGKILL with this one, however that ends, and a terminal's Ctrl-C does not reach it. Its
// environment is this one's but for the variables `without`.
Result<ServerChild> StartServer(const std::vector<std::string>& arguments, const std::vector<std::string>& without = {});
// Its address. Where it ended before it was ready, it has said why on stderr: Invalid where it was told something that cannot be, else Unavailable.
Result<std::string> WaitReady(ServerChild& child, const std::string& what);
// Any command; gets SIGTERM when this process ends before it.
Result<pid_t> StartCommand(const std::vector<std::string>& command);
// On the other side: this process shall end by SIGKILL with `parent`, which started it (-1: with nobody). Unavailable where that one is gone already.
Status EndWithParent(int parent);
// Kills and reaps, so that none of them notices that another went.
void EndChildren(const std::vector<pid_t>& children);

}  // namespace penstock::cli
