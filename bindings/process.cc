// What an executor asks of the kernel for itself.
#include <nanobind/nanobind.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bind.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

// SIGKILL by PR_SET_PDEATHSIG would end this process alone, and leave what user code has forked. So it is another signal, one that nobody uses, whose
// handler ends the group: here, not in Python, which would wait for user code to return.
void EndGroupWithParent() {
  const int signal = SIGRTMAX - 1;
  struct sigaction ending {};
  ending.sa_handler = [](int) { kill(getpgrp() == getpid() ? 0 : getpid(), SIGKILL); };  // never a group that is somebody else's
  sigfillset(&ending.sa_mask);
  sigaction(signal, &ending, nullptr);
  prctl(PR_SET_PDEATHSIG, signal);
}

}  // namespace

void BindProcess(nb::module_& m) { m.def("end_group_with_parent", &EndGroupWithParent); }

}  // namespace penstock::python
