// Starting the process of an executor.
#pragma once

#include <sys/types.h>

#include <string>

#include "penstock/status.h"

namespace penstock::worker {

// The child's descriptors, as it knows them.
inline constexpr int kExecutorSocket = 3;
inline constexpr int kExecutorDump = 4;  // where stacks are written when it dies or is asked for them
inline constexpr int kExecutorLog = 5;   // the worker's stderr, which becomes its own once it has begun

// What the interpreter says until then goes where stacks go: who waits for it is told why there is no executor.
// `python -m penstock._executor MEMORY` with these two descriptors, a process group of its own, and an environment without secrets, with one thread a
// library unless that says otherwise. posix_spawn: a fork of a process with threads is never safe.
Result<pid_t> SpawnExecutor(const std::string& python, int socket, int dump, uint64_t memory);

}  // namespace penstock::worker
