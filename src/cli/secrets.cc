#include "cli/secrets.h"

#include <string.h>
#include <sys/prctl.h>

#include <cstdlib>

namespace penstock::cli {

void ForgetSecrets() {
  char* value = std::getenv("PENSTOCK_TOKEN");
  if (value == nullptr) return;
  explicit_bzero(value, strlen(value));
  unsetenv("PENSTOCK_TOKEN");
}

void HideFromOwnUser() { (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }  // cannot fail with these arguments

}  // namespace penstock::cli
