#include "cli/process.h"

#include <signal.h>
#include <sys/resource.h>

namespace penstock::cli {

void PrepareServerProcess() {
  signal(SIGXFSZ, SIG_IGN);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);  // with fewer it works too
}

}  // namespace penstock::cli
