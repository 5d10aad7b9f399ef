#include "worker/executor_notes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "base/constants.h"

namespace penstock::worker {
namespace {

constexpr size_t kFramesTold = 3;
constexpr size_t kLineTold = 500;  // letters

}  // namespace

ExecutorDoing ReadDoing(int file) {
  std::array<uint64_t, 2> numbers{};
  ExecutorDoing doing;
  if (pread(file, numbers.data(), sizeof(numbers), 0) != sizeof(numbers)) return doing;
  doing.what.resize(std::min<uint64_t>(numbers[1], kDoingPage - sizeof(numbers)));
  const ssize_t got = pread(file, doing.what.data(), doing.what.size(), sizeof(numbers));
  doing.what.resize(got < 0 ? 0 : static_cast<size_t>(got));
  if (!doing.what.empty()) doing.seq = numbers[0];
  return doing;
}

std::string ReadStacks(int file) {
  std::string text(64 * kKiB, '\0');
  const ssize_t got = pread(file, text.data(), text.size(), kDoingPage);
  text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return text;
}

std::string EndOfStack(const std::string& stacks) {
  const size_t current = stacks.find("Current thread");
  std::istringstream lines(stacks.substr(current == std::string::npos ? 0 : current));
  std::string told;
  size_t frames = 0;
  bool begun = false;
  for (std::string line; frames < kFramesTold && std::getline(lines, line);) {
    const bool frame = line.starts_with("  File ");
    if (begun && !frame) break;
    begun = begun || frame;
    if (!frame || line.find("/penstock/_executor/") != std::string::npos) continue;
    told += (frames++ == 0 ? "" : ", called from ") + line.substr(std::strlen("  "));
  }
  return told;
}

std::string LastLine(const std::string& said) {
  const size_t end = said.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  const size_t before = said.rfind('\n', end);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return said.substr(begin, std::min(end - begin + 1, kLineTold));
}

}  // namespace penstock::worker
