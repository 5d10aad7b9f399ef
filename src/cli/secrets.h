// What a server that runs other people's code keeps from it.
#pragma once

namespace penstock::cli {

// The value of PENSTOCK_TOKEN goes from this process's environment, out of the memory that /proc/PID/environ shows, too. After it was read, and
// before other threads are there.
void ForgetSecrets();

// Other processes of this user cannot read this one's memory, environment or descriptors through /proc, nor trace it. It dumps no core, then.
void HideFromOwnUser();

}  // namespace penstock::cli
