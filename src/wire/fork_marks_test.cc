#include "wire/fork_marks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(ForkMarks, AChildClosesWhatIsMarkedAndNothingElse) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const ForkMark mark(ends[0]);
  { const ForkMark gone(ends[1]); }
  const pid_t child = fork();
  if (child == 0) {
    CloseMarkedAfterFork();
    _exit(IsOpen(ends[0]) || !IsOpen(ends[1]) ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(IsOpen(ends[0]));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace penstock
