// What an executor leaves behind in the file that it was given for its stacks: in the first page what it worked on, behind it what faulthandler
// wrote; what the interpreter wrote, where it ended before it had begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "penstock/ids.h"

namespace penstock::worker {

inline constexpr size_t kDoingPage = 4096;  // PAGE of python/penstock/_executor/doing.py

// In words, "" where no user code ran; and at or from which row, kLaneEnd where that is not known.
struct ExecutorDoing {
  Seq seq = kLaneEnd;
  std::string what;
};

// The file is user code's to write: whatever is in it, this is short and harmless.
ExecutorDoing ReadDoing(int file);
std::string ReadStacks(int file);
// The innermost frames of user code in the thread that faulthandler calls the current one, else in the first, in a line; "" where there are none.
std::string EndOfStack(const std::string& stacks);
// The last line that says something; "" where there is none.
std::string LastLine(const std::string& said);

}  // namespace penstock::worker
