#include "worker/usage.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace penstock::worker {
namespace {

uint64_t Nanoseconds(const timeval& time) { return (static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec)) * 1000; }

// 0 where the file is not there or sets no limit ("max").
uint64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : 0;
}

// Of this process's own cgroup and those above it: in a container they are the root, under Slurm or systemd they are not.
std::vector<std::string> LimitFiles() {
  std::vector<std::string> files{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"};
  std::ifstream own("/proc/self/cgroup");
  for (std::string line; std::getline(own, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/'))) files.push_back("/sys/fs/cgroup" + path + "/memory.max");
  }
  return files;
}

}  // namespace

Usage ProcessUsage() {
  Usage usage;
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  if (statm >> size >> resident) usage.rss = resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  usage.cpu_ns = Nanoseconds(used.ru_utime) + Nanoseconds(used.ru_stime);
  return usage;
}

uint32_t CoreCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(CPU_COUNT(&set), 1));
}

uint64_t DefaultMemory() {
  const auto pages = static_cast<uint64_t>(std::max(sysconf(_SC_PHYS_PAGES), 1L));
  uint64_t memory = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const std::string& path : LimitFiles()) {
    if (const uint64_t limit = NumberIn(path); limit > 0) memory = std::min(memory, limit);
  }
  return memory / 10 * 6;
}

}  // namespace penstock::worker
