#include "dispatcher/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace penstock::dispatcher {
namespace {

std::string ReadHolder(int fd) {
  char text[256];
  const ssize_t length = ::pread(fd, text, sizeof text, 0);
  return length > 0 ? std::string(text, static_cast<size_t>(length)) : "another process";
}

}  // namespace

Result<StateLock> StateLock::Take(const std::string& dir) {
  const std::string path = dir + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Status(Code::kPermission,
                  "cannot write to the state directory: " + path + ": " + std::strerror(errno) + "; choose another with --state-dir")
        .With("file", path);
  }
  StateLock lock(path, fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const std::string first = ReadHolder(fd);
    return Status(Code::kBusy,
                  "the state directory " + dir + " is in use by the dispatcher " + first + ": stop that one, or choose another --state-dir")
        .With("holder", first);
  }
  return lock;
}

Status StateLock::Describe(const std::string& holder) {
  if (::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, holder.data(), holder.size(), 0) == static_cast<ssize_t>(holder.size())) return {};
  return Status(Code::kUnavailable, "cannot write " + path_ + ": " + std::strerror(errno) + "; is the disk full?").With("file", path_);
}

StateLock::StateLock(StateLock&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

StateLock::~StateLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace penstock::dispatcher
