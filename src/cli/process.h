// What a server asks of the process that it runs in.
#pragma once

namespace penstock::cli {

// As many open files as the system grants this user: lanes and consumers each take some. A file that may not grow any more is an error of the
// write that meets it, which says so, and not the end of the process.
void PrepareServerProcess();

}  // namespace penstock::cli
